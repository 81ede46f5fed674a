"""The messages of both sides: a line of JSON and the bytes that belong to it.

Standard library only: the machine has a bare Python. Answers come from a machine that runs hostile code, so they are read as
data, inside `reading_answer`; the only objects they can name are the errors listed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from sandbox.base import (
    Command,
    Completed,
    DeadlinePassed,
    Entry,
    Installed,
    InstallFailed,
    LimitExceeded,
    Packages,
    SandboxLost,
    SandboxUnavailable,
    UnsafeArchive,
)

FRAME = 1024 * 1024  # bytes of an answer besides the requested content
INLINE = 48 * 1024  # bytes of a message sent as an argument or printed; longer ones are files
INTERPRETER = "/opt/selfheal/bin/python"
"""The machine's Python for the server, with pip, uv and pyseccomp; bubblewrap and util-linux must be installed too."""
HOME = "/var/lib/selfheal"
SOCKET = f"{HOME}/socket"
REQUESTS, ANSWERS = f"{HOME}/asked", f"{HOME}/answered"
BASE = "base"  # the base workspace's name
NAME = re.compile(r"[0-9a-f]{8,40}")  # of requests and cache keys

Head = dict[str, Any]


@contextmanager
def reading_answer() -> Iterator[None]:
    """Treat an answer of unexpected shape as a lost machine (`SandboxLost`)."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise SandboxLost(f"cannot read the machine's answer: {type(error).__name__}: {error}"[:300]) from error


def pack(head: Mapping[str, Any], *blobs: bytes) -> bytes:
    """Encode one message; `blobs` are binary parts."""
    line = json.dumps({**head, "blobs": [len(blob) for blob in blobs]}).encode()
    return b"\n".join((line, b"".join(blobs)))


def unpack(message: bytes) -> tuple[Head, tuple[bytes, ...]]:
    """Decode one message. Raises `ValueError` if it is incomplete."""
    line, newline, rest = message.partition(b"\n")
    try:
        head = json.loads(line)
    except RecursionError as error:
        raise ValueError("not a message: too deep") from error
    sizes = head.pop("blobs", None) if isinstance(head, dict) else None
    if not newline or not isinstance(sizes, list) or not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise ValueError("not a message")
    if sum(sizes) != len(rest):
        raise ValueError("a message with bytes missing")
    blobs, start = [], 0
    for size in sizes:
        blobs.append(rest[start : start + size])
        start += size
    return head, tuple(blobs)


def packages_from(head: Head) -> Packages:
    return Packages(**_with_tuples(head))


def command_to(command: Command) -> Head:
    """Everything but standard input, which is a blob."""
    return {each.name: getattr(command, each.name) for each in fields(command) if each.name != "stdin"} | {
        "env": dict(command.env)
    }


def command_from(head: Head, stdin: bytes) -> Command:
    return Command(**_with_tuples(head), stdin=stdin)


def _with_tuples(head: Head) -> Head:
    """Turn JSON's lists into tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in head.items()}


def completed_to(ended: Completed) -> bytes:
    rest = {name: value for name, value in asdict(ended).items() if name not in ("stdout", "stderr")}
    return pack(rest, ended.stdout, ended.stderr)


def completed_from(head: Head, blobs: tuple[bytes, ...]) -> Completed:
    stdout, stderr = blobs
    code, seconds = int(head["exit_code"]), float(head["seconds"])
    return Completed(code, stdout, stderr, seconds, bool(head["truncated"]), bool(head["out_of_memory"]))


def installed_from(head: Head) -> Installed:
    return Installed(
        str(head["python"]),
        float(head["seconds"]),
        tuple(map(str, head["built"])),
        str(head["output"]),
        tuple(map(str, head["notes"])),
    )


def entries_to(entries: tuple[Entry, ...]) -> bytes:
    rows = [[entry.path, entry.size, entry.executable, entry.link] for entry in entries]
    return json.dumps(rows).encode()


def entries_from(content: bytes) -> tuple[Entry, ...]:
    return tuple(Entry(str(path), int(size), bool(runs), bool(link)) for path, size, runs, link in json.loads(content))


def error_to(error: BaseException) -> bytes:
    """Encode a failure."""
    match error:
        case DeadlinePassed():
            return pack({"error": "deadline", "seconds": error.seconds}, error.stdout, error.stderr)
        case LimitExceeded():
            return pack({"error": "limit", "which": error.which, "limit": error.limit})
        case UnsafeArchive():
            return pack({"error": "archive", "reason": error.reason})
        case InstallFailed():
            return pack({"error": "install", "reason": error.reason, "output": error.output})
        case SandboxUnavailable():
            return pack({"error": "unavailable", "reason": error.reason})
        case FileNotFoundError():
            return pack({"error": "missing", "reason": str(error)})
        case ValueError():
            return pack({"error": "value", "reason": str(error)})
        case SandboxLost():
            return pack({"error": "lost", "reason": error.reason})
        case _:
            return pack({"error": "lost", "reason": f"{type(error).__name__}: {error}"[:500]})


def error_from(head: Head, blobs: tuple[bytes, ...]) -> Exception | None:
    """The failure in an answer, or None."""
    reason = str(head.get("reason", ""))
    match head.get("error"):
        case None:
            return None
        case "deadline" if len(blobs) == 2:
            return DeadlinePassed(float(head.get("seconds", 0)), *blobs)
        case "limit" if head.get("which") in ("memory", "disk", "output", "processes"):
            return LimitExceeded(head["which"], int(head.get("limit", 0)))
        case "archive":
            return UnsafeArchive(reason)
        case "install":
            return InstallFailed(reason, str(head.get("output", "")))
        case "unavailable":
            return SandboxUnavailable(reason)
        case "missing":
            return FileNotFoundError(reason)
        case "value":
            return ValueError(reason)
        case "lost":
            return SandboxLost(reason)
        case other:
            return SandboxLost(f"the machine answered with an unknown error: {str(other)[:80]}")
