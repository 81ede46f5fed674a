"""Reads the errors of compilers: gcc and clang, the linker, rustc and clippy, javac and Maven, Go's compiler and vet."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, LoggedFailure, ToolReport, failure, located

_C = re.compile(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d{1,9}):(?P<column>\d{1,9}): (?:fatal )?error: (?P<text>.*)$")
_C_CODE = re.compile(r"\[(?P<code>-W[\w=+-]+)(?:,[^\]\n]*)?\]$")
_LINKER = re.compile(r"undefined reference to [`'](?P<symbol>[^'\n]{1,300})'|^Undefined symbols? for architecture")
_RUST = re.compile(r"^error(?:\[(?P<code>E\d{4})\])?: (?P<text>\S.*)$")
_ARROW = re.compile(r"^ *--> (?P<path>\S.*):(?P<line>\d{1,9}):(?P<column>\d{1,9})$")
_LINT_NOTE = re.compile(r"`(?:-D|#\[deny\()? ?(?P<lint>clippy::[\w-]+)|index\.html#(?P<page>[a-z_]+)")
_JAVA = re.compile(r"^(?P<path>[^\s:][^:\n]*\.(?:java|kt|scala)):(?P<line>\d{1,9}): error: (?P<text>.*)$")
_MAVEN = re.compile(
    r"^\[ERROR\] (?P<path>/?[^\s:\[][^:\[\n]*\.(?:java|kt|scala)):\[(?P<line>\d{1,9}),(?P<column>\d{1,9})\] (?P<text>.*)$"
)
_GO = re.compile(r"^(?:vet: )?(?P<path>[^\s:][^:\n]*\.go):(?P<line>\d{1,9}):(?P<column>\d{1,9}): (?P<text>\S.*)$")
_GOLANGCI = re.compile(r" \((?P<name>[a-z][a-z0-9]{2,20})\)$")
_COMPILER_SAYS = re.compile(
    r"undefined:|imported and not used|declared (?:and|but) not used|cannot (?:use|convert|infer|assign|refer)|syntax error|"
    r"missing (?:return|function body)|(?:not enough|too many) (?:arguments|return values)|redeclared|mismatched types|"
    r"invalid operation|has no field or method|undefined \(|assignment mismatch|could not import|is not in (?:std|GOROOT)|"
    r"no required module|does not implement|duplicate case|is not a type|too many errors|must be|expected "
)


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found: dict[tuple[str, Cause], dict[str, LoggedFailure]] = {}
    evidence: dict[tuple[str, Cause], str] = {}
    vet = _vets(lines)
    for at, line in enumerate(lines):
        read_one = _c(line) or _java(line) or _go(line, vet) or _rust(lines, at)
        if read_one is not None:
            cause, entry = read_one
            found.setdefault((entry.tool, cause), {}).setdefault(entry.id, entry)
            evidence.setdefault((entry.tool, cause), line)
    return tuple(
        ToolReport(tool, cause, evidence[tool, cause], tuple(entries.values())) for (tool, cause), entries in found.items()
    )


def _c(line: str) -> tuple[Cause, LoggedFailure] | None:
    if "error: " in line:
        at = _C.match(line)
        if at and not at["path"].endswith((".py", ".pyi", ".java", ".kt", ".ts")):
            code = _C_CODE.search(line[-200:])
            return Cause.BUILD, located(
                at["path"], at["line"], at["column"], code["code"] if code else "error", at["text"], "cc"
            )
    if "ndefined " in line and (symbol := _LINKER.search(line)):
        return Cause.BUILD, failure(f"undefined reference to `{symbol['symbol']}'" if symbol["symbol"] else line, line, "ld")
    return None


def _java(line: str) -> tuple[Cause, LoggedFailure] | None:
    if "error: " in line and (at := _JAVA.match(line)):
        return Cause.BUILD, located(at["path"], at["line"], None, "error", at["text"], "javac")
    if line.startswith("[ERROR] ") and (at := _MAVEN.match(line)):
        return Cause.BUILD, located(at["path"], at["line"], at["column"], "error", at["text"], "maven")
    return None


def _vets(lines: Sequence[str]) -> bool:
    """`go vet` and the compiler print the same format: vet marks its packages, and lacks the compiler's messages."""
    return any(line.startswith(("vet: ", "# [")) for line in lines) or not any(
        entry is not None and _COMPILER_SAYS.search(entry["text"])
        for line in lines
        if ".go:" in line
        for entry in (_GO.match(line),)
    )


def _go(line: str, vet: bool) -> tuple[Cause, LoggedFailure] | None:
    if ".go:" not in line or not (at := _GO.match(line)):
        return None
    linter = _GOLANGCI.search(at["text"][-80:])
    if linter:
        return Cause.LINT, located(at["path"], at["line"], at["column"], linter["name"], at["text"], "golangci-lint")
    tool = "go vet" if vet else "go build"
    return Cause.LINT if vet else Cause.BUILD, located(at["path"], at["line"], at["column"], "error", at["text"], tool)


def _rust(lines: Sequence[str], at: int) -> tuple[Cause, LoggedFailure] | None:
    error = _RUST.match(lines[at]) if lines[at].startswith("error") else None
    if error is None:
        return None
    arrow = next((found for line in lines[at + 1 : at + 6] if (found := _ARROW.match(line))), None)
    if arrow is None:
        return None
    lint = None
    for line in lines[at + 1 : at + 60]:
        if _RUST.match(line):
            break
        lint = lint or (_LINT_NOTE.search(line) if "clippy" in line else None)
    if lint and not error["code"]:
        code = lint["lint"] or f"clippy::{lint['page']}"
        return Cause.LINT, located(
            arrow["path"], arrow["line"], arrow["column"], code.replace("-", "_"), error["text"], "clippy"
        )
    code = error["code"] or "error"
    return Cause.BUILD, located(arrow["path"], arrow["line"], arrow["column"], code, error["text"], "rustc")
