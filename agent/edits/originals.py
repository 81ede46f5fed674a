"""The changed files as they were at the last good commit, from a workspace at the failing commit and the patches between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from agent.contract.last_good import ChangedFile, LastGood
from agent.edits.changes import EDITABLE, EditProblem, read_text
from agent.edits.patches import reverse_patch
from sandbox.base import MIB, Workspace

MOST_BYTES = 32 * MIB  # of all originals of one commit, which stay in memory while it is healed

_AT_ONCE = 8  # files read at once: a remote sandbox takes a while for each


async def read_originals(workspace: Workspace, known: Sequence[LastGood]) -> tuple[tuple[LastGood, ...], tuple[str, ...]]:
    """The commits with `before` in place of every `patch`, and a note about each commit that is left out.

    A commit is left out if one of its files cannot be read or does not fit its patch: a part of the change would look like
    the whole. Raises `SandboxError`.
    """
    good: list[LastGood] = []
    notes: list[str] = []
    for commit in known:
        read = await _with_originals(workspace, commit)
        if isinstance(read, EditProblem):
            notes.append(f"The difference from {commit.name} could not be read: {read.sentence}")
        else:
            good.append(read)
    return tuple(good), tuple(notes)


async def _with_originals(workspace: Workspace, commit: LastGood) -> LastGood | EditProblem:
    files: list[ChangedFile] = []
    left = MOST_BYTES
    for at in range(0, len(commit.files), _AT_ONCE):
        for found in await asyncio.gather(*(_original(workspace, file) for file in commit.files[at : at + _AT_ONCE])):
            if isinstance(found, EditProblem):
                return found
            if found is None:
                continue
            left -= len(found.before or b"")
            if left < 0:
                return EditProblem(f"Its files are larger than {MOST_BYTES // MIB} MiB in total.")
            files.append(found)
    return replace(commit, files=tuple(files))


async def _original(workspace: Workspace, file: ChangedFile) -> ChangedFile | EditProblem | None:
    """None for a file that the archive leaves out (`export-ignore`): no test here sees its change."""
    if file.patch is None:
        return file
    where = file.renamed_to or file.path
    after = await read_text(workspace, where)
    if isinstance(after, EditProblem):
        return after
    if after is None and not _removes(file.patch):
        return None
    before = reverse_patch(after or "", file.patch)
    if isinstance(before, EditProblem):
        return EditProblem(f"{where}: {before.sentence}")
    if len(encoded := before.encode()) > EDITABLE:
        return EditProblem(f"{file.path} was larger than {EDITABLE // 1024} KiB.")
    return ChangedFile(file.path, encoded)


def _removes(patch: str) -> bool:
    return " +0,0 @@" in patch.partition("\n")[0]
