"""`make demo`: the main job on this machine, with no account and no key.

A local stand-in for GitHub holds a sample repository; a commit breaks its tests; the stand-in runs the CI for real and delivers
a signed webhook; the service (web, worker, embedded Redis, all real processes) heals it; the pull request is printed.
Everything lives in a temporary folder. Exit code 0 only when a verified pull request was opened.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.syntax import Syntax

from agent.contract.events import Ended
from agent.contract.outcome import Outcome
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
PATIENCE = 600.0  # seconds that an attempt may take here
LAST_LINES = 25  # of each log, when something went wrong


@dataclass(frozen=True, slots=True)
class Bug:
    """A plausible commit that breaks the sample: one text in one file becomes another."""

    path: str
    before: str
    after: str
    message: str


BUGS = {
    "easy": Bug("src/parcel/rates.py", "if grams <= limit:", "if grams < limit:", "Simplify the bracket lookup"),
    "hard": Bug(
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
        "Read a weight in one match",
    ),
}


class Teller:
    """Says what happens, with the seconds since the start. Where nobody's screen is the bound, no line is broken."""

    def __init__(self) -> None:
        self.console = terminal.console()
        self._began = time.monotonic()

    def say(self, text: str, style: str = "") -> None:
        self.console.print(plain(f"{time.monotonic() - self._began:6.1f} s  {text}", style))

    def show(self, title: str, text: str) -> None:
        self.console.print(plain(f"\n──── {title}", "bold"))
        self.console.print(plain(text))

    def show_diff(self, text: str) -> None:
        self.console.print(plain("──── its diff", "bold"))
        self.console.print(Syntax(text, "diff", background_color="default") if self.console.is_terminal else plain(text))


