"""Over there: carries one question to the server and its answer back. Started once a question, so it imports little.

`messenger.py SOCKET ID [QUESTION]`: without a question it waits for the answer to one that was asked before. The answer is
printed in base64, or only its size where it is long: then it is fetched as a file. When this process dies, the server ends
what it waits for.
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
