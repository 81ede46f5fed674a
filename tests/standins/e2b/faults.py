"""What goes wrong on order: each fault strikes the next requests that match, one fault after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
class Fault:
    """`at` is the beginning of "METHOD /path" (an id in a path is `*`).

    status: answer with `status` and `message`. reset: a TCP reset, in a stream after `after` events. stall: no answer, in a
    stream after `after` events. end: a stream ends without its end. late: what was asked for is done, and the answer is lost.
    silent: what was asked for is done, and no answer comes. deaf: the answer is that it is done, and nothing is.
    """

    at: str
    kind: Literal["status", "reset", "stall", "end", "late", "silent", "deaf"] = "status"
    status: int = 500
    message: str = "injected"
    headers: Mapping[str, str] = field(default_factory=dict)
    after: int = 0  # events of a stream
    times: int = 1


class Faults:
    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self.struck: list[str] = []

    def add(self, *faults: Fault) -> None:
        self._waiting += faults

    def clear(self) -> None:
        self._waiting.clear()

    def at(self, key: str) -> Fault | None:
        for fault in self._waiting:
            if key.startswith(fault.at) and fault.times:
                fault.times -= 1
                self.struck.append(f"{key} > {fault.kind}")
                return fault
        return None
