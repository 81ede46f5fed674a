"""How a process that runs tests reports to its supervisor: JSON lines over a Unix socket in a private folder.

One environment variable names the folder, which also holds the request. A socket path survives `close_fds`, shells and `make`.
"""

from __future__ import annotations

import json
import os
import socket
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "SELFHEAL_GUEST"
SOCKET = "channel"
REQUEST = "request.json"


class Channel:
    """The sending end. Only the process that opened it sends; a child that a test forks sends nothing.

    The first message names a key that every later message carries, so a line that other code writes to the socket is noticed.
    """

    __slots__ = ("root", "only", "conditions", "canary", "_restore", "_pid", "_socket", "_key", "_lock")

    def __init__(self, folder: str) -> None:
        with open(os.path.join(folder, REQUEST), encoding="utf-8") as file:
            request = json.load(file)
        self.root: str = request["root"]
        self.only: frozenset[str] | None = None if request["only"] is None else frozenset(request["only"])
        self.conditions: dict[str, Any] = request["conditions"]
        self.canary: str = request["canary"]
        self._restore: dict[str, str | None] = request["restore"]
        self._pid = os.getpid()
        self._key = os.urandom(12).hex()
        self._lock = threading.RLock()  # a finalizer may send in the middle of another message
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
        """Give the tests the environment they would have without us, and leave test runners that a test starts unobserved."""
        os.environ.pop(VARIABLE, None)
        for name, value in self._restore.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def connect() -> Channel | None:
    """The channel of this process, or None when no supervisor asked for one."""
    folder = os.environ.get(VARIABLE)
    return Channel(folder) if folder else None
