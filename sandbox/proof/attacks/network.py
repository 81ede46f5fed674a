"""Attacks over the network: on the machine, other machines, name servers, the cloud's metadata service, another sandbox."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time

from .trying import attack, content, lines, processes_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .trying import Outcome, Planted

AT_ONCE = 1.0  # seconds; a packet without an answer for that long has left the sandbox
LOOKUP_SECONDS = 6.0  # a resolver asks again after five seconds
NOBODYS = "192.0.2.53"  # reserved for documentation; without a route to it, there is none to any name server
OWN_LOOPBACK = ("127.0.0.1", "127.0.0.53", "127.0.0.11")  # where machines and containers run a resolver
QUESTION = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1"


def reach(family: int, address: Any) -> int | None:
    """Errno of trying to connect; 0 if somebody answered, None if the packet left the sandbox and nobody answered."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.settimeout(AT_ONCE)
            code = one.connect_ex(address)
    except socket.timeout:
        return None
    except OSError as error:  # a kernel without IPv6
        return error.errno
    return None if code in (errno.EAGAIN, errno.EINPROGRESS, errno.ETIMEDOUT) else code


def has_left(code: int | None) -> bool:
    """Whether a packet left the sandbox. A refusal comes from outside; only "no route" shows that there is no way out."""
    return code not in (
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.EACCES,
        errno.EPERM,
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
    )


@attack
def proxy(planted: Planted) -> Outcome:
    """The installer's proxy must lead to the package index only: not back to the machine, nor to the cloud's metadata."""
    address = os.environ.get("HTTPS_PROXY", "")
    if not address:
        return True, "there is no proxy"
    host, _, port = address.rpartition("/")[2].rpartition(":")
    targets = ["%s:%d" % (name, one) for one in planted["ports"] for name in ("127.0.0.1", "localhost", "0.0.0.0", "[::1]")]
    for target in [*targets, "169.254.169.254:80", NOBODYS + ":443"]:
        for start in ("CONNECT %s", "GET http://%s/"):
            request = (start + " HTTP/1.1\r\nHost: %s\r\n\r\n") % (target, target)
            with socket.create_connection((host, int(port)), AT_ONCE) as one:
                one.settimeout(LOOKUP_SECONDS)
                one.sendall(request.encode("ascii"))
                status = one.recv(100).split(b" ")[1:2]
            if status not in ([b"400"], [b"403"]):
                return False, "the installer's proxy tried to reach %s" % target
    return True, "the proxy refuses everything but the package index"


@attack
def loopback_of_the_machine(planted: Planted) -> Outcome:
    for port in planted["ports"]:
        if reach(socket.AF_INET, ("127.0.0.1", port)) == 0:
            return False, "a listener on the worker's loopback was reached"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            try:
                one.sendto(planted["token"].encode(), ("127.0.0.1", port))
            except OSError:
                pass
    return True, "the worker's listeners on 127.0.0.1 are out of reach"


@attack
def abstract_socket(planted: Planted) -> Outcome:
    if reach(socket.AF_UNIX, "\0" + planted["abstract"]) == 0:
        return False, "an abstract Unix socket of the machine was reached"
    return True, "abstract Unix sockets of the machine are out of reach"


@attack
def other_machines(planted: Planted) -> Outcome:
    """Uses addresses that do not exist: if no packet can leave the sandbox, the kernel reports that at once."""
    names = [line.partition(":")[0].strip() for line in lines("/proc/net/dev")[2:]]
    found = [name for name in names if name != "lo" and interface_is_up(name)]
    if found:
        return False, "there is a network interface: " + ", ".join(found)
    for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        if has_left(reach(family, (address, 80))):
            return False, "a packet to %s left the sandbox" % address
    return True, "no interface except its own loopback, and no route to any address"


def interface_is_up(name: str) -> bool:
    try:
        return bool(int(lines("/sys/class/net/%s/flags" % name)[0], 16) & 1)
    except (OSError, ValueError, IndexError):
        pass
    try:
        routes = [line.split()[0] for line in lines("/proc/net/route")[1:] if line]
        addresses = [line.split()[-1] for line in lines("/proc/net/if_inet6") if line]
    except (OSError, IndexError):
        return True
    return name in routes or name in addresses


@attack
def name_service(planted: Planted) -> Outcome:
    """Works on any machine, with or without a name server: there must be no route to one, and no resolver may answer."""
    for server in [server for server in planted["resolvers"] if not server.startswith("127.")] + [NOBODYS]:
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as one:
                one.connect((server, 53))
        except OSError:
            continue
        return False, "there is a route to the name server %s" % server
    for server in OWN_LOOPBACK:
        if resolves(server):
            return False, "a name server answers at %s" % server
    answers: list[Any] = []

    def ask() -> None:
        try:
            answers.extend(socket.getaddrinfo("example.com", 80))
        except OSError:
            pass

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(LOOKUP_SECONDS)
    if asking.is_alive():
        return None, "a name lookup did not end within %d s" % LOOKUP_SECONDS
    return not answers, "a host name was resolved" if answers else "host names cannot be resolved"


def resolves(server: str, port: int = 53) -> bool:
    """Whether anything accepts a DNS query at this address; if nothing listens there, the kernel refuses it at once."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.settimeout(AT_ONCE)
            one.connect((server, port))
            one.send(QUESTION)
            one.recv(512)
    except socket.timeout:
        return True
    except OSError:
        return False
    return True


@attack
def metadata_of_the_cloud(planted: Planted) -> Outcome:
    for family, address in ((socket.AF_INET, "169.254.169.254"), (socket.AF_INET6, "fd00:ec2::254")):
        if has_left(reach(family, (address, 80))):
            return False, "there is a route to the metadata service at %s" % address
    return True, "the metadata service is out of reach"


@attack
def another_sandbox(planted: Planted) -> Outcome:
    """`neighbour` describes what a program in a second sandbox has opened and written, with its own token."""
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
    return True, "the other sandbox's processes, sockets and files are out of reach"


def stay(token: str, seconds: float) -> None:
    """Give the attack `another sandbox` something to find: a process, a socket and files with the token."""
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
