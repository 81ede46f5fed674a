"""The findings of a proof, and the list of attacks: which promise each one tests, and how to fix a failure.

The names are those of the attacks in `attacks/`, and of the limits that only the worker's side can test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Status = Literal["ok", "warning", "failed", "skipped"]
Part = Literal["environment", "files", "network", "uid", "processes", "kernel", "limits", "other sandboxes"]

DECISIVE: frozenset[Part] = frozenset({"environment", "files", "network", "uid"})
"""If one of these does not hold, hostile code can reach secrets, files or machines, so no untrusted code may run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one attack. `seen` is one sentence; `fix` says what to do, "" if there is nothing to do."""

    part: Part
    name: str
    status: Status
    seen: str
    fix: str = ""

    @property
    def is_decisive(self) -> bool:
        return self.status == "failed" and self.part in DECISIVE


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack. `weight` is the status of its finding if the attack succeeds."""

    part: Part
    fix: str
    weight: Literal["failed", "warning"] = "failed"


_NAMESPACES = (
    "the sandbox shares this with the machine: use SELFHEAL_SANDBOX=local with a current bubblewrap (0.8 or newer), or use e2b"
)
_RECIPE = "the sandbox's configuration has no effect on this machine: update bubblewrap, or use SELFHEAL_SANDBOX=e2b"
_FILTER = "the kernel filter allows this: use SELFHEAL_SANDBOX=local, or give the engine a stricter seccomp profile"
_ROOT = "the sandbox must not have the uid of root or of the worker: use SELFHEAL_SANDBOX=local or e2b"
_LIMITS = "per-process limits need prlimit of util-linux: apt-get install util-linux"
_MEMORY = "delegate a control group with the memory and pids controllers to the worker (systemd: Delegate=yes), or use e2b"
_UNTRIED = "fix what prevented the test"
_UNTRIED_DECISIVE = f"{_UNTRIED}: untrusted code runs only if this test passes"

_GROUPS: Sequence[tuple[Attack, tuple[str, ...]]] = (
    (Attack("environment", _RECIPE), ("own environment", "first environment", "descriptors")),
    (Attack("files", _NAMESPACES), ("files of the worker", "system files", "devices")),
    (
        Attack("network", _NAMESPACES),
        ("loopback of the machine", "abstract socket", "other machines", "name service", "metadata of the cloud", "proxy"),
    ),
    (Attack("uid", _ROOT), ("root", "owner", "groups")),
    (Attack("uid", _RECIPE), ("capabilities", "new privileges")),
    (Attack("environment", _RECIPE), ("first process",)),
    (Attack("processes", _NAMESPACES), ("other processes", "kernel settings", "shared memory")),
    (Attack("processes", _NAMESPACES, weight="warning"), ("control groups", "host name")),
    (Attack("processes", _RECIPE), ("session",)),
    (Attack("kernel", _FILTER), ("kernel filter", "system calls", "user namespaces", "terminal input", "sockets")),
    (Attack("limits", _LIMITS), ("processes", "file size", "open files")),
    (Attack("limits", _RECIPE), ("disk",)),
    (Attack("limits", _LIMITS), ("locked memory", "processor time", "core dumps")),
    (Attack("limits", _MEMORY, weight="warning"), ("memory",)),
    (Attack("limits", _RECIPE), ("wall time", "output")),
    (Attack("other sandboxes", _NAMESPACES), ("another sandbox",)),
)
ATTACKS: Mapping[str, Attack] = MappingProxyType({name: attack for attack, names in _GROUPS for name in names})


def finding(name: str, held: bool | None, saw: str) -> Finding:
    """The result of attack `name`. `held` is None if it was not tested; a decisive attack then counts as failed."""
    attack = ATTACKS[name]
    if held is None and attack.part in DECISIVE:
        return Finding(attack.part, name, "failed", f"not proven: {saw}", _UNTRIED_DECISIVE)
    if held is None:
        return Finding(attack.part, name, "skipped", saw)
    return Finding(attack.part, name, "ok", saw) if held else Finding(attack.part, name, attack.weight, saw, attack.fix)


def broken(name: str, why: str) -> Finding:
    """The result of attack `name` if it failed itself: no hole, but no protection either, so it counts like a success."""
    attack = ATTACKS[name]
    fix = _UNTRIED_DECISIVE if attack.part in DECISIVE else _UNTRIED
    return Finding(attack.part, name, attack.weight, f"could not be tried: {why}", fix)
