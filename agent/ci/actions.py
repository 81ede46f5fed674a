"""The command lines inside well-known actions of linters and formatters, so that such a step can be run again. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Action:
    """A template of shell text over the step's inputs, with the action's own defaults for them."""

    command: str
    defaults: Mapping[str, str]
    installs: str = ""  # pinned to the input `version`, where that is one


_ACTIONS = {
    "astral-sh/ruff-action": _Action("ruff {args} {src}", {"args": "check", "src": "."}, "ruff"),
    "chartboost/ruff-action": _Action("ruff {args} {src}", {"args": "check", "src": "."}, "ruff"),
    "psf/black": _Action("black {options} {src}", {"options": "--check --diff", "src": "."}, "black"),
    "isort/isort-action": _Action(
        "isort {configuration} {sort-paths}", {"configuration": "--check-only", "sort-paths": "."}, "isort"
    ),
    "py-actions/flake8": _Action("flake8 {args} {path}", {"args": "", "path": "."}, "flake8"),
    "pre-commit/action": _Action("pre-commit run {extra_args}", {"extra_args": "--all-files"}),
}  # fmt: skip


def command_of(uses: str, inputs: Mapping[str, str] | None) -> str:
    """Shell text that does what a step with this action does; "" for an action that is not known, or inputs that are not."""
    action = _ACTIONS.get(uses.partition("@")[0].lower())
    if action is None:
        return ""
    given = {**action.defaults, **(inputs or {})}
    values = {name: given[name] for name in action.defaults}
    if any("${{" in value or "\n" in value.strip() for value in values.values()):
        return ""
    version = given.get("version", "").removeprefix("==").removeprefix("v")
    pin = f"=={version}" if re.fullmatch(r"\d+(\.\d+)*", version) else ""
    install = f"pip install {action.installs}{pin}\n" if action.installs else ""
    return install + " ".join(action.command.format(**values).split())
