"""Reads the files that formatters in check mode report: black, isort, ruff format, prettier, cargo fmt."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.checks.findings import read_unformatted
from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure, relative

_RUFF_COUNT = re.compile(r"^\d+ files? would be reformatted(?:, .*)?$")
_OLD_FILE = re.compile(r"^--- (?P<path>\S.*?)(?:\t.*)?$")
_PRETTIER_COUNT = re.compile(r"^\[(?:warn|error)\] (?:Code style issues|Forgot to run Prettier)")
_PRETTIER = re.compile(r"^\[(?:warn|error)\] (?P<path>\S+\.\w+)$")
_ARROW = re.compile(r"^ *--> (?P<path>\S.*):\d{1,9}:\d{1,9}$")
_RUSTFMT = re.compile(r"^Diff in (?P<path>\S.*?)(?: at line |:)(?P<line>\d{1,9}):?$")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found: dict[str, dict[str, LoggedFailure]] = {}
    evidence: dict[str, str] = {}
    prettier = any(_PRETTIER_COUNT.match(line) for line in lines)
    ruff_diff = any(_RUFF_COUNT.match(line) and not line.endswith(".") for line in lines)
    for at, line in enumerate(lines):
        arrow = _ARROW.match(line) if at and lines[at - 1].startswith("unformatted: ") else None
        entry = _report(arrow["path"], "ruff format") if arrow else _read(line, prettier, ruff_diff)
        if entry is not None:
            found.setdefault(entry.tool, {}).setdefault(entry.id, entry)
            evidence.setdefault(entry.tool, line.strip())
    return tuple(ToolReport(tool, Cause.FORMAT, evidence[tool], tuple(entries.values())) for tool, entries in found.items())


def _read(line: str, prettier: bool, ruff_diff: bool) -> LoggedFailure | None:
    path = read_unformatted(line) if line.startswith(("would", "Would", "ERROR:")) else None
    if path:
        tool = "isort" if line.startswith("ERROR:") else "ruff format" if line.startswith("Would") else "black"
        return _report(path, tool) if tool != "isort" or "incorrectly sorted" in line else None
    if prettier and (warned := _PRETTIER.match(line)):
        return _report(warned["path"], "prettier")
    rust = _RUSTFMT.match(line)
    if rust:
        return failure(f"{relative(rust['path'])} format", "would be reformatted", "cargo fmt", rust["path"], rust["line"])
    if ruff_diff and (old := _OLD_FILE.match(line)) and "\t" not in line:
        return _report(old["path"], "ruff format")
    return None


def _report(path: str, tool: str) -> LoggedFailure:
    return failure(f"{relative(path)} format", "would be reformatted", tool, path)
