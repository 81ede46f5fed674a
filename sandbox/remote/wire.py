"""The messages of both sides: one line of JSON each.

Uses only the standard library, because the machine has a bare Python. Hostile code runs on the machine, so the worker reads
answers as data of an expected type (`sandbox.e2b.client`); the only objects that they can name are the errors listed here.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from sandbox.base import (
    Command,
    DeadlinePassed,
    InstallFailed,
    LimitExceeded,
    Packages,
    SandboxLost,
    SandboxUnavailable,
    UnsafeArchive,
)
from sandbox.install.download import DownloadRefused

INLINE = 48 * 1024  # bytes of a message sent as an argument or printed; longer ones are files
INTERPRETER = "/opt/selfheal/bin/python"
"""The machine's Python for the server, with pip, uv and pyseccomp; bubblewrap and util-linux must be installed too."""
HOME = "/var/lib/selfheal"
SOCKET = f"{HOME}/socket"
REQUESTS, ANSWERS = f"{HOME}/asked", f"{HOME}/answered"
BASE = "base"  # the base workspace's name
NAME = re.compile(r"[0-9a-f]{8,40}")  # of requests and cache keys
CANCEL = "-"  # sent instead of a request: cancels the request of this name
ERRORS: Mapping[str, tuple[type[Exception], tuple[str, ...]]] = {
    "deadline": (DeadlinePassed, ("seconds", "stdout", "stderr")),
    "limit": (LimitExceeded, ("which", "limit")),
    "archive": (UnsafeArchive, ("reason",)),
    "download": (DownloadRefused, ("reason", "output")),
    "install": (InstallFailed, ("reason", "output")),
    "unavailable": (SandboxUnavailable, ("reason",)),
    "missing": (FileNotFoundError, ("reason",)),
    "value": (ValueError, ("reason",)),
    "lost": (SandboxLost, ("reason",)),
}
"""Name → the error and the names of its arguments."""


def encode(value: object) -> str:
    """One line of ASCII: bytes as base64, dataclasses as objects."""
    return json.dumps(value, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise TypeError(f"cannot be sent: {type(value).__name__}")


def failure(error: BaseException) -> dict[str, object]:
    """The answer for `error`."""
    for name, (kind, arguments) in ERRORS.items():
        if isinstance(error, kind):
            return {"error": name, "reason": str(error)} | {each: getattr(error, each, str(error)) for each in arguments}
    return {"error": "lost", "reason": f"{type(error).__name__}: {error}"[:500]}


def arguments_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a request, converted back to their original types."""
    return {name: _READERS[name](value) if name in _READERS else value for name, value in request.items()}


def _command(given: Mapping[str, Any]) -> Command:
    return Command(**_with_tuples(given) | {"stdin": base64.b64decode(given["stdin"])})


def _with_tuples(given: Mapping[str, Any]) -> dict[str, Any]:
    """Turn JSON's lists into tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


def _packages(given: Mapping[str, Any]) -> Packages:
    return Packages(**_with_tuples(given))


_READERS: Mapping[str, Callable[[Any], object]] = {"command": _command, "packages": _packages, "content": base64.b64decode}
