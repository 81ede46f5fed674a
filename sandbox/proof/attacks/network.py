"""Every way to somebody else: the machine itself, other machines, names, the cloud's own service."""

import errno
import socket
import threading

from selfheal_proof.trying import attack, lines

AT_ONCE = 1.0  # seconds: a packet that stays unanswered for so long has left the sandbox


def reach(family, address):
    """Errno of trying to connect; 0 when somebody answered, None when the packet left and nobody did."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.settimeout(AT_ONCE)
            code = one.connect_ex(address)
    except socket.timeout:
        return None
    except OSError as error:  # a kernel without IPv6
        return error.errno
    return None if code in (errno.EAGAIN, errno.EINPROGRESS, errno.ETIMEDOUT) else code


def has_left(code):
    """A refusal comes from somewhere: only "there is no way" shows that there is none."""
    return code not in (
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.EACCES,
        errno.EPERM,
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
    )


@attack
def loopback_of_the_machine(planted):
    for port in planted["ports"]:
        if reach(socket.AF_INET, ("127.0.0.1", port)) == 0:
            return False, "a listener on the worker's loopback was reached"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            try:
                one.sendto(planted["token"].encode(), ("127.0.0.1", port))
            except OSError:
                pass
    return True, "what listens on 127.0.0.1 outside is out of reach"


@attack
def abstract_socket(planted):
    if reach(socket.AF_UNIX, "\0" + planted["abstract"]) == 0:
        return False, "an abstract Unix socket of the machine was reached"
    return True, "abstract Unix sockets of the machine are out of reach"


@attack
def other_machines(planted):
    """Also one that does not exist: where no packet can leave, the kernel says so at once."""
    names = [line.partition(":")[0].strip() for line in lines("/proc/net/dev")[2:]]
    found = [name for name in names if name != "lo" and interface_is_up(name)]
    if found:
        return False, "there is a network interface: " + ", ".join(found)
    for family, address in ((socket.AF_INET, ("192.0.2.1", 80)), (socket.AF_INET6, ("2001:db8::1", 80))):
        if has_left(reach(family, address)):
            return False, "a packet to %s left the sandbox" % address[0]
    return True, "no interface but its own loopback, and no way to any address"


def interface_is_up(name):
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
def name_service(planted):
    for server in planted["resolvers"]:
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        if server.startswith("127."):
            continue  # its own loopback
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as one:
                one.connect((server, 53))
        except OSError:
            continue
        return False, "there is a way to the name server %s" % server
    answers = []

    def ask():
        try:
            answers.extend(socket.getaddrinfo("example.com", 80))
        except OSError:
            pass

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(AT_ONCE)
    return not answers, "a name was looked up" if answers else "names cannot be looked up"


@attack
def metadata_of_the_cloud(planted):
    for family, address in ((socket.AF_INET, "169.254.169.254"), (socket.AF_INET6, "fd00:ec2::254")):
        if has_left(reach(family, (address, 80))):
            return False, "there is a way to the metadata service at %s" % address
    return True, "the metadata service is out of reach"
