"""Runs inside the sandbox during an install step: `forwarder.py SOCKET PROGRAM ARGUMENTS…`.

The sandbox has no network. This program listens on the loopback interface, forwards every connection to the Unix socket of the
proxy outside, and runs the installer with itself as the proxy. It uses only the standard library; old Pythons can run it too.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress


def forward(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        for chunk in iter(lambda: source.recv(65536), b""):  # Python 3.7 has no `:=`
            sink.sendall(chunk)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def serve(listener: socket.socket, path: str) -> None:
    while True:
        near, _ = listener.accept()
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(path)
        except OSError:
            near.close()
            continue
        for pair in ((near, far), (far, near)):
            threading.Thread(target=forward, args=pair, daemon=True).start()


def main(path: str, argv: list[str]) -> int:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    threading.Thread(target=serve, args=(listener, path), daemon=True).start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY")
    return subprocess.call(argv, env=dict(os.environ, **dict.fromkeys(names, address)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
