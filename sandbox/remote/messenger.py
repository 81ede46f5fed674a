"""Runs on the machine: passes one request to the server and prints its answer. Started per request, so it imports little.

`messenger.py SOCKET NAME [REQUEST]`; without REQUEST, the server reads the request from a file or is already working on it.
Prints the answer, or an empty line if the answer is long and must be fetched as a file.
"""

from __future__ import annotations

import json
import socket
import sys


def main() -> None:
    path, *words = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except OSError as error:
            print(json.dumps({"error": "lost", "reason": f"the sandbox's server is not running: {error}"}))  # noqa: T201
            return
        connection.sendall(f"{' '.join(words)}\n".encode())
        while chunk := connection.recv(65536):
            sys.stdout.buffer.write(chunk)


if __name__ == "__main__":
    main()
