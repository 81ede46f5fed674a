"""Waits until the database answers."""

import os
import socket
import time

deadline = time.monotonic() + int(os.environ["TIMEOUT"])
while True:
    try:
        socket.create_connection(("localhost", 5432), 1).close()
        break
    except OSError:
        if time.monotonic() > deadline:
            raise SystemExit("the database does not answer") from None
        time.sleep(0.1)
print("the database answers")
