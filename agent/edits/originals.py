"""The changed files as they were at the last good commit, from a workspace at the failing commit and the patches between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent.contract.last_good import ChangedFile, LastGood
from agent.edits.changes import EDITABLE, EditProblem, read_text
from agent.edits.patches import reverse_patch
from sandbox.base import MIB, LimitExceeded, Workspace

MOST_BYTES = 32 * MIB  # of all originals of one commit, which stay in memory while it is healed

_AT_ONCE = 8  # files read at once: a remote sandbox takes a while for each


async def read_originals(workspace: Workspace, known: Sequence[LastGood]) -> tuple[tuple[LastGood, ...], tuple[str, ...]]:
    """The commits with `before` in place of every `patch`, and notes about what could not be read.

    A file that cannot be read or does not fit its patch becomes `unread`. A commit of which nothing can be read is left out.
    Raises `SandboxError`.
    """
    good: list[LastGood] = []
    notes: list[str] = []
    for commit in known:
        read, problems = await _with_originals(workspace, commit)
        if read is not None:
            good.append(read)
        if problems:
            more = f" {len(problems) - 1} more cannot be read." if len(problems) > 1 else ""
            what = "could not be read" if read is None else "was not read as a whole"
            notes.append(f"The difference from {commit.name} {what}: {problems[0]}{more}")
    return tuple(good), tuple(notes)


async def _with_originals(workspace: Workspace, commit: LastGood) -> tuple[LastGood | None, list[str]]:
    files: list[ChangedFile] = []
    unread: dict[str, str] = dict.fromkeys(commit.unread, "")
    left = MOST_BYTES
    modes = await _modes(workspace) if any(file.before is not None for file in commit.files) else {}
    for at in range(0, len(commit.files), _AT_ONCE):
        some = commit.files[at : at + _AT_ONCE]
        for file, found in zip(some, await asyncio.gather(*(_original(workspace, file, modes) for file in some)), strict=True):
            if isinstance(found, EditProblem):
                # Without its old half, the new half of a renamed file stays too.
                unread |= dict.fromkeys((file.path, file.renamed_to or file.path), found.sentence)
            elif found is not None:
                left -= len(found.before or b"")
                if left < 0:
                    return None, [f"Its files are larger than {MOST_BYTES // MIB} MiB in total."]
                files.append(found)
    kept = tuple(file for file in files if file.path not in unread)
    problems = list(dict.fromkeys(sentence for sentence in unread.values() if sentence))
    return replace(commit, files=kept, unread=tuple(unread)) if kept or not unread else None, problems


async def _modes(workspace: Workspace) -> dict[str, bool]:
    """Which files are executable."""
    return {entry.path: entry.executable for entry in await workspace.files() if not entry.link}


async def _original(workspace: Workspace, file: ChangedFile, modes: Mapping[str, bool]) -> ChangedFile | EditProblem | None:
    """None for a file that the archive leaves out (`export-ignore`): no test here sees its change."""
    if file.patch is None:
        return file if file.before is None else await _with_mode(workspace, file, modes)
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


async def _with_mode(workspace: Workspace, file: ChangedFile, modes: Mapping[str, bool]) -> ChangedFile:
    """With the other mode, if the content is the same: then only the mode can have changed."""
    if file.path not in modes:
        return file
    try:
        is_same = await workspace.read(file.path) == file.before
    except (FileNotFoundError, LimitExceeded, ValueError):
        return file
    return replace(file, executable=not modes[file.path]) if is_same else file


def _removes(patch: str) -> bool:
    return " +0,0 @@" in patch.partition("\n")[0]
