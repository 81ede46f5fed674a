"""How a process that runs tests tells its supervisor what it sees: JSON lines over a Unix socket in a private folder.

The folder is named by one environment variable and holds the request. A socket path survives `close_fds`, shells and `make`.
"""

import json
import os
import socket
import threading

VARIABLE = "SELFHEAL_GUEST"
SOCKET = "channel"
REQUEST = "request.json"


class Channel:
    """The sending end. Only the process that opened it sends: a child made by a test has nothing to say.

    Its first message names a key that all others carry: a line that somebody else writes to the socket gives itself away.
    """

    __slots__ = ("root", "only", "conditions", "sentinel", "_restore", "_pid", "_socket", "_key", "_lock")

    def __init__(self, folder):
        with open(os.path.join(folder, REQUEST), encoding="utf-8") as file:
            request = json.load(file)
        self.root = request["root"]
        self.only = None if request["only"] is None else frozenset(request["only"])
        self.conditions = request["conditions"]
        self.sentinel = request["sentinel"]
        self._restore = request["restore"]
        self._pid = os.getpid()
        self._key = os.urandom(12).hex()
        self._lock = threading.RLock()  # a finalizer may do what is told, in the midst of telling
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.path.join(folder, SOCKET))

    def send(self, kind, **fields):
        if os.getpid() != self._pid:
            return
        fields["kind"], fields["key"] = kind, self._key
        try:
            line = json.dumps(fields).encode("ascii") + b"\n"
            with self._lock:
                self._socket.sendall(line)
        except OSError:
            pass  # the supervisor is gone, and with it whoever would listen

    def mark(self, mark):
        """Tell what code of the repository did, in whichever thread."""
        self.send("mark", mark=mark)

    def restore_environment(self):
        """Give the tests the environment that they would have without us; a test runner started by a test is not ours."""
        os.environ.pop(VARIABLE, None)
        for name, value in self._restore.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def connect():
    """The channel of this process, or None when no supervisor asked for one."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    return Channel(folder)
