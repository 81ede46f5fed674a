"""Restores missing names and modules that failures report, one after another, as long as each step helps."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.contract.proposal import Candidate, Edits
from agent.proposers.tools.missing import KnownNames, Missing, Option, options, question, read_known, read_missing, reexports
from agent.proposers.trials import Runs, Trials
from agent.source.test_files import is_test

STEPS = 12  # missing things restored one after another
LOOKUP_SECONDS = 30.0  # seconds for looking up names
MAX_CANDIDATES = 3


@dataclass(slots=True)
class Restored:
    """The result; `left` are the missing things that could not be restored."""

    candidates: list[Candidate] = field(default_factory=list)
    edits: Edits = ()
    left: list[Missing] = field(default_factory=list)
    known: KnownNames = field(default_factory=KnownNames)
    notes: list[str] = field(default_factory=list)


async def restore_missing(trials: Trials, on: Edits, runs: Runs) -> Restored:
    """`runs` are the runs of the failing checks with the change `on`. Raises `SandboxError`."""
    done = Restored(edits=on)
    titles: list[str] = []
    given_up: set[tuple[str, str, str]] = set()
    for _ in range(STEPS):
        missing = [m for m in read_missing(f for run in runs.values() for f in run.failures) if _key(m) not in given_up]
        if not missing or trials.seconds_left <= 0:
            break
        one = missing[0]
        step = await _step(trials, done, one, runs, titles)
        if step is None:
            given_up.add(_key(one))
            done.left.append(one)
        elif done.candidates:
            return done
        else:
            runs = step
    return done


async def _step(trials: Trials, done: Restored, one: Missing, runs: Runs, titles: list[str]) -> Runs | None:
    """Try the options for one missing thing. Those that make everything pass are candidates; else keep the first that helps."""
    found = await _options(trials, done, one)
    kept: tuple[Option, Edits, Runs] | None = None
    for option in found:
        edits = await trials.with_text(done.edits, option.path, option.text)
        now = await trials.judged(edits, trials.targets)
        if isinstance(now, str):
            done.notes.append(now)
            break
        if all(trials.is_green(check, now) for check in trials.targets):
            title = "; ".join([*titles, option.title])[:200]
            done.candidates.append(Candidate("tools", edits, title, f"This was missing: {one.label}.", prior=0.85))
            kept = kept or (option, edits, now)
            if len(done.candidates) == MAX_CANDIDATES:
                break
        elif kept is None and _is_forward(trials, one, runs, now):
            kept = (option, edits, now)
        if trials.seconds_left <= 0:
            break
    if kept is None:
        return None
    if not done.candidates:
        titles.append(kept[0].title)
        done.edits = kept[1]
    return kept[2]


async def _options(trials: Trials, done: Restored, one: Missing) -> list[Option]:
    tests_too = trials.situation.policy.allow_test_edits
    texts: dict[str, str] = {}
    if (text := await trials.text(one.path, done.edits)) is not None:
        texts[one.path] = text
    asked = question([one], texts)
    done.known = read_known(await trials.ask_guest("names", asked, LOOKUP_SECONDS, done.edits))
    path = reexports(one, done.known)
    if path is not None and path not in texts and (text := await trials.text(path, done.edits)) is not None:
        texts[path] = text
    return options(one, done.known, texts, tests_too=tests_too)


def _is_forward(trials: Trials, one: Missing, before: Runs, after: Runs) -> bool:
    """Is the thing restored, without new linter findings? Tests that could not run before may fail."""
    still = read_missing(f for run in after.values() for f in run.failures)
    # `import datetime` restores the name, but `datetime.now` needs `from datetime import datetime`.
    if any(_key(other) == _key(one) or (one.kind == "name" and other.module == one.name) for other in still):
        return False
    counted = [check.name for check in trials.targets if not check.runs_tests]
    ended = all(run.ending == "finished" for run in after.values())
    return ended and all(len(after[name].red) <= len(before[name].red) for name in counted)


def _key(one: Missing) -> tuple[str, str, str]:
    return one.path if not is_test(one.path) else "", one.name, one.module
