"""What well-known actions mean for a replay: nothing, a toolchain, a linter's command line, or unknown. Pure.

Actions of the repository itself are read from their own files (`steps`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent.guest.text import one_line

Kind = Literal["nothing", "sets_up", "runs", "unknown"]


@dataclass(frozen=True, slots=True)
class Meaning:
    kind: Kind
    why: str  # a clause for people: "the repository is already checked out"
    command: str = ""  # its script, if `kind` is "runs"
    python: str | None = None  # the version that it sets up
    outputs: Mapping[str, str] = field(default_factory=dict)
    note: str = ""  # difference from CI
    folder: str = ""  # the folder into which it checks the repository out
    runtime: tuple[str, str] | None = None  # a language other than Python that it sets up, and the requested version


@dataclass(frozen=True, slots=True)
class _Linter:
    """A script template, filled in from the step's inputs and the action's own defaults."""

    command: str
    defaults: Mapping[str, str]
    installs: str = ""  # pinned to the input `version`, if it is a version


_LINTERS = {
    "astral-sh/ruff-action": _Linter("ruff {args} {src}", {"args": "check", "src": "."}, "ruff"),
    "chartboost/ruff-action": _Linter("ruff {args} {src}", {"args": "check", "src": "."}, "ruff"),
    "psf/black": _Linter("black {options} {src}", {"options": "--check --diff", "src": "."}, "black"),
    "isort/isort-action": _Linter(
        "isort {configuration} {sort-paths}", {"configuration": "--check-only", "sort-paths": "."}, "isort"
    ),
    "py-actions/flake8": _Linter("flake8 {args} {path}", {"args": "", "path": "."}, "flake8"),
    "pre-commit/action": _Linter("pre-commit run {extra_args}", {"extra_args": "--all-files"}),
    "tox-dev/action-pre-commit-uv": _Linter("pre-commit run {extra_args}", {"extra_args": "--all-files"}),
    "jakebailey/pyright-action": _Linter("pyright", {}, "pyright"),
    "codespell-project/actions-codespell": _Linter("codespell {path}", {"path": ""}, "codespell"),
}
_TOOLCHAINS = {
    "actions/setup-python": "Python",
    "astral-sh/setup-uv": "uv",
    "actions/setup-node": "Node.js",
    "actions/setup-go": "Go",
    "actions/setup-java": "Java",
    "dtolnay/rust-toolchain": "Rust",
    "actions-rs/toolchain": "Rust",
    "actions-rust-lang/setup-rust-toolchain": "Rust",
    "pnpm/action-setup": "pnpm",
    "snok/install-poetry": "Poetry",
    "abatilo/actions-poetry": "Poetry",
    "pdm-project/setup-pdm": "PDM",
    "pypa/hatch": "Hatch",
    "wntrblm/nox": "nox",
    "gradle/actions/setup-gradle": "Gradle",
}
_VERSIONS = {"Node.js": "node-version", "Go": "go-version", "Java": "java-version", "Rust": "toolchain"}  # their inputs
_NOTHING = {
    "actions/cache": "the GitHub cache is not available",
    "actions/cache/restore": "the GitHub cache is not available",
    "actions/cache/save": "the GitHub cache is not available",
    "swatinem/rust-cache": "the GitHub cache is not available",
    "actions/upload-artifact": "nothing is uploaded",
    "actions/upload-pages-artifact": "nothing is uploaded",
    "codecov/codecov-action": "nothing is uploaded",
    "codecov/test-results-action": "nothing is uploaded",
    "coverallsapp/github-action": "nothing is uploaded",
    "codacy/codacy-coverage-reporter-action": "nothing is uploaded",
    "github/codeql-action/upload-sarif": "nothing is uploaded",
    "step-security/harden-runner": "the sandbox has no network at all",
    "jlumbroso/free-disk-space": "the sandbox is not a hosted runner",
}
_NO_HISTORY = (
    "history is missing, as in a shallow clone, and of the tags all but the newest: `git describe` finds that one, or nothing "
    "if it is unknown"
)
_VARIANT = re.compile(r"pypy|graalpy|3\.\d+t\b", re.IGNORECASE)  # other interpreters that setup-python can install


def is_checkout(uses: str) -> bool:
    return uses.partition("@")[0].lower() == "actions/checkout"


def meaning_of(uses: str, inputs: Mapping[str, str]) -> Meaning:
    """The meaning of an action by name, with the step's evaluated `inputs`."""
    name = uses.partition("@")[0].lower()
    if is_checkout(uses):
        return _checkout(inputs)
    if name in _TOOLCHAINS:
        return _toolchain(name, uses.partition("@")[2] if name == "dtolnay/rust-toolchain" else "", inputs)
    if name in _NOTHING:
        outputs = {"cache-hit": ""} if "cache" in name else {}
        return Meaning("nothing", _NOTHING[name], outputs=outputs)
    if name in _LINTERS and (command := _command(_LINTERS[name], inputs)):
        return Meaning("runs", "its command line is known", command=command)
    return Meaning("unknown", f"{uses.partition('@')[0]} is not a known action")


