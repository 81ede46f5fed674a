"""Changes of files as values: their digest, their diff, and their exact way into a workspace and out of it.

Content is UTF-8 text with its own line ends; anything else is refused (`EditProblem`), never guessed. How a model writes
changes down is `agent/answer.py`.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass

from agent.task import Edits
from sandbox.base import MIB, LimitExceeded, Workspace

EDITABLE = MIB  # bytes of the largest file that is edited


@dataclass(frozen=True, slots=True)
class EditProblem:
    """Why changes cannot be had from an answer, as one sentence for whoever wrote it."""

    sentence: str


def digest(edits: Edits) -> str:
    """The same change has the same digest, in whatever order its files are named."""
    sha = hashlib.sha256()
    for change in sorted(edits, key=lambda change: change.path):
        for part in (change.path, change.before, change.after):
            data = b"" if part is None else part.encode("utf-8", "surrogatepass")
            sha.update(b"-" if part is None else b"%d:" % len(data))
            sha.update(data)
    return sha.hexdigest()


def lines(text: str) -> list[str]:
    """Lines with their ends, as Python and git count them: split at newlines alone, not at form feeds."""
    parts = text.split("\n")
    ended = [part + "\n" for part in parts[:-1]]
    return [*ended, parts[-1]] if parts[-1] else ended


def diff(edits: Edits, context: int = 3) -> str:
    """The change as a unified diff that `git apply` takes."""
    out: list[str] = []
    for change in edits:
        before = "/dev/null" if change.before is None else f"a/{change.path}"
        after = "/dev/null" if change.after is None else f"b/{change.path}"
        for line in difflib.unified_diff(
            lines(change.before or ""), lines(change.after or ""), fromfile=before, tofile=after, n=context
        ):
            out.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(out)


def changed_lines(edits: Edits) -> int:
    """Lines that were added plus lines that were removed."""
    return len(added(edits)) + len(removed(edits))


def added(edits: Edits) -> list[str]:
    """The lines that a change adds, without their ends."""
    return [line[1:] for line in _marked(edits, "+")]


def removed(edits: Edits) -> list[str]:
    """The lines that a change removes, without their ends."""
    return [line[1:] for line in _marked(edits, "-")]


def _marked(edits: Edits, mark: str) -> list[str]:
    found = []
    for change in edits:
        delta = list(difflib.unified_diff(lines(change.before or ""), lines(change.after or ""), n=0))
        found += [line.rstrip("\r\n") for line in delta[2:] if line.startswith(mark)]  # the first two are the file names
    return found


async def read_text(workspace: Workspace, path: str) -> str | EditProblem | None:
    """A file as text; None when there is none; a problem when it cannot be edited as text."""
    try:
        content = await workspace.read(path, EDITABLE)
    except FileNotFoundError:
        return None
    except LimitExceeded:
        return EditProblem(f"{path} is larger than {EDITABLE // 1024} KiB and is not edited.")
    except ValueError as error:
        return EditProblem(f"{path!r} is not a file of the repository: {error}.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return EditProblem(f"{path} is not UTF-8 text and is not edited.")
    return EditProblem(f"{path} is a binary file and is not edited.") if "\0" in text else text


async def apply(workspace: Workspace, edits: Edits) -> EditProblem | None:
    """Write a change; nothing is written unless every file is what the change expects."""
    for change in edits:
        current = await read_text(workspace, change.path)
        if isinstance(current, EditProblem):
            return current
        if current != change.before:
            return EditProblem(f"{change.path} is not what the change was made for.")
    for change in edits:
        if change.after is None:
            await workspace.remove(change.path)
        else:
            await workspace.write(change.path, change.after.encode("utf-8"))
    return None
