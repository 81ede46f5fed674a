"""Reads the findings of ruff, flake8, pylint, mypy and pyright (`agent/checks/findings.py` knows the shape of a line)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.checks.findings import FindingLine, read_finding
from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, located

_RUFF_OR_FLAKE8 = re.compile(r"^(?P<code>[A-Z]{1,10}\d{1,6}|invalid-syntax|[a-z]+(?:-[a-z]+)+)(?::| \[|\s) *(?P<text>.*)$")
_PYLINT = re.compile(r"^(?P<code>[CRWEFI]\d{4}): (?P<text>.*)$")
_MYPY = re.compile(r"^(?:error|fatal error): (?P<text>.*)$")
_MYPY_CODE = re.compile(r"\[(?P<code>[a-z][a-z0-9-]*)\]$")
_PYRIGHT = re.compile(r"^ +\S.*:\d+:\d+ - error: ")
_PYRIGHT_CODE = re.compile(r"\((?P<code>report\w+)\)$")
# ruff's full form: "F401 [*] `os` imported but unused", then " --> app/a.py:1:8".
_FULL = re.compile(r"^(?P<code>[A-Z]{1,10}\d{1,6}|invalid-syntax):?(?: \[\*\])? (?P<text>\S.*)$")
_ARROW = re.compile(r"^ *--> (?P<path>\S.*):(?P<line>\d{1,9}):(?P<column>\d{1,9})$")
_RUFF_ENDS = re.compile(r"^Found \d+ errors?|^\[\*\] \d+ fixable")
_SOURCES = (".py", ".pyi", ".ipynb", ".pyx")
_NOTES = ("note:", "warning:", "information:", "hint:")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found: dict[str, list[LoggedFailure]] = {}
    evidence: dict[str, str] = {}
    ruff = any(_RUFF_ENDS.match(line) for line in lines) and not any(_MYPY_END.match(line) for line in lines)
    for at, line in enumerate(lines):
        entry = _read(lines, at, ruff)
        if entry is not None:
            found.setdefault(entry.tool, []).append(entry)
            evidence.setdefault(entry.tool, line.strip())
    return tuple(
        ToolReport(
            tool,
            Cause.TYPES if tool in ("mypy", "pyright") else Cause.LINT,
            evidence[tool],
            tuple({each.id: each for each in entries}.values()),
        )
        for tool, entries in found.items()
    )


_MYPY_END = re.compile(r"^Found \d+ errors? in \d+ files? ")


def _read(lines: Sequence[str], at: int, ruff: bool) -> LoggedFailure | None:
    line = lines[at]
    if "-->" in line:
        arrow, code = _ARROW.match(line), _FULL.match(lines[at - 1]) if at else None
        if arrow and code and arrow["path"].endswith(_SOURCES):
            return located(arrow["path"], arrow["line"], arrow["column"], code["code"], code["text"], "ruff")
    if ":" not in line:
        return None
    place = read_finding(line)
    if place is None or not place.path.endswith(_SOURCES) or place.text.startswith(_NOTES):
        return None
    mypy = _MYPY.match(place.text)
    if mypy:
        return _types(lines, at, place, mypy["text"])
    pylint = _PYLINT.match(place.text)
    if pylint:
        return located(place.path, place.line, place.column, pylint["code"], pylint["text"], "pylint")
    code = _RUFF_OR_FLAKE8.match(place.text)
    if code and (code["code"][0].isupper() or ruff):
        text = code["text"].removeprefix("*] ").strip()
        return located(place.path, place.line, place.column, code["code"], text, "ruff" if ruff else "flake8")
    return None


def _types(lines: Sequence[str], at: int, place: FindingLine, text: str) -> LoggedFailure:
    """mypy's `--pretty` and pyright's explanations put the code into one of the lines that follow."""
    pyright = _PYRIGHT.match(lines[at]) is not None
    shape = _PYRIGHT_CODE if pyright else _MYPY_CODE
    tool = "pyright" if pyright else "mypy"
    for line in (text, *lines[at + 1 : at + 12]):
        if line is not text and read_finding(line):
            break
        code = shape.search(line[-200:])
        if code:
            return located(place.path, place.line, place.column, code["code"], text, tool)
    return located(place.path, place.line, place.column, "error", text, tool)
