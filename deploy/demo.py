"""`make demo`: a complete repair on this machine, without account or key.

A local stand-in for GitHub hosts a sample repository. A commit breaks its tests; the stand-in runs the CI and delivers a signed
webhook; the service (web, worker and embedded Redis, all real processes) repairs it, and the demo prints the pull request.
Everything lives in a temporary folder. Exit code 0 only if a verified pull request was opened.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.syntax import Syntax

from agent.contract.events import Ended
from agent.contract.outcome import Outcome
from app import stopping
from app.cli import terminal
from app.cli.terminal import plain
from app.clock import SystemClock
from app.settings import load
from app.store.store import Store, open_store
from app.store.values import Attempt
from tests.standins.github import GitHub
from tests.story.service import Died, NotStarted, Service, running

SAMPLE = Path(__file__).parent / "sample"
REPOSITORY = "acme/parcel"
PERSON = "you"
PATIENCE = 600.0  # seconds for one attempt
LAST_LINES = 25  # of each log, after a failure


@dataclass(frozen=True, slots=True)
class Bug:
    """A plausible commit that breaks the sample: replacements of one text in one file each (path, before, after)."""

    changes: tuple[tuple[str, str, str], ...]
    message: str


_LAST_TEST = '    assert price(200, "DE", insured=100) == 490\n'
_NEW_TEST = '\n\ndef test_express_costs_five_euros_more():\n    assert price(200, "DE", express=True) == 890\n'
_LAST_FUNCTION = "    return max(grams, volumetric_weight(*box))\n"
_NEW_FUNCTION = """

def split_weight(grams, most=31_500):
    \"\"\"Return the grams of each parcel of a shipment that is too heavy for one.\"\"\"
    if most <= 0:
        raise ValueError("a parcel takes at least a gram")
    full, rest = divmod(grams, most)
    parcels = [most] * int(full)
    if rest:
        parcels.append(rest)
    return parcels
"""
_SPLIT_TEST = """\
    assert billable_weight(800) == 800


def test_a_heavy_shipment_is_split():
    from parcel.weights import split_weight

    assert split_weight(70_000) == [31_500, 31_500, 7_000]
"""
BUGS = {
    # A feature with its test, and a slip in another function: the author keeps the tests up to date, so the slip is repaired.
    "easy": Bug(
        (
            ("src/parcel/rates.py", "if grams <= limit:", "if grams < limit:"),
            ("src/parcel/rates.py", "country, *, insured=0):", "country, *, insured=0, express=False):"),
            ("src/parcel/rates.py", "    return cents\n", "    if express:\n        cents += 500\n    return cents\n"),
            ("tests/test_rates.py", _LAST_TEST, _LAST_TEST + _NEW_TEST),
        ),
        "Add express delivery, simplify the bracket lookup",
    ),
    "hard": Bug(
        (
            ("src/parcel/weights.py", _LAST_FUNCTION, _LAST_FUNCTION + _NEW_FUNCTION),
            ("tests/test_weights.py", "    assert billable_weight(800) == 800\n", _SPLIT_TEST),
            (
                "src/parcel/weights.py",
                """    rest = _QUANTITY.sub("", text).strip(" ,+")
    found = _QUANTITY.findall(text)
    if rest or not found:
        raise ValueError(f"not a weight: {text!r}")
    return sum(float(number) * _GRAMS[unit.lower()] for number, unit in found)
""",
                """    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a weight: {text!r}")
    number, unit = match.groups()
    return float(number) * _GRAMS[unit.lower()]
""",
            ),
        ),
        "Split heavy shipments, read a weight in one match",
    ),
}


class Output:
    """Prints progress with the seconds since the start; long lines are not wrapped unless a terminal limits them."""

    def __init__(self) -> None:
        self.console = terminal.console()
        self._started = time.monotonic()

    def say(self, text: str, style: str = "") -> None:
        self.console.print(plain(f"{time.monotonic() - self._started:6.1f} s  {text}", style))

    def show(self, title: str, text: str) -> None:
        self.console.print(plain(f"\n──── {title}", "bold"))
        self.console.print(plain(text))

    def show_diff(self, text: str) -> None:
        self.console.print(plain("──── diff", "bold"))
        self.console.print(Syntax(text, "diff", background_color="default") if self.console.is_terminal else plain(text))


@dataclass(slots=True)
class DemoSession:
    """The running demo: prints deliveries, timelines and outcomes."""

    github: GitHub
    service: Service
    store: Store
    output: Output
    deliveries: set[int] = field(default_factory=set)
    seen: dict[str, int] = field(default_factory=dict)  # attempt → last event printed
    ended: set[str] = field(default_factory=set)

    async def next_end(self, seconds: float = math.inf) -> Attempt:
        """Print events until another attempt ends. Raises `TimeoutError` after `seconds`, and `Died`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.service.check()
            for delivery in self.github.deliveries:
                answered = delivery.event == "workflow_run" and delivery.action == "completed" and delivery.status_code
                if answered and delivery.id not in self.deliveries:
                    self.deliveries.add(delivery.id)
                    self.output.say(f"GitHub delivered the signed webhook: {delivery.status_code} {delivery.answer}")
            for attempt in reversed(await self.store.attempts(limit=5)):
                await self._print_new(attempt)
                if attempt.status == "ended" and attempt.id not in self.ended:
                    self.ended.add(attempt.id)
                    return attempt
            await asyncio.sleep(0.1)
        raise TimeoutError(f"no attempt ended within {seconds:.0f} s")

    async def _print_new(self, attempt: Attempt) -> None:
        if attempt.id not in self.seen:
            self.seen[attempt.id] = 0
            self.output.say(f"watch this attempt at {self.service.pages}/attempts/{attempt.id}", "bold")
        for stored in await self.store.timeline(attempt.id, after=self.seen[attempt.id]):
            self.seen[attempt.id] = stored.sequence
            if stored.event.text and not isinstance(stored.event, Ended):
                self.output.say(stored.event.text, "dim")

    async def show(self, attempt: Attempt) -> bool:
        """Print the pull request, or why there is none; True if a verified one was opened."""
        opened = attempt.pull_request
        self.output.say(f"{attempt.outcome}: {attempt.reason}", "bold green" if opened else "bold yellow")
        if opened is None:
            self.output.say(f"next: {attempt.next_step}")
            for run in self.github.check_runs(REPOSITORY):
                if run.head_sha == attempt.head_sha:
                    said = f"{run.output.get('summary') or ''}\n{run.output.get('text') or ''}"
                    self.output.show(f"check run {run.name}: {run.conclusion}", said)
            return False
        pull = next(pull for pull in self.github.pull_requests(REPOSITORY, "all") if pull.number == opened.number)
        self.output.show(f"pull request #{pull.number}: {pull.title}", pull.body)
        git = self.github.repository(REPOSITORY).git
        self.output.show_diff((await git.run("diff", "--no-color", str(attempt.head_sha), pull.head_sha)).decode())
        return attempt.outcome is Outcome.HEALED