def _checkout(inputs: Mapping[str, str]) -> Meaning:
    if inputs.get("repository"):
        why = f"another repository, {inputs['repository'][:100]}, cannot be fetched here"
        return Meaning("unknown", why, note=why)
    if inputs.get("path", ".").strip("./"):
        folder = inputs["path"][:100]
        why = f"it checks the repository out into the folder {folder}"
        return Meaning("unknown", why, note=why, folder=folder)
    fetches = inputs.get("fetch-depth", "1").strip() not in ("", "1") or inputs.get("fetch-tags", "").lower() == "true"
    note = _NO_HISTORY if fetches else ""
    if inputs.get("submodules", "false").lower() not in ("", "false"):
        return Meaning("nothing", "the repository is already checked out, without submodules", note=note)
    return Meaning("nothing", "the repository is already checked out", note=note)


def _toolchain(name: str, ref: str, inputs: Mapping[str, str]) -> Meaning:
    tool = _TOOLCHAINS[name]
    if tool in _VERSIONS:
        version = one_line(inputs.get(_VERSIONS[tool], "") or _pinned(ref), 40)
        runtime = (tool, version) if version and not version.startswith("$") else None
        why = (
            "npm's scripts run with this version, if npm's registry has it"
            if tool == "Node.js"
            else f"the sandbox's own {tool} is used"
        )
        return Meaning("sets_up", why, runtime=runtime)
    wanted = inputs.get("python-version", "") if name in ("actions/setup-python", "astral-sh/setup-uv") else ""
    # Several lines set up several versions; the first is the default.
    lines = [line.strip() for line in wanted.splitlines() if line.strip()]
    python = python_version(lines[0]) if lines else None
    said = f"Python {lines[0]}" if lines else tool
    note = f"{lines[0][:40]} is requested, but plain CPython runs here" if lines and _VARIANT.search(lines[0]) else ""
    outputs = {"cache-hit": "", "python-version": lines[0] if lines else ""}
    return Meaning("sets_up", f"the sandbox provides {said}", python=python, outputs=outputs, note=note)


def _pinned(ref: str) -> str:
    """The version in the tag of an action whose tags are toolchain versions: "1.70"."""
    return ref if re.fullmatch(r"\d+\.\d+(?:\.\d+)?", ref) else ""


def python_version(text: str) -> str | None:
    """ "3.12", "3.12.4", "~3.12", "pypy3.10", ">=3.9 <3.13", "3.x" → "3.12", "3.10" or None."""
    found = re.search(r"(?<![\d.])3\.\d{1,2}(?!\d)", text)
    return found[0] if found else None


def _command(linter: _Linter, inputs: Mapping[str, str]) -> str:
    """The script equivalent to the action; "" if an input has several lines."""
    given = {**linter.defaults, **inputs}
    values = {name: given[name] for name in linter.defaults}
    if any("\n" in value.strip() for value in values.values()):
        return ""
    version = given.get("version", "").removeprefix("==").removeprefix("v")
    pin = f"=={version}" if re.fullmatch(r"\d+(\.\d+)*", version) else ""
    install = f"pip install {linter.installs}{pin}\n" if linter.installs else ""
    return install + " ".join(linter.command.format(**values).split())