@dataclass(slots=True)
class Stage:
    """The running demo: tells deliveries and timelines as they come, and shows how attempts end."""

    github: GitHub
    service: Service
    store: Store
    teller: Teller
    deliveries: set[int] = field(default_factory=set)
    seen: dict[str, int] = field(default_factory=dict)  # attempt → last event that was told
    ended: set[str] = field(default_factory=set)

    async def next_end(self, seconds: float = math.inf) -> Attempt:
        """Tell what happens until one more attempt has ended. Raises `TimeoutError` after so many seconds and `Died`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.service.check()
            for delivery in self.github.deliveries:
                answered = delivery.event == "workflow_run" and delivery.action == "completed" and delivery.status_code
                if answered and delivery.id not in self.deliveries:
                    self.deliveries.add(delivery.id)
                    self.teller.say(f"GitHub delivered its signed webhook: {delivery.status_code} {delivery.answer}")
            for attempt in reversed(await self.store.attempts(limit=5)):
                await self._tell(attempt)
                if attempt.status == "ended" and attempt.id not in self.ended:
                    self.ended.add(attempt.id)
                    return attempt
            await asyncio.sleep(0.1)
        raise TimeoutError(f"no attempt ended within {seconds:.0f} s")

    async def _tell(self, attempt: Attempt) -> None:
        if attempt.id not in self.seen:
            self.seen[attempt.id] = 0
            self.teller.say(f"watch this attempt at {self.service.pages}/attempts/{attempt.id}", "bold")
        for stored in await self.store.timeline(attempt.id, after=self.seen[attempt.id]):
            self.seen[attempt.id] = stored.sequence
            if stored.event.text and not isinstance(stored.event, Ended):
                self.teller.say(stored.event.text, "dim")

    async def show(self, attempt: Attempt) -> bool:
        """Print the pull request, or why there is none; True when a verified one was opened."""
        opened = attempt.pull_request
        self.teller.say(f"{attempt.outcome}: {attempt.reason}", "bold green" if opened else "bold yellow")
        if opened is None:
            self.teller.say(f"next: {attempt.next_step}")
            for run in self.github.check_runs(REPOSITORY):
                if run.head_sha == attempt.head_sha:
                    said = f"{run.output.get('summary') or ''}\n{run.output.get('text') or ''}"
                    self.teller.show(f"check run {run.name}: {run.conclusion}", said)
            return False
        pull = next(pull for pull in self.github.pull_requests(REPOSITORY, "all") if pull.number == opened.number)
        self.teller.show(f"pull request #{pull.number}: {pull.title}", pull.body)
        git = self.github.repository(REPOSITORY).git
        self.teller.show_diff((await git.run("diff", "--no-color", str(attempt.head_sha), pull.head_sha)).decode())
        return attempt.outcome is Outcome.HEALED


async def demo(bug: Bug, teller: Teller, folder: Path, *, once: bool) -> bool:
    """Run the main job; True when a verified pull request was opened."""
    async with GitHub(judged=False) as github:
        await github.create_repository(REPOSITORY, sample_files())
        teller.say(f"a local GitHub is at {github.url}, with the repository {REPOSITORY}")
        # A model that the person configured is theirs to use; everything else is the demo's own.
        chosen = {name: value for name, value in os.environ.items() if name.startswith("SELFHEAL_MODEL")}
        async with (
            running(github, folder, chosen) as service,
            open_store(load(data_dir=folder / "data"), SystemClock()) as store,
        ):
            teller.say(f"web is at {service.url}, a worker and an embedded Redis run beside it")
            teller.say(f"the pages are at {service.pages} (no sign-in: this machine only)", "bold")
            sha = await github.push(REPOSITORY, "main", broken(bug), bug.message)
            teller.say(f"pushed {sha[:10]} “{bug.message}”; its CI runs", "bold")
            stage = Stage(github, service, store, teller)
            attempt = await stage.next_end(PATIENCE)
            opened = await stage.show(attempt)
            if not once:
                await _serve(stage, attempt)
    return opened


async def _serve(stage: Stage, attempt: Attempt) -> None:
    """Go on until Ctrl-C: a person may push more."""
    github, service, teller = stage.github, stage.service, stage.teller
    github.add_collaborator(REPOSITORY, PERSON, "write")
    if attempt.pull_request is not None:
        await github.close_pull(REPOSITORY, attempt.pull_request.number, merged=True, login=PERSON)
        teller.say(f"merged #{attempt.pull_request.number}, as a maintainer would: main is green again")
    clone = f"http://{PERSON}:{github.user_token(PERSON)}@{github.url.removeprefix('http://')}/{REPOSITORY}.git"
    teller.show(
        "still serving; Ctrl-C ends it",
        f"Break something and push it:  git clone {clone}\nPages:  {service.pages}\nHealth:  {service.url}/healthz",
    )
    # To be cancelled is how serving ends; what comes after it stops what was started.
    with suppress(asyncio.CancelledError):
        while True:
            await stage.show(await stage.next_end())


async def interruptible(work: Coroutine[None, None, bool], teller: Teller) -> bool | None:
    """The result of `work`; None when a signal ended it. Only the first signal counts: what was started is being stopped."""
    task = asyncio.create_task(work)

    def stop() -> None:
        if not stopping.is_set():
            stopping.set()
            teller.say("stopping")
            task.cancel()

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    await asyncio.wait({task})
    return None if task.cancelled() else task.result()


def sample_files() -> dict[str, str | bytes | None]:
    files = (file for file in sorted(SAMPLE.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)
    return {str(file.relative_to(SAMPLE)): file.read_bytes() for file in files}


def broken(bug: Bug) -> dict[str, str | bytes | None]:
    sound = (SAMPLE / bug.path).read_text()
    if bug.before not in sound:
        raise ValueError(f"the sample has changed: {bug.path} no longer holds what this bug breaks")
    return {bug.path: sound.replace(bug.before, bug.after)}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--once", action="store_true", help="end when the attempt has ended")
    parser.add_argument("--bug", choices=sorted(BUGS), default="easy", help="which commit breaks the sample")
    options = parser.parse_args()
    teller = Teller()
    folder = Path(tempfile.mkdtemp(prefix="selfheal-demo-"))
    try:
        opened = asyncio.run(interruptible(demo(BUGS[options.bug], teller, folder, once=options.once), teller))
    except (Died, NotStarted, TimeoutError) as error:
        teller.say(str(error), "bold red")
        for log in sorted(folder.glob("*.log")):
            teller.show(f"the end of {log.name}", "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:]))
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if opened is None:
        return 130
    return 0 if opened else 1


if __name__ == "__main__":
    sys.exit(main())
