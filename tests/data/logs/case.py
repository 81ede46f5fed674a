"""What one case of the corpus is made of, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Failures = list[dict[str, Any]]  # {"id": …, "path": …, "line": …}; a path or a line that the report does not say is left out


@dataclass(frozen=True)
class Case:
    """A project, the command of its failing step, and who says what failed: a report of the run, or how it was built."""

    name: str
    run: str
    cause: str
    files: Mapping[str, str] = field(default_factory=dict)
    report: Callable[[Path], Failures] | None = None
    report_run: str = ""  # a second run that writes the report, where a tool can only either print or report
    built: Sequence[dict[str, Any]] = ()
    github: bool = True  # wrapped as GitHub does; else the bare output
    javascript: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    log: str | None = None  # written by hand after what is documented: runs that end outside any tool


@dataclass(frozen=True)
class Made:
    log: str
    exit_code: int
    expected: dict[str, Any]


def told(name: str, path: str = "", line: int | None = None) -> dict[str, Any]:
    """One failure as expected.json holds it."""
    return {"id": name} | ({"path": path} if path else {}) | ({"line": line} if line else {})
