"""On the machine: passes one request to the server and prints its answer. Started per request, so it imports little.

`messenger.py SOCKET ID [REQUEST]`; without a request it waits for the answer to an earlier one. The answer is printed in
base64, or only its size if it is long; then it is fetched as a file. When this process dies, the server cancels the work.
"""

from __future__ import annotations

import socket
import sys


def main() -> int:
    path, name, *question = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except OSError as error:
            sys.stderr.write(f"no server: {error}\n")
            return 70
        connection.sendall(f"{name} {question[0] if question else ''}\n".encode())
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    sys.stdout.write(answer.decode())
    return 0 if answer.endswith(b"\n") else 71


if __name__ == "__main__":
    sys.exit(main())
