"""Runs git on this machine, without running any program that a checkout's configuration names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from sandbox.base import MIB
from sandbox.host import launch

SECONDS = 120.0  # for one command
CLONE_SECONDS = 1200.0
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
    *("-c", "log.showSignature=false", "--no-pager", "--no-optional-locks"),
)


async def clone(source: str, ref: str, target: str | os.PathLike[str]) -> str:
    """Make the repository `target` with the commit `ref` of `source` as FETCH_HEAD, and its tags; no file is checked out.

    `source` is a folder or a URL; git asks nobody for a password. Returns what went wrong, or "".
    """
    folder = os.fspath(target)
    return (
        await _write("init", "-q", folder)
        or await _write("-C", folder, "remote", "add", "origin", source)
        or await _write("-C", folder, "fetch", "-q", "origin", ref, "refs/tags/*:refs/tags/*")
    )


async def check_out(commit: str, target: str | os.PathLike[str]) -> str:
    """Write the files of a commit into the folder of its repository. Returns what went wrong, or ""."""
    return await _write("-C", os.fspath(target), "checkout", "-q", "--detach", commit)


async def _write(*argv: str) -> str:
    allowed = {"GIT_ALLOW_PROTOCOL": "file:https:http"}
    done = await _run(argv, allowed, CLONE_SECONDS)
    if done is None:
        return "git is not installed"
    if done.returncode == 0:
        return ""
    told = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return told[-1].removeprefix("fatal: ") if told else f"git ended with {done.returncode}"


async def read(root: str | os.PathLike[str], *argv: str, stdin: bytes = b"") -> launch.ProcessResult | None:
    """The result of a git command that only reads, such as `ls-tree`; None if git is not installed.

    Safe for objects, refs, configuration and the index. Commands that look at working files (`diff`, `status`) can run filters.
    """
    # A partial clone would fetch missing objects with a program of its own choice.
    never = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
    return await _run(("-c", "protocol.allow=never", "-C", os.fspath(root), *argv), never, SECONDS, stdin, LARGEST)


async def _run(
    argv: Sequence[str], variables: Mapping[str, str], seconds: float, stdin: bytes = b"", limit: int = MIB
) -> launch.ProcessResult | None:
    """None if git is not installed."""
    git = shutil.which("git")
    if git is None:
        return None
    # In a hook, git's own variables would point to another repository.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env = own | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"} | dict(variables)
    return await launch.run(launch.Launch((git, *_SAFE, *argv), env, seconds, stdin, limit))


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
