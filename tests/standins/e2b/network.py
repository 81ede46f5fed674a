"""A machine's network: a namespace of its own with nothing in it but doors to the hosts that are allowed now.

A door listens inside, at the address that the machine's hosts file gives the name, and leads to the real host from outside. So
an update of the rules holds for what runs already, as E2B's does. Only the given ports exist outside.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import ipaddress
import os
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
LOCAL = "127.0.0.1 localhost\n"
_LIBC = ctypes.CDLL(None, use_errno=True)


class Network:
    """`hosts` is the machine's hosts file."""

    def __init__(self, hosts: Path) -> None:
        self._hosts = hosts
        self._hosts.write_text(LOCAL)
        self._doors: list[asyncio.Server] = []
        self._open: set[asyncio.Task[None]] = set()
        self.namespace = _in_a_thread(_make)

    @property
    def enter(self) -> tuple[str, ...]:
        return ("nsenter", f"--net=/proc/{os.getpid()}/fd/{self.namespace}", "--")

    async def allow(self, names: Sequence[str], ports: Sequence[int]) -> None:
        self.close_doors()
        lines = [LOCAL]
        for number, name in enumerate(names):
            address = name if _is_address(name) else f"127.77.0.{number + 1}"
            lines.append("" if address == name else f"{address} {name}\n")
            for port in ports:
                listener = _in_a_thread(lambda address=address, port=port: _listen(self.namespace, address, port))
                self._doors.append(await asyncio.start_server(self._through(name, port), sock=listener))
        self._hosts.write_text("".join(lines))

    def close_doors(self) -> None:
        for door in self._doors:
            door.close()
        self._doors.clear()
        for task in self._open:
            task.cancel()

    def close(self) -> None:
        self.close_doors()
        os.close(self.namespace)

    def _through(self, name: str, port: int) -> Callable[..., None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open.add(task := asyncio.ensure_future(_join(reader, writer, name, port)))
            task.add_done_callback(self._open.discard)

        return accept


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, port: int) -> None:
    try:
        far_reader, far_writer = await asyncio.open_connection(name, port)
        try:
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            far_writer.close()
    except OSError:
        pass
    finally:
        writer.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(1 << 16):
        sink.write(chunk)
        await sink.drain()
    with suppress(OSError):
        sink.write_eof()


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _in_a_thread(work: Callable[[], T]) -> T:
    """A thread may change its namespace, and takes it along when it ends."""
    done: list[T] = []
    thread = threading.Thread(target=lambda: done.append(work()))
    thread.start()
    thread.join()
    return done[0]


def _make() -> int:
    if _LIBC.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace can be made")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        request = struct.pack("16sh", b"lo", 0) + bytes(14)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(one, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP) + bytes(14))
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _listen(namespace: int, address: str, port: int) -> socket.socket:
    if _LIBC.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "the network namespace cannot be entered")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen()
    listener.setblocking(False)
    return listener
