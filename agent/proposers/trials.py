"""Trials of rungs: workspaces in which tools change files, and runs of the failing checks with a change.

Independent of the tools and the changes. A workspace's files are untrusted, since hostile code runs there: they are read as
bounded text and become ordinary candidates that only the gate can approve.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.checks.oracle import turned
from agent.contract.proposal import Edits, FileChange
from agent.contract.verdicts import Check, CheckRun
from agent.edits.answers import clean_path
from agent.edits.changes import EditProblem, apply, read_text
from agent.proposer import Situation
from sandbox.base import MIB, Command, DeadlinePassed, LimitExceeded, Workspace

CHANGED = 200  # maximum number of files that one tool run can change
LISTING = 16 * MIB  # bytes of the list of files
LISTING_SECONDS = 60.0

Runs = Mapping[str, CheckRun]  # by the check's name


@dataclass(frozen=True, slots=True)
class Changed:
    """The changes that commands made, and one run per command."""

    edits: Edits
    runs: tuple[CheckRun, ...]
    note: str = ""


@dataclass(slots=True)
class Trials:
    """The trials of one call of the rung: its situation and its remaining time."""

    situation: Situation
    tried: int = 0  # changes run so far
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        return self.situation.seconds - (time.monotonic() - self.began)

    @property
    def targets(self) -> tuple[Check, ...]:
        """The checks with failing verdicts that must pass."""
        oracle = self.situation.oracle
        return tuple(check for check in oracle.checks if oracle.must_turn.get(check.name))

    def base_run(self, check: Check) -> CheckRun:
        """Raises `LookupError` if the base was not run with this check."""
        return next(run for run in self.situation.red if run.check == check.name)

    async def text(self, path: str, on: Edits = ()) -> str | None:
        """A file of the base with the change `on` applied; None if it is missing or not editable text."""
        for edit in on:
            if edit.path == path:
                return edit.after
        found = await read_text(self.situation.sandbox.base, path)
        return found if isinstance(found, str) else None

    async def with_text(self, on: Edits, path: str, text: str) -> Edits:
        """The change `on` with a new text for one file."""
        edits = {edit.path: edit for edit in on}
        before = edits[path].before if path in edits else await self.text(path)
        return tuple((edits | {path: FileChange(path, before, text)}).values())

    async def changed_by(
        self, commands: Sequence[tuple[Check, str]], on: Edits = (), new: Callable[[str], bool] = lambda path: False
    ) -> Changed:
        """Run shell commands as their checks would, all in one workspace, and read back the changed files.

        Added files are left out unless `new` accepts them; removals are ignored. Raises `SandboxError` if the sandbox is lost;
        the note reports an exceeded limit.
        """
        runs: list[CheckRun] = []
        async with self.situation.sandbox.candidate() as workspace:
            try:
                if (problem := await apply(workspace, on)) is not None:
                    return Changed(on, (), problem.sentence)
                before = await self._digests(workspace)
                for check, command in commands:
                    runs.append(await self._run(workspace, check, command))
                after = await self._digests(workspace)
            except (LimitExceeded, DeadlinePassed) as error:
                return Changed(on, tuple(runs), str(error))
            paths = sorted(p for p, digest in after.items() if before.get(p) != digest and (p in before or new(p)))
            if len(paths) > CHANGED:
                return Changed(on, tuple(runs), f"{len(paths)} files would change, more than {CHANGED}")
            edits, notes = on, []
            for path in paths:
                text = await read_text(workspace, path)
                if isinstance(text, EditProblem):
                    notes.append(text.sentence)
                elif text is not None and clean_path(path) == path:
                    edits = await self.with_text(edits, path, text)
        kept = tuple(edit for edit in edits if edit.before != edit.after)
        return Changed(kept, tuple(runs), "; ".join(notes))

    async def judged(self, edits: Edits, checks: Sequence[Check], *, whole: bool = False) -> Runs | str:
        """Run the failing tests of these checks with a change, or all tests; a clause with the reason if that is impossible."""
        self.tried += 1
        runs: dict[str, CheckRun] = {}
        for check in checks:
            if self.seconds_left <= 0:
                return "the trials ran out of time"
            async with self.situation.sandbox.candidate() as workspace:
                try:
                    if (problem := await apply(workspace, edits)) is not None:
                        return problem.sentence
                    only = self.situation.oracle.must_turn[check.name] if check.runs_tests and not whole else None
                    seconds = max(1.0, min(check.timeout, self.seconds_left))
                    runs[check.name] = await self.situation.runner.run(workspace, check, only=only, timeout=seconds)
                except LimitExceeded as error:
                    return str(error)
        return runs

    def is_green(self, check: Check, runs: Runs) -> bool:
        """Does everything in this check that must pass now pass, as far as this rung can see?"""
        run, target = runs.get(check.name), self.situation.oracle.must_turn[check.name]
        if run is None or run.ending != "finished":
            return False
        # Tests whose file could not be collected before count too.
        is_clean = not run.red if check.runs_tests else run.exit_code == 0
        return is_clean and len(turned(check, self.base_run(check), run, target)) == len(target)

    async def ask_guest(self, subcommand: str, request: Mapping[str, object], seconds: float, on: Edits = ()) -> bytes:
        """The output of a guest subcommand in a workspace with this change; b"" if it does not finish."""
        async with self.situation.sandbox.candidate() as workspace:
            if await apply(workspace, on) is not None:
                return b""
            stdin = json.dumps({"root": workspace.root, **request}).encode()
            asked = await self.situation.runner.ask(workspace, subcommand, stdin, min(seconds, self.seconds_left))
            return b"" if asked.problem else asked.output

    async def _run(self, workspace: Workspace, check: Check, command: str) -> CheckRun:
        tool = Check(check.name, command, "exit", cwd=check.cwd, env=check.env, outer=check.outer)
        return await self.situation.runner.run(workspace, tool, timeout=max(1.0, min(check.timeout, self.seconds_left)))

    async def _digests(self, workspace: Workspace) -> dict[str, str]:
        await self.situation.runner.prepare()
        argv = (workspace.python, self.situation.runner.guest, "digests", workspace.root)
        timeout = max(1.0, min(LISTING_SECONDS, self.seconds_left))
        listed = await workspace.run(Command(argv, timeout, output_limit=LISTING))
        return dict(_digest_lines(listed.stdout))


def _digest_lines(output: bytes) -> list[tuple[str, str]]:
    found = []
    for line in output.splitlines():
        digest, _, path = line.partition(b" ")
        try:
            name = json.loads(path)
        except ValueError:
            continue
        if isinstance(name, str) and clean_path(name) == name:
            found.append((name, digest.decode("ascii", "replace")))
    return found
