"""What a person's own checkout remembers, read from git's objects: commits, and the files of one.

git runs neither hooks nor filters, nor anything else that a configuration names; nothing is written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.bench.specimen import BadInput, File, NotPosed
from sandbox.base import MIB
from sandbox.host import launch

SECONDS = 120.0  # one call of git
LARGEST = 256 * MIB  # bytes of one commit's files
_SAFE = (
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "safe.directory=*"),
    *("-c", "core.quotePath=false", "-c", "protocol.allow=never", "--no-pager", "--no-optional-locks"),
)
_LINK, _EXECUTABLE = "120000", "100755"


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    parent: str
    paths: tuple[str, ...]  # what it changed


async def commits(root: Path, most: int) -> list[Commit]:
    """The last commits that are no merges, newest first. Raises `BadInput`."""
    command = ("log", "--no-merges", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-show-signature", "--name-only")
    ended = await _git(root, *command, f"--max-count={most}", "--format=%x01%H %P", "HEAD", "--")
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip().split("\n")[-1]
        raise BadInput(f"{root} is not a git checkout with commits ({said[:200]}); give the folder of one")
    found = []
    for part in ended.stdout.decode(errors="replace").split("\x01")[1:]:
        head, *paths = part.split("\n")
        ids = head.split(" ")
        if len(ids) == 2 and ids[1]:  # the first commit has no parent
            found.append(Commit(ids[0], ids[1], tuple(path for path in paths if path)))
    return found


async def files(root: Path, commit: str) -> dict[str, File]:
    """The regular files of a commit, exactly as they were committed. Raises `NotPosed`."""
    listed = await _git(root, "ls-tree", "-r", "-z", "--full-tree", commit)
    entries = []
    for line in listed.stdout.split(b"\0"):
        head, tab, path = line.decode(errors="surrogateescape").partition("\t")
        mode, kind, blob = head.split(" ") if tab else ("", "", "")
        if kind == "blob" and mode != _LINK:
            entries.append((path, blob, mode == _EXECUTABLE))
    asked = "".join(f"{blob}\n" for _, blob, _ in entries).encode()
    told = await _git(root, "cat-file", "--batch", "--buffer", stdin=asked)
    if listed.returncode != 0 or told.returncode != 0 or listed.truncated or told.truncated:
        raise NotPosed(
            f"the files of commit {commit[:12]} cannot be read: git failed, or they are more than {LARGEST // MIB} MiB"
        )
    return dict(zip((path for path, _, _ in entries), _contents(told.stdout, [mode for _, _, mode in entries]), strict=True))


def _contents(batch: bytes, executable: Sequence[bool]) -> list[File]:
    """What `cat-file --batch` tells: a line with the size, the content, a newline; one after the other."""
    found, at = [], 0
    for mode in executable:
        end = batch.index(b"\n", at)
        size = int(batch[at:end].rsplit(b" ", 1)[1])
        found.append(File(batch[end + 1 : end + 1 + size], mode))
        at = end + size + 2
    return found


async def _git(root: Path, *argv: str, stdin: bytes = b"") -> launch.ProcessResult:
    """Raises `BadInput` without git."""
    git = shutil.which("git")
    if git is None:
        raise BadInput("git is not installed; it is needed to read a checkout's history")
    # Run from a hook, git's own variables would point it at another repository.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**variables, "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    return await launch.run(launch.Launch((git, *_SAFE, "-C", str(root), *argv), environment, SECONDS, stdin, 2 * LARGEST))
