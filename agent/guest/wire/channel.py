"""How a process that runs tests reports to its supervisor, and what it reports about an exception.

It sends JSON lines over a Unix socket in a private folder. One environment variable names the folder, which also holds the
request. A socket path survives `close_fds`, shells and `make`.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ..text import clean, one_line

VARIABLE = "SELFHEAL_GUEST"
SOCKET = "channel"
REQUEST = "request.json"


class Channel:
    """The sending end. Only the process that opened it can send; a child that a test forks cannot.

    The first message names a key that every later message repeats, so a line from other code on the socket is detected.
    """

    __slots__ = ("root", "only", "conditions", "canary", "absent", "_restore", "_pid", "_socket", "_key", "_lock")

    def __init__(self, folder: str) -> None:
        with open(os.path.join(folder, REQUEST), encoding="utf-8") as file:
            request = json.load(file)
        self.root: str = request["root"]
        self.only: frozenset[str] | None = None if request["only"] is None else frozenset(request["only"])
        self.conditions: dict[str, Any] = request["conditions"]
        self.canary: str = request["canary"]
        self.absent: tuple[str, ...] = tuple(request.get("absent", ()))
        self._restore: dict[str, str | None] = request["restore"]
        self._pid = os.getpid()
        self._key = os.urandom(12).hex()
        self._lock = threading.RLock()  # a finalizer can send in the middle of another message
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.path.join(folder, SOCKET))

    def send(self, kind: str, **fields: object) -> None:
        if os.getpid() != self._pid:
            return
        fields["kind"], fields["key"] = kind, self._key
        try:
            line = json.dumps(fields).encode("ascii") + b"\n"
            with self._lock:
                self._socket.sendall(line)
        except OSError:
            pass  # the supervisor is gone

    def mark(self, mark: str) -> None:
        """Report what code of the repository did, from any thread."""
        self.send("mark", mark=mark)

    def restore_environment(self) -> None:
        """Give the tests the environment they would have without us, so that test runners that they start are not observed."""
        os.environ.pop(VARIABLE, None)
        for name, value in self._restore.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def connect() -> Channel | None:
    """The channel of this process, or None if no supervisor asked for one."""
    folder = os.environ.get(VARIABLE)
    return Channel(folder) if folder else None


MESSAGE_LIMIT = 500
DETAILS_LIMIT = 6000
FRAMES_LIMIT = 40
CHAIN_LIMIT = 5
PRINTED_LIMIT = 1500


def failure_of(error: BaseException, details: str, root: str, printed: str = "") -> dict[str, Any]:
    """What a verdict reports about its failure. `printed` is what its test, and the programs that it started, printed."""
    said = _of_program(error, printed)
    if said:
        details = clean(details, DETAILS_LIMIT - 2 * PRINTED_LIMIT) + "\nThe program that failed printed:\n" + said
    return {"message": message_of(error), "details": clean(details, DETAILS_LIMIT), "frames": frames_of(error, root)}


def _of_program(error: BaseException, printed: str) -> str:
    """What a program printed whose failure is the error: only that tells why it failed."""
    for link in chain(error):
        if type(link).__name__ == "CalledProcessError":
            kept = [getattr(link, name, None) for name in ("output", "stderr")]
            texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in kept]
            return clean("\n".join([text for text in texts if isinstance(text, str)] or [printed]).strip(), PRINTED_LIMIT)
    return ""


def message_of(error: BaseException) -> str:
    """ "AssertionError: assert 3 == 4". Works whatever the exception's own code does."""
    name = type(error).__name__
    try:
        text = one_line(str(error), MESSAGE_LIMIT)
    except Exception:  # any `__str__` of the repository
        text = ""
    return clean(name + ": " + text if text else name, MESSAGE_LIMIT)


def chain(error: BaseException | None) -> list[BaseException]:
    """The exception and its causes, the root cause last."""
    found: list[BaseException] = []
    while error is not None and len(found) < CHAIN_LIMIT and all(error is not other for other in found):
        found.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def frames_of(error: BaseException, root: str) -> list[list[Any]]:
    """[path, line, function] of the lines inside `root`, outermost first; those of the root cause come last."""
    found: list[list[Any]] = []
    for link in chain(error):
        for path, trace in traced(link, root):
            code = trace.tb_frame.f_code
            found.append([path, trace.tb_lineno or code.co_firstlineno, code.co_name])
        if isinstance(link, SyntaxError) and isinstance(link.filename, str) and isinstance(link.lineno, int):
            named = relative_path(link.filename, root)
            if named:
                found.append([named, link.lineno, ""])
    return found[-FRAMES_LIMIT:]


def traced(error: BaseException, root: str) -> Iterator[tuple[str, TracebackType]]:
    """The part inside `root` of this exception's own traceback, outermost first, each with its path."""
    trace = error.__traceback__
    while trace is not None:
        path = relative_path(trace.tb_frame.f_code.co_filename, root)
        if path:
            yield path, trace
        trace = trace.tb_next


def relative_path(path: str, root: str) -> str | None:
    """`path` relative to `root` with slashes; None if it is elsewhere or in installed packages."""
    path = os.path.normpath(os.path.join(root, path))
    if not path.startswith(root.rstrip(os.sep) + os.sep) or "site-packages" in path or path.endswith(">"):
        return None
    return os.path.relpath(path, root).replace(os.sep, "/")
