"""Runs the fixers of the failing checks and keeps only the changes that the findings need; updates test snapshots.

An updated snapshot passes whatever the code does: never do this unasked, or for a test that fails for another reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.contract.proposal import Candidate, Edits
from agent.contract.verdicts import Check, CheckRun, Failure
from agent.guest.text import one_line
from agent.proposers.tools.fixers import Fix, fixes, recordings
from agent.proposers.trials import Changed, Trials
from agent.source.test_files import is_snapshot

MISSING = (126, 127)  # shell exit codes for a missing program
_SCRIPTS = ("Makefile", "makefile", "GNUmakefile", "package.json")
_SNAPSHOT = re.compile(r"\bsnapshots?\b", re.IGNORECASE)
_READ = 20  # shell scripts named by a command that are read at most
_NO_NETWORK = (
    "Temporary failure in name resolution", "Could not resolve host", "Name or service not known", "Network is unreachable",
    "EAI_AGAIN", "ENOTFOUND", "Failed to establish a new connection", "failed to lookup address", "Could not connect",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fixed:
    """The result of the tools. Later repairs build on `edits`: those of the candidate, or a partial fix."""

    candidates: tuple[Candidate, ...] = ()
    edits: Edits = ()
    runs: tuple[CheckRun, ...] = ()  # of the checks that have a fixer, with these edits
    notes: tuple[str, ...] = ()
    checks: frozenset[str] = frozenset()  # names of the checks that pass with the edits


async def fixes_of(
    trials: Trials, checks: Sequence[Check], read: Callable[[str, Mapping[str, str]], tuple[Fix, ...]] = fixes
) -> list[tuple[Check, Fix]]:
    """The fixes that `read` finds in the commands of these checks, in order."""
    found: list[tuple[Check, Fix]] = []
    for check in checks:
        scripts = [word.removeprefix("./") for word in check.command.split() if word.endswith(".sh")]
        folder = "" if check.cwd in ("", ".") else check.cwd.removeprefix("./").rstrip("/") + "/"
        texts = {name: text for name in (*_SCRIPTS, *scripts[:_READ]) if (text := await trials.text(folder + name)) is not None}
        found += [(check, fix) for fix in read(check.command, texts)]
    return found


async def fix(trials: Trials, found: Sequence[tuple[Check, Fix]], on: Edits = ()) -> Fixed:
    """Apply the tools' safe fixes on top of `on`. Raises `SandboxError`.

    Unsafe ones can change what the code does: they delete a variable that nobody reads because the line that read it is lost.
    """
    checks = list({check.name: check for check, _ in found}.values())
    commands = [(check, fix.command) for check, fix in found]
    # One tool can undo the work of another; a second pass settles them.
    changed = await trials.changed_by(commands if len(commands) == 1 else [*commands, *commands], on)
    best, notes = Fixed(), _remarks(commands, changed)
    for edits in _cuts(trials, checks, changed.edits, on) if changed.edits and changed.edits != on else ():
        runs = await trials.judged(edits, checks)
        if isinstance(runs, str):
            notes.append(runs)
            continue
        if all(trials.is_green(check, runs) for check in checks):
            title = f"{_named(commands)} in {_where(edits)}"[:200]
            reasoning = f"The project's own tool fixes the findings: {_named(commands)}."
            made = Candidate("tools", edits, title, reasoning, prior=0.9)
            return Fixed((made,), edits, tuple(runs.values()), tuple(notes), frozenset(runs))
        best = Fixed((), edits, tuple(runs.values()))
    if best.edits:
        left = sum(len(run.red) for run in best.runs)
        notes.append(f"{_named(commands)} fixes only some findings; {left} remain")
    return Fixed((), best.edits, best.runs, tuple(dict.fromkeys(notes)))


def _cuts(trials: Trials, checks: Sequence[Check], edits: Edits, on: Edits) -> Iterator[Edits]:
    """All edits. If some files have no findings, the edits without those files come first."""
    reported = {frame.path for check in checks for failure in trials.base_run(check).failures for frame in failure.frames}
    reported |= {edit.path for edit in on}
    cut = tuple(edit for edit in edits if edit.path in reported)
    if cut and cut != edits:
        yield cut
    yield edits


def _remarks(commands: Sequence[tuple[Check, str]], changed: Changed) -> list[str]:
    notes = [changed.note] if changed.note else []
    for (_, command), run in zip(commands, changed.runs, strict=False):
        name = f"`{one_line(command, 80)}`"
        if run.exit_code in MISSING:
            notes.append(f"{name} is not installed")
        elif run.ending != "finished":
            notes.append(f"{name} did not finish")
        elif any(sign in run.output for sign in _NO_NETWORK):
            notes.append(f"{name} needs the network; the sandbox has none")
        elif not changed.edits:
            said = next((line for line in reversed(run.output.splitlines()) if line.strip()), "")
            notes.append(f"{name} changes nothing" + (f": {one_line(said, 120)}" if said else ""))
    return notes


def _named(commands: Sequence[tuple[Check, str]]) -> str:
    return " and ".join(f"`{one_line(command, 80)}`" for command in dict.fromkeys(command for _, command in commands))


def _where(edits: Edits) -> str:
    return edits[0].path if len(edits) == 1 else f"{len(edits)} files"


async def record(trials: Trials, checks: Sequence[Check]) -> tuple[list[Candidate], list[str]]:
    """A candidate with the updated snapshots, if any differ and updates are allowed, and notes. Raises `SandboxError`."""
    concerned = [check for check in checks if _is_concerned(check, trials.base_run(check).failures)]
    found = await fixes_of(trials, concerned, recordings)
    if not found:
        return [], []
    if not trials.situation.policy.allow_snapshots:
        return [], ["snapshots differ; `snapshots: true` in `.github/selfheal.yml` allows Selfheal to update them"]
    changed = await trials.changed_by([(check, fix.command) for check, fix in found], new=is_snapshot)
    edits = tuple(edit for edit in changed.edits if is_snapshot(edit.path))
    if not edits:
        return [], [changed.note or "the test runner updated no snapshot"]
    runs = await trials.judged(edits, concerned)
    if isinstance(runs, str) or not all(trials.is_green(check, runs) for check in concerned):
        return [], ["the tests still fail with updated snapshots"]
    why = "The output differs from the snapshot, and the configuration allows updating it. Check that it is intended."
    return [Candidate("tools", edits, f"updates the snapshots in {_where(edits)}", why, prior=0.3)], []


def mentions_snapshots(failure: Failure) -> bool:
    """Does the failure mention a snapshot?"""
    return _SNAPSHOT.search(f"{failure.message}\n{failure.details}") is not None


def _is_concerned(check: Check, failures: Sequence[Failure]) -> bool:
    about = [mentions_snapshots(failure) for failure in failures]
    return bool(about) and (all(about) if check.runs_tests else any(about))
