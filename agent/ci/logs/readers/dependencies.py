"""Reads the errors of installers (pip, uv, poetry, npm, Maven) and of shells that cannot find a program."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, ToolReport

_PIP_NONE = re.compile(r"^ERROR: No matching distribution found for (?P<what>\S+)")
_PIP_CONFLICT = re.compile(r"^ERROR: Cannot install .* because these package versions have conflicting dependencies\.$")
_PIP_WANTS = re.compile(
    r"^    (?:The user requested|.{1,200} depends on) (?P<name>[A-Za-z0-9](?:[\w-]|\.(?=\w))*)(?:[^\w.-].*)?$"
)
_PIP_HASH = re.compile(r"^ERROR: (?:THESE PACKAGES DO NOT MATCH THE HASHES|Hashes are required in --require-hashes mode)")
_PIP_PACKAGE = re.compile(r"^    (?P<what>[A-Za-z0-9][\w.-]*(?:==\S+)?) (?:from|--hash)")
_PIP_FILE = re.compile(r"^ERROR: Could not open requirements file: .*'(?P<what>[^'\n]+)'$")
_PIP_BUILD = re.compile(
    r"^(?:ERROR: |error: )(?P<what>metadata-generation-failed|subprocess-exited-with-error|"
    r"legacy-install-failure|failed-wheel-build-for-install|Failed (?:building|to build) .*)$"
)
_PIP_TAKES = re.compile(
    r"^\s*(?:Processing|Collecting|Building wheels? for collected packages:|Building wheel for) (?P<what>\S+)"
)
_UV_NONE = re.compile(
    r"(?:no versions? of|Because) "
    r"(?P<what>[a-z0-9][\w.-]*[=<>!~]{1,2}[\w.*+!-]+|[a-z0-9][\w.-]* (?=was not found))"
)
_UV_ASKS = re.compile(r"depends on (?P<name>[a-z0-9][\w.-]*)")
_UV_BUILD = re.compile(r"(?:Failed to build|Failed to download and build) `(?P<what>[^`\n]+)`")
_POETRY_NONE = re.compile(
    r"^(?:Because .* depends on (?P<asked>\S+) \(.*which doesn't match any versions|Package (?P<what>\S+ \(\S+\)) not found\.)"
)
_POETRY_CONFLICT = re.compile(r"(?:^| )depends on (?P<name>[a-z0-9][\w.-]*) \(")
_POETRY_LOCK = re.compile(r"pyproject\.toml changed significantly since poetry\.lock was last generated")
_NPM_CODE = re.compile(r"^npm (?:error|ERR!) code (?P<code>E[A-Z0-9]+)$")
_NPM = {
    "E404": re.compile(r"^npm (?:error|ERR!) 404 +(?:The requested resource )?'(?P<what>@?[^@'\s]+)(?:@[^'\s]*)?'"),
    "ETARGET": re.compile(r"^npm (?:error|ERR!) notarget No matching version found for (?P<what>\S+?)\.?$"),
    "ERESOLVE": re.compile(r"^npm (?:error|ERR!) (?:Found:|peer) (?P<what>@?[^@\s]+)@"),
    "EUSAGE": re.compile(r"^npm (?:error|ERR!) .*?(?P<what>package-lock\.json|npm-shrinkwrap\.json) .*in sync"),
    "EINTEGRITY": re.compile(r"^npm (?:error|ERR!) (?P<what>\S+ integrity checksum failed)"),
    "EBADENGINE": re.compile(r"^npm (?:error|ERR!) (?:notsup )?Not compatible with your version of node/npm: (?P<what>\S+)"),
}
_MAVEN = re.compile(r"^\[ERROR\] Failed to execute goal .*: Could not resolve dependencies for project")
_MAVEN_ARTIFACT = re.compile(
    r"(?P<what>[\w.-]+:[\w.-]+:(?:jar|pom|war|aar|bundle)(?::[\w-]+)?:[\w.-]+) ?(?:\(|was not found|has not been|in )"
)
_COMMAND = re.compile(r"^(?:.{0,200}: line \d+: |\S*sh: (?:\d+: )?)?(?P<what>[\w./+-]+): (?:command )?not found$")
_MODULE = re.compile(r"^\S*python[\d.]*(?:\.exe)?: No module named (?P<what>[\w.]+)$")


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found = (reader(lines) for reader in (_pip, _uv, _poetry, _npm, _maven, _missing))
    return tuple(ToolReport(Cause.DEPENDENCY, ids) for ids in found if ids is not None)


def _pip(lines: Sequence[str]) -> list[str] | None:
    for at, line in enumerate(lines):
        if not line.startswith(("ERROR: ", "error: ")):
            continue
        if found := _PIP_NONE.match(line) or _PIP_FILE.match(line):
            return [found["what"]]
        if _PIP_CONFLICT.match(line):
            wants = [found["name"].lower() for each in lines[at : at + 30] if (found := _PIP_WANTS.match(each))]
            return _twice(wants) or wants
        if _PIP_HASH.match(line):
            return [found["what"] for each in lines[at + 1 : at + 20] if (found := _PIP_PACKAGE.match(each))][:1]
        if _PIP_BUILD.match(line):
            return [found["what"] for each in lines[:at] if (found := _PIP_TAKES.match(each))][-1:]
    return None


def _twice(names: Sequence[str]) -> list[str]:
    """The packages that are required in conflicting versions."""
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]


def _uv(lines: Sequence[str]) -> list[str] | None:
    for at, line in enumerate(lines):
        if "No solution found when resolving" in line:
            said = " ".join(" ".join(lines[at + 1 : at + 12]).split())
            none = _UV_NONE.search(said)
            if none and ("no version of" in said or "not found" in said or "no versions of" in said):
                return [none["what"].strip().rstrip(",")]
            return [found["name"] for found in [_UV_ASKS.search(said)] if found]
        if "Failed to" in line and (built := _UV_BUILD.search(line)):
            return [built["what"]]
    return None


def _poetry(lines: Sequence[str]) -> list[str] | None:
    for at, line in enumerate(lines):
        if none := _POETRY_NONE.match(line):
            return [none["what"] or none["asked"]]
        if _POETRY_LOCK.search(line):
            return ["poetry.lock"]
        if "version solving failed" in line:
            said = " ".join(" ".join(lines[max(0, at - 10) : at + 1]).split())
            names = [found["name"] for found in _POETRY_CONFLICT.finditer(said)]
            return _twice(names) or names[-1:]
    return None


def _npm(lines: Sequence[str]) -> list[str] | None:
    for at, line in enumerate(lines):
        code = _NPM_CODE.match(line)
        if code and (shape := _NPM.get(code["code"])):
            return [found["what"] for each in lines[at : at + 40] if (found := shape.match(each))][:1]
    return None


def _maven(lines: Sequence[str]) -> list[str] | None:
    line = next((line for line in lines if _MAVEN.match(line)), None)
    return None if line is None else [found["what"] for found in [_MAVEN_ARTIFACT.search(line)] if found]


def _missing(lines: Sequence[str]) -> list[str] | None:
    for line in lines[-200:]:
        if missing := _MODULE.match(line) or (_COMMAND.match(line) if line.endswith("not found") else None):
            return [missing["what"]]
    return None
