"""Registers attacks, and has the functions that most of them need."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    Outcome = tuple["bool | None", str]  # whether the sandbox held (None: not tested), what the attack saw

    class Mark(TypedDict):
        digest: str
        device: int
        inode: int

    class Neighbour(TypedDict):
        token: str
        paths: list[str]

    class Planted(TypedDict):
        """The request that `sandbox.proof.prove` sends."""

        attacks: list[str]
        token: str
        files: dict[str, Mark]
        ports: list[int]
        abstract: str
        segment: int | None
        resolvers: list[str]
        cgroup_namespace: str
        hostname: str
        limits: dict[str, int]
        locked_memory: int
        root: str
        writable: list[str]
        sizes: dict[str, int]
        other_uid: bool
        calls: list[str]
        neighbour: Neighbour | None

    Attack = Callable[[Planted], Outcome]

ATTACKS: dict[str, Attack] = {}


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__.replace("_", " ")] = function
    return function


def lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(1 << 20)


def processes_here() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def status() -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in lines("/proc/self/status") if ":\t" in line)


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
