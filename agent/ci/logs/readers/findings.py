"""Reads tools whose errors point at lines of files: linters, type checkers, formatters in check mode, compilers.

`agent/checks/findings.py` defines the line format of Python tools.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.checks.findings import FINDING, UNFORMATTED
from agent.ci.logs.model import Cause, ToolReport, by_cause, located, relative

_AT = r"(?P<path>[^\s:][^:\n]*):(?P<line>\d{1,9})"
_ARROW = re.compile(r"^ *--> (?P<path>\S.*):(?P<line>\d{1,9}):(?P<column>\d{1,9})$")
_TSC_PLAIN = re.compile(r"^(?P<path>[^\s(][^(\n]*)\((?P<line>\d{1,9}),(?P<column>\d{1,9})\): error (?P<code>TS\d{1,6}): ")
_TSC_PRETTY = re.compile(rf"^{_AT}:(?P<column>\d{{1,9}}) - error (?P<code>TS\d{{1,6}}): ")


def read_tsc(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """The TypeScript compiler, plain and pretty."""
    found = (_TSC_PLAIN.match(line) or _TSC_PRETTY.match(line) for line in lines if "error TS" in line)
    return by_cause((Cause.TYPES, located(at, at["code"])) for at in found if at)


_ESLINT_FILE = re.compile(r"^(?:/|[A-Za-z]:\\|\.?\w)\S.*\.\w{1,10}$")
_ESLINT = re.compile(r"^ {1,6}(?P<line>\d{1,9}):(?P<column>\d{1,9}) +(?P<level>error|warning) +(?P<text>\S.*)$")
_ESLINT_COUNT = re.compile(r"^✖ \d+ problems? \(\d+ errors?, \d+ warnings?\)$")


def read_eslint(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """eslint's stylish format: a file, then its findings indented below."""
    if not any(map(_ESLINT_COUNT.match, lines)):
        return ()
    ids: list[str] = []
    path = ""
    for line in lines:
        finding = _ESLINT.match(line)
        if finding and path:
            text, _, rule = finding["text"].rpartition("  ")
            code = rule if text and " " not in rule else "error"
            ids += [f"{relative(path)}:{finding['line']}:{finding['column']} {code}"] if finding["level"] == "error" else []
        elif _ESLINT_FILE.match(line):
            path = line
        elif not line.strip():
            path = ""
    return (ToolReport(Cause.LINT, ids),)


_RUFF_OR_FLAKE8 = re.compile(r"^(?P<code>[A-Z]{1,10}\d{1,6}|invalid-syntax|[a-z]+(?:-[a-z]+)+)(?::| \[|\s)")
_PYLINT = re.compile(r"^(?P<code>[CRWEFI]\d{4}): ")
_MYPY = re.compile(r"^(?:error|fatal error): ")
_MYPY_CODE = re.compile(r"\[(?P<code>[a-z][a-z0-9-]*)\]$")
_MYPY_ENDS = re.compile(r"^Found \d+ errors? in \d+ files? ")
_PYRIGHT = re.compile(r"^ +\S.*:\d+:\d+ - error: ")
_PYRIGHT_CODE = re.compile(r"\((?P<code>report\w+)\)$")
# ruff's full format: "F401 [*] `os` imported but unused", then " --> app/a.py:1:8".
_RUFF_FULL = re.compile(r"^(?P<code>[A-Z]{1,10}\d{1,6}|invalid-syntax):?(?: \[\*\])? \S")
_RUFF_ENDS = re.compile(r"^Found \d+ errors?|^\[\*\] \d+ fixable")
_SOURCES = (".py", ".pyi", ".ipynb", ".pyx")
_NOTES = ("note:", "warning:", "information:", "hint:")


