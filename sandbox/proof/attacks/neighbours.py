"""Another sandbox of the same worker, open at the same time: both sides of the attack."""

from __future__ import annotations

import os
import socket
import time

from .network import reach
from .trying import attack, content, processes_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .trying import Outcome, Planted


@attack
def another_sandbox(planted: Planted) -> Outcome:
    """`neighbour` is what a program in a second sandbox has opened and written, with its own token."""
    neighbour = planted["neighbour"]
    if neighbour is None:
        return None, "there is no second sandbox"
    token = neighbour["token"].encode()
    for name in processes_here():
        try:
            if token in content("/proc/%s/cmdline" % name):
                return False, "a process of another sandbox is visible"
        except OSError:
            continue
    if reach(socket.AF_UNIX, "\0" + neighbour["token"]) == 0:
        return False, "a socket of another sandbox was reached"
    for path in neighbour["paths"]:
        try:
            if token in content(path):
                return False, "a file of another sandbox was read at %s" % path
        except OSError:
            continue
    return True, "its processes, sockets and files are out of reach"


def stay(token: str, seconds: float) -> None:
    """Offer `another sandbox` what it could find: a process, a socket and files with the token."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + token)
        listener.listen(8)
        for folder in ("/tmp", "/dev/shm", "."):
            try:
                with open(os.path.join(folder, token), "w") as file:
                    file.write(token)
            except OSError:
                continue
        time.sleep(seconds)
