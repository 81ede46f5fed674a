"""`make demo`: the main job on this machine, with no account and no key.

A local stand-in for GitHub holds a sample repository; a commit breaks its tests; the stand-in runs the CI for real and delivers
a signed webhook; the service (web, worker, embedded Redis, all real processes) heals it; the pull request is printed.
Everything lives in a temporary folder. Exit code 0 only when a verified pull request was opened.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from agent.task import Outcome
from app.clock import SystemClock
from app.settings import load
from app.store.store import Store, open_store
from app.store.values import Attempt
from tests.standins.github import GitHub
from tests.story.service import NotStarted, running

SAMPLE = Path(__file__).parent / "sample"
REPOSITORY = "acme/parcel"
PATIENCE = 600.0  # seconds that an attempt may take here


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
    """Says what happens, with the seconds since the start."""

    def __init__(self) -> None:
        self.console = Console()
        self._began = time.monotonic()

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(f"{time.monotonic() - self._began:6.1f} s  {text}", style=style))

    def title(self, text: str) -> None:
        self.console.print()
        self.console.print(Rule(Text(text), align="left"))


async def demo(bug: Bug, teller: Teller, folder: Path, *, once: bool) -> bool:
    """Run the main job; True when a verified pull request was opened."""
    async with GitHub(judged=False) as github:
        await github.create_repository(REPOSITORY, _sample())
        teller.say(f"a local GitHub is at {github.url}, with the repository {REPOSITORY}")
        # A model that the person configured is theirs to use; everything else is the demo's own.
        chosen = {name: value for name, value in os.environ.items() if name.startswith("SELFHEAL_MODEL")}
        async with running(github, folder, chosen) as service:
            teller.say(f"web is at {service.url}, a worker and an embedded Redis run beside it")
            sha = await github.push(REPOSITORY, "main", _broken(bug), bug.message)
            teller.say(f"pushed {sha[:10]} “{bug.message}”; its CI runs", "bold")
            settings = load(data_dir=folder / "data")
            async with open_store(settings, SystemClock()) as store:
                attempt = await _watch(github, store, teller)
            opened = _show(github, attempt, teller)
            if opened:
                await _show_diff(github, sha, teller)
            if not once:
                teller.title("still serving; Ctrl-C ends it")
                teller.say(f"git clone {github.url}/{REPOSITORY}.git")
                teller.say(f"webhooks and health: {service.url}")
                await _interrupted()
    return opened


async def _watch(github: GitHub, store: Store, teller: Teller) -> Attempt:
    """Tell the deliveries and the attempt's timeline as they come, until it has ended."""
    told: set[int] = set()
    seen = 0
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for delivery in github.deliveries:
            if delivery.event == "workflow_run" and delivery.status_code and delivery.id not in told:
                told.add(delivery.id)
                teller.say(f"signed webhook workflow_run ({delivery.action}): {delivery.status_code} {delivery.answer}")
        for attempt in await store.attempts(limit=1):
            for stored in await store.timeline(attempt.id, after=seen):
                seen = stored.sequence
                if stored.event.text:
                    teller.say(stored.event.text, "dim")
            if attempt.status == "ended":
                return attempt
        await asyncio.sleep(0.1)
    raise TimeoutError(f"the attempt did not end within {PATIENCE:.0f} s")


def _show(github: GitHub, attempt: Attempt, teller: Teller) -> bool:
    """Print the pull request's body, or why there is none; True when there is one."""
    pulls = github.pull_requests(REPOSITORY)
    teller.say(f"{attempt.outcome}: {attempt.reason}", "bold green" if pulls else "bold yellow")
    if pulls:
        teller.title(f"pull request #{pulls[0].number}: {pulls[0].title}")
        teller.console.print(Text(pulls[0].body))
        return attempt.outcome is Outcome.HEALED
    teller.say(f"next: {attempt.next_step}")
    for run in github.check_runs(REPOSITORY):
        teller.title(f"check run {run.name}: {run.conclusion}")
        teller.console.print(Text(f"{run.output.get('summary') or ''}\n{run.output.get('text') or ''}"))
    return False


async def _show_diff(github: GitHub, broken: str, teller: Teller) -> None:
    head = github.pull_requests(REPOSITORY)[0].head_sha
    diff = await github.repository(REPOSITORY).git.run("diff", "--no-color", broken, head)
    teller.title("its diff")
    teller.console.print(Syntax(diff.decode(), "diff", background_color="default"))


def _sample() -> dict[str, str | bytes | None]:
    files = (file for file in sorted(SAMPLE.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)
    return {str(file.relative_to(SAMPLE)): file.read_bytes() for file in files}


def _broken(bug: Bug) -> dict[str, str | bytes | None]:
    sound = (SAMPLE / bug.path).read_text()
    if bug.before not in sound:
        raise ValueError(f"the sample has changed: {bug.path} no longer holds what this bug breaks")
    return {bug.path: sound.replace(bug.before, bug.after)}


async def _interrupted() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


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
        opened = asyncio.run(demo(BUGS[options.bug], teller, folder, once=options.once))
    except (NotStarted, TimeoutError) as error:
        teller.say(str(error), "bold red")
        for log in sorted(folder.glob("*.log")):
            teller.title(f"the end of {log.name}")
            teller.console.print(Text(log.read_text(errors="replace")[-3000:]))
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if opened else 1


if __name__ == "__main__":
    sys.exit(main())
