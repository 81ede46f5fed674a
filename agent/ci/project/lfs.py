"""Finds files of Git LFS whose content is missing: a small text, the pointer, stands for it."""

from __future__ import annotations

import re
from collections.abc import Collection

from agent.guest.text import one_line
from sandbox.base import KIB, Command, DeadlinePassed, LimitExceeded, Workspace

_SECONDS = 20.0
_ATTRIBUTES = 20  # files of attributes that are read
_NAMED = 5
_FILTER = re.compile(r"(?m)^[^#\n]*\bfilter=lfs\b")
# The form of a pointer is fixed: it has fewer than 1,024 bytes and begins with its version.
_FIND = (
    "find . -name .git -prune -o -type f -size -1024c -exec grep -lZ -m1 '^version https://git-lfs.github.com/spec/v1$' {} +"
)


async def note(workspace: Workspace, paths: Collection[str], *, is_local: bool) -> str:
    """Which of the files `paths` are pointers, for people; "" if none is. Raises `SandboxError`.

    `is_local`: the reader has the checkout at hand.
    """
    attributes = sorted(path for path in paths if path.rpartition("/")[2] == ".gitattributes")[:_ATTRIBUTES]
    if not [path for path in attributes if _FILTER.search(await _text(workspace, path))]:
        return ""
    try:
        found = await workspace.run(Command(("/bin/sh", "-c", _FIND), _SECONDS, output_limit=512 * KIB))
    except (DeadlinePassed, LimitExceeded):
        return ""
    names = sorted(name.removeprefix("./") for name in found.stdout.decode(errors="replace").split("\0") if name)
    if not names:
        return ""
    shown = ", ".join(one_line(name, 100) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    what_now = "run `git lfs pull` first" if is_local else "let GitHub include LFS objects in the repository's archives"
    return f"Git LFS has only pointers here for {shown}{more}, so tests that read the content fail: {what_now}"


async def _text(workspace: Workspace, path: str) -> str:
    try:
        return (await workspace.read(path, 64 * KIB)).decode("utf-8", "replace")
    except (FileNotFoundError, LimitExceeded, ValueError):
        return ""
