"""Reads which files formatters in check mode complain of: black, isort, ruff format, prettier, cargo fmt."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.checks.findings import read_unformatted
from agent.ci.logs.model import Cause, Told, ToldFailure, failure, relative

_RUFF_COUNT = re.compile(r"^\d+ files? would be reformatted(?:, .*)?$")
_OLD_FILE = re.compile(r"^--- (?P<path>\S.*?)(?:\t.*)?$")
_PRETTIER_COUNT = re.compile(r"^\[(?:warn|error)\] (?:Code style issues|Forgot to run Prettier)")
_PRETTIER = re.compile(r"^\[(?:warn|error)\] (?P<path>\S+\.\w+)$")
_ARROW = re.compile(r"^ *--> (?P<path>\S.*):\d{1,9}:\d{1,9}$")
_RUSTFMT = re.compile(r"^Diff in (?P<path>\S.*?)(?: at line |:)(?P<line>\d{1,9}):?$")


def read(lines: Sequence[str]) -> tuple[Told, ...]:
    found: dict[str, dict[str, ToldFailure]] = {}
    evidence: dict[str, str] = {}
    prettier = any(_PRETTIER_COUNT.match(line) for line in lines)
    ruff_diff = any(_RUFF_COUNT.match(line) and not line.endswith(".") for line in lines)
    for at, line in enumerate(lines):
        arrow = _ARROW.match(line) if at and lines[at - 1].startswith("unformatted: ") else None
        told = _told(arrow["path"], "ruff format") if arrow else _read(line, prettier, ruff_diff)
        if told is not None:
            found.setdefault(told.tool, {}).setdefault(told.id, told)
            evidence.setdefault(told.tool, line.strip())
    return tuple(Told(tool, Cause.FORMAT, evidence[tool], tuple(told.values())) for tool, told in found.items())


def _read(line: str, prettier: bool, ruff_diff: bool) -> ToldFailure | None:
    path = read_unformatted(line) if line.startswith(("would", "Would", "ERROR:")) else None
    if path:
        tool = "isort" if line.startswith("ERROR:") else "ruff format" if line.startswith("Would") else "black"
        return _told(path, tool) if tool != "isort" or "incorrectly sorted" in line else None
    if prettier and (warned := _PRETTIER.match(line)):
        return _told(warned["path"], "prettier")
    rust = _RUSTFMT.match(line)
    if rust:
        return failure(f"{relative(rust['path'])} format", "would be reformatted", "cargo fmt", rust["path"], rust["line"])
    if ruff_diff and (old := _OLD_FILE.match(line)) and "\t" not in line:
        return _told(old["path"], "ruff format")
    return None


def _told(path: str, tool: str) -> ToldFailure:
    return failure(f"{relative(path)} format", "would be reformatted", tool, path)