def read_python(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """ruff, flake8, pylint, mypy and pyright."""
    is_ruff = any(map(_RUFF_ENDS.match, lines)) and not any(map(_MYPY_ENDS.match, lines))
    return by_cause(found for at in range(len(lines)) if (found := _python(lines, at, is_ruff)) is not None)


def _python(lines: Sequence[str], at: int, is_ruff: bool) -> tuple[Cause, str] | None:
    arrow = _ARROW.match(lines[at])
    code = _RUFF_FULL.match(lines[at - 1]) if arrow and at else None
    if arrow and code and arrow["path"].endswith(_SOURCES):
        return Cause.LINT, located(arrow, code["code"])
    place = FINDING.match(lines[at]) if ":" in lines[at] else None
    if place is None or not place["path"].endswith(_SOURCES) or place["text"].startswith(_NOTES):
        return None
    if _MYPY.match(place["text"]):
        return Cause.TYPES, located(place, _type_code(lines, at))
    code = _PYLINT.match(place["text"]) or _RUFF_OR_FLAKE8.match(place["text"])
    return (Cause.LINT, located(place, code["code"])) if code and (code["code"][0].isupper() or is_ruff) else None


def _type_code(lines: Sequence[str], at: int) -> str:
    """mypy's `--pretty` and pyright's explanations put the code into one of the lines that follow."""
    shape = _PYRIGHT_CODE if _PYRIGHT.match(lines[at]) else _MYPY_CODE
    for index, line in enumerate(lines[at : at + 12]):
        if index and FINDING.match(line):
            break
        if code := shape.search(line[-200:]):
            return code["code"]
    return "error"


_RUFF_COUNT = re.compile(r"^\d+ files? would be reformatted(?:, .*)?$")
_OLD_FILE = re.compile(r"^--- (?P<path>\S[^\t]*)$")
_PRETTIER_COUNT = re.compile(r"^\[(?:warn|error)\] (?:Code style issues|Forgot to run Prettier)")
_PRETTIER = re.compile(r"^\[(?:warn|error)\] (?P<path>\S+\.\w+)$")
_RUSTFMT = re.compile(r"^Diff in (?P<path>\S.*?)(?: at line |:)\d{1,9}:?$")


def read_unformatted(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """Formatters in check mode: black, isort, ruff format, prettier, cargo fmt."""
    shapes = [_RUSTFMT]
    shapes += [_PRETTIER] if any(map(_PRETTIER_COUNT.match, lines)) else []
    shapes += [_OLD_FILE] if any(_RUFF_COUNT.match(line) and not line.endswith(".") for line in lines) else []
    ids: list[str] = []
    for at, line in enumerate(lines):
        found = _ARROW.match(line) if at and lines[at - 1].startswith("unformatted: ") else None
        if line.startswith(("would", "Would")) or (line.startswith("ERROR:") and "incorrectly sorted" in line):
            found = found or UNFORMATTED.match(line)
        found = found or next((match for shape in shapes if (match := shape.match(line))), None)
        ids += [f"{relative(found['path'])} format"] if found else []
    return (ToolReport(Cause.FORMAT, ids),) if ids else ()


_C = re.compile(rf"^{_AT}:(?P<column>\d{{1,9}}): (?:fatal )?error: ")
_C_CODE = re.compile(r"\[(?P<code>-W[\w=+-]+)(?:,[^\]\n]*)?\]$")
_LINKER = re.compile(r"undefined reference to [`'](?P<symbol>[^'\n]{1,300})'|^Undefined symbols? for architecture")
_RUST = re.compile(r"^error(?:\[(?P<code>E\d{4})\])?: \S")
_CLIPPY = re.compile(r"`(?:-D|#\[deny\()? ?(?P<lint>clippy::[\w-]+)|index\.html#(?P<page>[a-z_]+)")
_JAVA = re.compile(r"^(?P<path>[^\s:][^:\n]*\.(?:java|kt|scala)):(?P<line>\d{1,9}): error: ")
_MAVEN = re.compile(r"^\[ERROR\] (?P<path>/?[^\s:\[][^:\[\n]*\.(?:java|kt|scala)):\[(?P<line>\d{1,9}),(?P<column>\d{1,9})\] ")
_GO = re.compile(r"^(?:vet: )?(?P<path>[^\s:][^:\n]*\.go):(?P<line>\d{1,9}):(?P<column>\d{1,9}): (?P<text>\S.*)$")
_GOLANGCI = re.compile(r" \((?P<name>[a-z][a-z0-9]{2,20})\)$")
_GO_COMPILER = re.compile(
    r"undefined:|imported and not used|declared (?:and|but) not used|cannot (?:use|convert|infer|assign|refer)|syntax error|"
    r"missing (?:return|function body)|(?:not enough|too many) (?:arguments|return values)|redeclared|mismatched types|"
    r"invalid operation|has no field or method|undefined \(|assignment mismatch|could not import|is not in (?:std|GOROOT)|"
    r"no required module|does not implement|duplicate case|is not a type|too many errors|must be|expected "
)


def read_compilers(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    """gcc and clang, the linker, rustc and clippy, javac and Maven, Go's compiler, vet and golangci-lint."""
    # `go vet` and the compiler print the same format: vet marks its packages and prints none of the compiler's messages.
    is_vet = any(line.startswith(("vet: ", "# [")) for line in lines) or not any(
        _GO_COMPILER.search(found["text"]) for line in lines if ".go:" in line and (found := _GO.match(line))
    )
    reads = (_c(line) or _java(line) or _go(line, is_vet) or _rust(lines, at) for at, line in enumerate(lines))
    return by_cause(found for found in reads if found is not None)


def _c(line: str) -> tuple[Cause, str] | None:
    at = _C.match(line) if "error: " in line else None
    if at and not at["path"].endswith((".py", ".pyi", ".java", ".kt", ".ts")):
        code = _C_CODE.search(line[-200:])
        return Cause.BUILD, located(at, code["code"] if code else "error")
    if "ndefined " in line and (symbol := _LINKER.search(line)):
        return Cause.BUILD, f"undefined reference to `{symbol['symbol']}'" if symbol["symbol"] else line
    return None


def _java(line: str) -> tuple[Cause, str] | None:
    at = _JAVA.match(line) or _MAVEN.match(line)
    return (Cause.BUILD, located(at, "error")) if at else None


def _go(line: str, is_vet: bool) -> tuple[Cause, str] | None:
    at = _GO.match(line) if ".go:" in line else None
    if at is None:
        return None
    linter = _GOLANGCI.search(at["text"][-80:])
    return Cause.LINT if linter or is_vet else Cause.BUILD, located(at, linter["name"] if linter else "error")


def _rust(lines: Sequence[str], at: int) -> tuple[Cause, str] | None:
    error = _RUST.match(lines[at])
    arrow = next((found for line in lines[at + 1 : at + 6] if (found := _ARROW.match(line))), None) if error else None
    if error is None or arrow is None:
        return None
    if error["code"]:
        return Cause.BUILD, located(arrow, error["code"])
    for line in lines[at + 1 : at + 60]:
        if _RUST.match(line):
            break
        if "clippy" in line and (lint := _CLIPPY.search(line)):
            return Cause.LINT, located(arrow, (lint["lint"] or f"clippy::{lint['page']}").replace("-", "_"))
    return Cause.BUILD, located(arrow, "error")
