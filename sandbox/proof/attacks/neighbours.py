"""Another sandbox of the same worker, open at the same time: this is both sides of it."""

import os
import socket
import time

from selfheal_proof.network import reach
from selfheal_proof.trying import attack, processes_here, told


@attack
def another_sandbox(planted):
    """`neighbour` is what a program in a second sandbox has opened and written; its own token tells it from the canaries."""
    neighbour = planted["neighbour"]
    token = neighbour["token"].encode()
    for name in processes_here():
        try:
            if token in told("/proc/%s/cmdline" % name):
                return False, "a process of another sandbox is seen"
        except OSError:
            continue
    if reach(socket.AF_UNIX, "\0" + neighbour["token"]) == 0:
        return False, "a socket of another sandbox was reached"
    for path in neighbour["paths"]:
        try:
            if token in told(path):
                return False, "a file of another sandbox was read at %s" % path
        except OSError:
            continue
    return True, "its processes, sockets and files are out of reach"


def stay(token, seconds):
    """Be found by `another sandbox`, if it can: a process, a socket and files with the token."""
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
