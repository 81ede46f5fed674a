"""What a look at something comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failed", "skipped"]
Area = Literal["settings", "database", "redis", "github", "model", "sandbox"]


@dataclass(frozen=True, slots=True)
class Check:
    """`seen` is one sentence for the operator; `fix` says what to do, and is empty where there is nothing to do."""

    area: Area
    name: str
    status: Status
    seen: str
    fix: str = ""