async def demo(bug: Bug, output: Output, folder: Path, *, once: bool) -> bool:
    """Run one repair; True if a verified pull request was opened."""
    async with GitHub(judged=False) as github:
        await github.create_repository(REPOSITORY, sample_files())
        output.say(f"a local GitHub is at {github.url} with the repository {REPOSITORY}")
        # Use the person's own model if one is configured; all other settings are the demo's.
        chosen = {name: value for name, value in os.environ.items() if name.startswith("SELFHEAL_MODEL")}
        async with (
            running(github, folder, chosen) as service,
            open_store(load(data_dir=folder / "data"), SystemClock()) as store,
        ):
            output.say(f"web is at {service.url}, with a worker and an embedded Redis")
            output.say(f"the pages are at {service.pages} (no sign-in: this machine only)", "bold")
            sha = await github.push(REPOSITORY, "main", {"CHANGELOG.md": "# 1.4\n"}, "Release 1.4")
            await github.settled()
            output.say(f"pushed {sha[:10]}, which passes its CI")
            sha = await github.push(REPOSITORY, "main", broken(bug), bug.message)
            output.say(f"pushed {sha[:10]} “{bug.message}”; its CI runs", "bold")
            session = DemoSession(github, service, store, output)
            attempt = await session.next_end(PATIENCE)
            opened = await session.show(attempt)
            if not once:
                await _serve(session, attempt)
    return opened


async def _serve(session: DemoSession, attempt: Attempt) -> None:
    """Keep serving until Ctrl-C, so that a person can push more commits."""
    github, service, output = session.github, session.service, session.output
    github.add_collaborator(REPOSITORY, PERSON, "write")
    if attempt.pull_request is not None:
        await github.close_pull(REPOSITORY, attempt.pull_request.number, merged=True, login=PERSON)
        output.say(f"merged #{attempt.pull_request.number}, as a maintainer would; main passes again")
    clone = f"http://{PERSON}:{github.user_token(PERSON)}@{github.url.removeprefix('http://')}/{REPOSITORY}.git"
    output.show(
        "still serving; press Ctrl-C to stop",
        f"Break something and push:  git clone {clone}\nPages:  {service.pages}\nHealth:  {service.url}/healthz",
    )
    # Ctrl-C cancels this; the callers then stop the services.
    with suppress(asyncio.CancelledError):
        while True:
            await session.show(await session.next_end())


def sample_files() -> dict[str, str | bytes | None]:
    files = (file for file in sorted(SAMPLE.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)
    return {str(file.relative_to(SAMPLE)): file.read_bytes() for file in files}


def broken(bug: Bug) -> dict[str, str | bytes | None]:
    files: dict[str, str | bytes | None] = {}
    for path, before, after in bug.changes:
        text = files.get(path) or (SAMPLE / path).read_text()
        if not isinstance(text, str) or before not in text:
            raise ValueError(f"the sample has changed: {path} no longer contains the text that this bug changes")
        files[path] = text.replace(before, after)
    return files


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--once", action="store_true", help="exit when the attempt ends")
    parser.add_argument("--bug", choices=sorted(BUGS), default="easy", help="the commit that breaks the sample")
    options = parser.parse_args()
    output = Output()
    folder = Path(tempfile.mkdtemp(prefix="selfheal-demo-"))
    try:
        opened = stopping.run(demo(BUGS[options.bug], output, folder, once=options.once))
    except KeyboardInterrupt:
        output.say("stopped")
        return stopping.STOPPED
    except (Died, NotStarted, TimeoutError) as error:
        output.say(str(error), "bold red")
        for log in sorted(folder.glob("*.log")):
            output.show(f"last lines of {log.name}", "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:]))
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if opened else 1


if __name__ == "__main__":
    sys.exit(main())
