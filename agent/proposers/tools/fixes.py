"""Runs the tools that the red checks call for, and keeps of their changes what the findings need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.contract.proposal import Candidate, Edits
from agent.contract.verdicts import Check, CheckRun
from agent.guest.text import one_line
from agent.proposers.tools.fixers import Fix, fixes
from agent.proposers.tools.trials import Changed, Trials

RUNG = "tools"
MISSING = (126, 127)  # exit codes of a shell that finds no such program
_SCRIPTS = ("Makefile", "makefile", "GNUmakefile", "package.json")
_READ = 20  # further scripts that a command names
_NO_NETWORK = (
    "Temporary failure in name resolution", "Could not resolve host", "Name or service not known", "Network is unreachable",
    "EAI_AGAIN", "ENOTFOUND", "Failed to establish a new connection", "failed to lookup address", "Could not connect",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fixed:
    """What the tools did. `edits` go on to further repairs: those of the candidate, or a step on the way."""

    candidates: tuple[Candidate, ...] = ()
    edits: Edits = ()
    runs: tuple[CheckRun, ...] = ()  # the checks that have a tool, with these edits
    notes: tuple[str, ...] = ()
    checks: frozenset[str] = frozenset()  # names of the checks that are green with the edits


async def fixes_of(
    trials: Trials, checks: Sequence[Check], read: Callable[[str, Mapping[str, str]], tuple[Fix, ...]] = fixes
) -> list[tuple[Check, Fix]]:
    """What `read` finds in the commands of these checks, in their order: the tools that mend what they find."""
    found: list[tuple[Check, Fix]] = []
    for check in checks:
        scripts = [word.removeprefix("./") for word in check.command.split() if word.endswith(".sh")]
        folder = "" if check.cwd in ("", ".") else check.cwd.removeprefix("./").rstrip("/") + "/"
        texts = {name: text for name in (*_SCRIPTS, *scripts[:_READ]) if (text := await trials.text(folder + name)) is not None}
        found += [(check, fix) for fix in read(check.command, texts)]
    return found


async def fix(trials: Trials, found: Sequence[tuple[Check, Fix]], on: Edits = ()) -> Fixed:
    """First what tools vouch for, then, when that does not suffice, what they would not do unasked, upon the change `on`.

    Raises `SandboxError`.
    """
    checks = list({check.name: check for check, _ in found}.values())
    commands = [(check, fix.command) for check, fix in found]
    bolder = [(check, fix.bolder or fix.command) for check, fix in found]
    best, notes = Fixed(), []
    for choice in (commands, bolder) if bolder != commands else (commands,):
        # One tool undoes what another did: a second pass settles them.
        changed = await trials.changed_by(choice if len(choice) == 1 else [*choice, *choice], on)
        notes += _remarks(choice, changed)
        if not changed.edits or changed.edits in (on, best.edits):
            continue
        for edits in _cuts(trials, checks, changed.edits, on):
            runs = await trials.judged(edits, checks)
            if isinstance(runs, str):
                notes.append(runs)
                continue
            if all(trials.is_green(check, runs) for check in checks):
                made = Candidate(
                    RUNG, edits, _title(choice, edits), _reasoning(choice), prior=0.9 if choice is commands else 0.6
                )
                return Fixed((made,), edits, tuple(runs.values()), tuple(notes), frozenset(runs))
            if choice is commands:
                best = Fixed((), edits, tuple(runs.values()))
    if best.edits:
        left = sum(len(run.red) for run in best.runs)
        notes.append(f"{_named(commands)} mends a part only, {left} findings stay")
    return Fixed((), best.edits, best.runs, tuple(dict.fromkeys(notes)))


def _cuts(trials: Trials, checks: Sequence[Check], edits: Edits, on: Edits) -> Iterator[Edits]:
    """The changes of the files that have findings, when the tool changed others too; then all."""
    told = {frame.path for check in checks for failure in trials.base_run(check).failures for frame in failure.frames}
    told |= {edit.path for edit in on}
    cut = tuple(edit for edit in edits if edit.path in told)
    if cut and cut != edits:
        yield cut
    yield edits


def _remarks(commands: Sequence[tuple[Check, str]], changed: Changed) -> list[str]:
    notes = [changed.note] if changed.note else []
    for (_, command), run in zip(commands, changed.runs, strict=False):
        name = f"`{one_line(command, 80)}`"
        if run.exit_code in MISSING:
            notes.append(f"{name} cannot be run here: it is not installed")
        elif run.ending != "finished":
            notes.append(f"{name} did not come to an end")
        elif any(sign in run.output for sign in _NO_NETWORK):
            notes.append(f"{name} wants the network, which the sandbox does not have")
        elif not changed.edits:
            said = next((line for line in reversed(run.output.splitlines()) if line.strip()), "")
            notes.append(f"{name} changes nothing" + (f": {one_line(said, 120)}" if said else ""))
    return notes


def _named(commands: Sequence[tuple[Check, str]]) -> str:
    return " and ".join(f"`{one_line(command, 80)}`" for command in dict.fromkeys(command for _, command in commands))


def _title(commands: Sequence[tuple[Check, str]], edits: Edits) -> str:
    where = edits[0].path if len(edits) == 1 else f"{len(edits)} files"
    return f"{_named(commands)} in {where}"[:200]


def _reasoning(commands: Sequence[tuple[Check, str]]) -> str:
    return f"The repository's own tool mends what it finds: {_named(commands)}."
