"""What well-known actions mean for a replay: nothing, a toolchain, a linter's command line, or that nobody here knows. Pure.

An action of the repository itself is read from its own file, not here.
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
    why: str  # a clause for people: "the repository is there already"
    command: str = ""  # shell text of one that `runs`
    python: str | None = None  # the version that it sets up
    outputs: Mapping[str, str] | None = field(default_factory=dict)  # None: not known
    note: str = ""  # what is not as in CI
    folder: str = ""  # into which it puts the repository
    runtime: tuple[str, str] | None = None  # another than Python that it sets up, and the version that is asked for


@dataclass(frozen=True, slots=True)
class _Linter:
    """A template of shell text over the step's inputs, with the action's own defaults for them."""

    command: str
    defaults: Mapping[str, str]
    installs: str = ""  # pinned to the input `version`, where that is one


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
_VERSIONS = {"Node.js": "node-version", "Go": "go-version", "Java": "java-version", "Rust": "toolchain"}  # inputs
_NOTHING = {
    "actions/cache": "nothing is cached by GitHub here",
    "actions/cache/restore": "nothing is cached by GitHub here",
    "actions/cache/save": "nothing is cached by GitHub here",
    "swatinem/rust-cache": "nothing is cached by GitHub here",
    "actions/upload-artifact": "nothing is uploaded",
    "actions/upload-pages-artifact": "nothing is uploaded",
    "codecov/codecov-action": "nothing is uploaded",
    "codecov/test-results-action": "nothing is uploaded",
    "coverallsapp/github-action": "nothing is uploaded",
    "codacy/codacy-coverage-reporter-action": "nothing is uploaded",
    "github/codeql-action/upload-sarif": "nothing is uploaded",
    "step-security/harden-runner": "the sandbox has no network at all",
    "jlumbroso/free-disk-space": "there is no hosted runner's disk",
}
_NO_HISTORY = (
    "history and tags are not there, as if only the last commit had been fetched: `git describe` finds nothing, and a version "
    "that is made from tags is 0.1.dev… or the like"
)
_VARIANT = re.compile(r"pypy|graalpy|3\.\d+t\b", re.IGNORECASE)  # what else setup-python can bring


def is_checkout(uses: str) -> bool:
    return uses.partition("@")[0].lower() == "actions/checkout"


def meaning_of(uses: str, inputs: Mapping[str, str]) -> Meaning:
    """Of a step that uses an action by name, with its `inputs` as values."""
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
    return Meaning("unknown", f"what {uses.partition('@')[0]} does is not known here", outputs=None)


def _checkout(inputs: Mapping[str, str]) -> Meaning:
    if inputs.get("repository"):
        why = f"another repository, {inputs['repository'][:100]}, cannot be fetched here"
        return Meaning("unknown", why, note=why)
    if inputs.get("path", ".").strip("./"):
        folder = inputs["path"][:100]
        why = f"it puts the repository into the folder {folder}"
        return Meaning("unknown", why, note=why, folder=folder)
    fetches = inputs.get("fetch-depth", "1").strip() not in ("", "1") or inputs.get("fetch-tags", "").lower() == "true"
    note = _NO_HISTORY if fetches else ""
    if inputs.get("submodules", "false").lower() not in ("", "false"):
        return Meaning("nothing", "the repository is there already, without its submodules", note=note)
    return Meaning("nothing", "the repository is there already", note=note)


def _toolchain(name: str, ref: str, inputs: Mapping[str, str]) -> Meaning:
    tool = _TOOLCHAINS[name]
    if tool in _VERSIONS:
        version = one_line(inputs.get(_VERSIONS[tool], "") or _pinned(ref), 40)
        runtime = (tool, version) if version and not version.startswith("$") else None
        return Meaning("sets_up", f"the sandbox's own {tool} is used", runtime=runtime)
    wanted = inputs.get("python-version", "") if name in ("actions/setup-python", "astral-sh/setup-uv") else ""
    # Several lines set up several; the first is the default.
    lines = [line.strip() for line in wanted.splitlines() if line.strip()]
    python = python_version(lines[0]) if lines else None
    said = f"Python {lines[0]}" if lines else tool
    note = (
        f"{lines[0][:40]} is asked for, and CPython without its variants runs here"
        if lines and _VARIANT.search(lines[0])
        else ""
    )
    outputs = {"cache-hit": "", "python-version": lines[0] if lines else ""}
    return Meaning("sets_up", f"{said} is made ready by the sandbox", python=python, outputs=outputs, note=note)


def _pinned(ref: str) -> str:
    """ "1.70" of an action whose tags are versions of what it sets up."""
    return ref if re.fullmatch(r"\d+\.\d+(?:\.\d+)?", ref) else ""


def python_version(text: str) -> str | None:
    """ "3.12", "3.12.4", "~3.12", "pypy3.10", ">=3.9 <3.13", "3.x" → "3.12", "3.10" or None."""
    found = re.search(r"(?<![\d.])3\.\d{1,2}(?!\d)", text)
    return found[0] if found else None


def _command(linter: _Linter, inputs: Mapping[str, str]) -> str:
    """Shell text that does what the action does; "" where an input is no plain text."""
    given = {**linter.defaults, **inputs}
    values = {name: given[name] for name in linter.defaults}
    if any("\n" in value.strip() for value in values.values()):
        return ""
    version = given.get("version", "").removeprefix("==").removeprefix("v")
    pin = f"=={version}" if re.fullmatch(r"\d+(\.\d+)*", version) else ""
    install = f"pip install {linter.installs}{pin}\n" if linter.installs else ""
    return install + " ".join(linter.command.format(**values).split())
