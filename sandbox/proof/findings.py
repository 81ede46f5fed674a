"""The findings of a proof, and the list of attacks: which promise each one tests, and how to fix a failure.

The names are those of the attacks in `attacks/`, and of the limits that only this side can test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Status = Literal["ok", "warning", "failed", "skipped"]
Part = Literal["environment", "files", "network", "uid", "processes", "kernel", "limits", "other sandboxes"]

DECISIVE: frozenset[Part] = frozenset({"environment", "files", "network", "uid"})
"""If one of these does not hold, hostile code reaches secrets, files or machines: nothing untrusted is allowed to run."""


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
    """`weight` is the status if the sandbox does not hold."""

    part: Part
    fix: str
    weight: Literal["failed", "warning"] = "failed"


_NAMESPACES = (
    "the sandbox shares it with the machine: use SELFHEAL_SANDBOX=local, there update bubblewrap (0.8 or newer), or use e2b"
)
_RECIPE = "the sandbox's configuration has no effect here: update bubblewrap, or use SELFHEAL_SANDBOX=e2b"
_FILTER = "the kernel filter lets it through: use SELFHEAL_SANDBOX=local, or give the engine a narrower seccomp profile"
_ROOT = "run the worker as root or as a user of its own, never the sandbox: use SELFHEAL_SANDBOX=local or e2b"
_LIMITS = "per-process limits need prlimit of util-linux: apt-get install util-linux"
_MEMORY = "delegate a control group with the memory and pids controllers to the worker (systemd: Delegate=yes), or use e2b"
_UNTRIED = "fix what prevented the test: untrusted code runs only where this is proven to hold"

ATTACKS: Mapping[str, Attack] = MappingProxyType(
    {
        "own environment": Attack("environment", _RECIPE),
        "first environment": Attack("environment", _RECIPE),
        "descriptors": Attack("environment", _RECIPE),
        "files of the worker": Attack("files", _NAMESPACES),
        "system files": Attack("files", _NAMESPACES),
        "devices": Attack("files", _NAMESPACES),
        "loopback of the machine": Attack("network", _NAMESPACES),
        "abstract socket": Attack("network", _NAMESPACES),
        "other machines": Attack("network", _NAMESPACES),
        "name service": Attack("network", _NAMESPACES),
        "metadata of the cloud": Attack("network", _NAMESPACES),
        "root": Attack("uid", _ROOT),
        "owner": Attack("uid", _ROOT),
        "groups": Attack("uid", _ROOT),
        "capabilities": Attack("uid", _RECIPE),
        "new privileges": Attack("uid", _RECIPE),
        "other processes": Attack("processes", _NAMESPACES),
        "kernel settings": Attack("processes", _NAMESPACES),
        "shared memory": Attack("processes", _NAMESPACES),
        "control groups": Attack("processes", _NAMESPACES, weight="warning"),
        "host name": Attack("processes", _NAMESPACES, weight="warning"),
        "session": Attack("processes", _RECIPE),
        "death with the worker": Attack("processes", _RECIPE),
        "kernel filter": Attack("kernel", _FILTER),
        "system calls": Attack("kernel", _FILTER),
        "user namespaces": Attack("kernel", _FILTER),
        "terminal input": Attack("kernel", _FILTER),
        "sockets": Attack("kernel", _FILTER),
        "processes": Attack("limits", _LIMITS),
        "file size": Attack("limits", _LIMITS),
        "open files": Attack("limits", _LIMITS),
        "disk": Attack("limits", _RECIPE),
        "locked memory": Attack("limits", _LIMITS),
        "processor time": Attack("limits", _LIMITS),
        "core dumps": Attack("limits", _LIMITS),
        "memory": Attack("limits", _MEMORY, weight="warning"),
        "wall time": Attack("limits", _RECIPE),
        "output": Attack("limits", _RECIPE),
        "another sandbox": Attack("other sandboxes", _NAMESPACES),
    }
)


def finding(name: str, held: bool | None, saw: str) -> Finding:
    """The result of attack `name`. `held` is None if it could not be tried: a decisive one then counts as failed."""
    attack = ATTACKS[name]
    if held is None and attack.part in DECISIVE:
        return Finding(attack.part, name, "failed", f"not proven: {saw}", _UNTRIED)
    if held is None:
        return Finding(attack.part, name, "skipped", saw)
    return Finding(attack.part, name, "ok", saw) if held else Finding(attack.part, name, attack.weight, saw, attack.fix)
