"""How an attack is written down, and what most of them look at."""

import ctypes
import os

ATTACKS = {}  # name → function


def attack(function):
    ATTACKS[function.__name__.replace("_", " ")] = function
    return function


def lines(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def told(path):
    with open(path, "rb") as file:
        return file.read(1 << 20)


def processes_here():
    return [name for name in os.listdir("/proc") if name.isdigit()]


def status():
    return dict(line.split(":\t", 1) for line in lines("/proc/self/status") if ":\t" in line)


def libc():
    return ctypes.CDLL(None, use_errno=True)
