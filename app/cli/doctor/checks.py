"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failed", "skipped"]
Area = Literal["settings", "database", "redis", "github", "model", "sandbox"]


@dataclass(frozen=True, slots=True)
class Check:
    """`seen` is what was found, as one sentence; `fix` says what to do, "" if nothing."""

    area: Area
    name: str
    status: Status
    seen: str
    fix: str = ""
