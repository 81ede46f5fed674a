"""Reads a checkout's git objects on this machine, without running any program that the checkout's configuration names."""

from __future__ import annotations

import os
import shutil

from sandbox.base import MIB
from sandbox.host import launch

SECONDS = 120.0  # for one command
LARGEST = 512 * MIB  # bytes of one command's output
_SAFE = (
    *(
        "-c",
        "core.fsmonitor=false",
        "-c",
        f"core.hooksPath={os.devnull}",
        "-c",
        "safe.directory=*",
        "-c",
        "core.quotePath=false",
    ),
    *("-c", "log.showSignature=false", "-c", "protocol.allow=never", "--no-pager", "--no-optional-locks"),
)


async def read(root: str | os.PathLike[str], *argv: str, stdin: bytes = b"") -> launch.ProcessResult | None:
    """The result of a git command that only reads, such as `ls-tree`; None if git is not installed.

    Safe for objects, refs, configuration and the index. Commands that look at working files (`diff`, `status`) can run filters.
    """
    git = shutil.which("git")
    if git is None:
        return None
    # In a hook, git's own variables would point to another repository.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # A partial clone would fetch missing objects with a program of its own choice.
    never = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return await launch.run(
        launch.Launch((git, *_SAFE, "-C", os.fspath(root), *argv), variables | never, SECONDS, stdin, LARGEST)
    )


def batch_contents(batch: bytes, count: int) -> list[bytes]:
    """The contents in the output of `cat-file --batch`: for each object, a line that ends in its size, the content, a newline.

    Raises `ValueError` if an object is missing, as in a partial clone.
    """
    found, at = [], 0
    for _ in range(count):
        end = batch.index(b"\n", at)
        size = int(batch[at:end].rsplit(b" ", 1)[1])
        found.append(batch[end + 1 : end + 1 + size])
        at = end + size + 2
    return found
