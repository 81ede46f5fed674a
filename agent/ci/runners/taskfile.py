"""Follows go-task: `task NAME` of a Taskfile, with `cmds`, `deps`, `vars`, `env` and `dir`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import yaml

from agent.ci.runners.braces import Unfilled, filled
from agent.ci.runners.context import TEXT_LIMIT, Again, Place, Result, Steps, Unfollowed
from agent.ci.runners.shell import subshell
from agent.ci.tables import as_table

_FILES = ("Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml")
_NESTED = 20
_NAME = r"\.(\w+)"


class TaskError(ValueError):
    """What cannot be followed; the message is a clause."""


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "task"."""
    given = list(words[1:])
    arguments = given[given.index("--") + 1 :] if "--" in given else []
    given = given[: given.index("--")] if "--" in given else given
    variables = dict(word.split("=", 1) for word in given if re.match(r"^\w+=", word))
    wanted = [word for word in given if not word.startswith("-") and word not in [f"{k}={v}" for k, v in variables.items()]]
    text = next((text for name in _FILES if (text := place.text(name))), "")
    if not text:
        return Unfollowed(f"there is no Taskfile in {place.cwd}")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            return Unfollowed("its Taskfile uses YAML aliases")
        content = as_table(yaml.safe_load(text))
        steps = place.steps
        variables = {**_strings(content.get("vars")), "CLI_ARGS": shlex.join(arguments), **variables}
        tasks = as_table(content.get("tasks"))
        lines = [line for name in wanted or ["default"] for line in _lines(tasks, name, variables, (), steps)]
    except (TaskError, Unfilled) as wrong:
        return Unfollowed(str(wrong).split("\n")[0][:120])
    except (yaml.YAMLError, ValueError, RecursionError):
        return Unfollowed("its Taskfile is not valid YAML")
    return again("\n".join(lines), place.with_env(_strings(content.get("env"))))


def _lines(
    tasks: Mapping[str, object], name: str, variables: Mapping[str, str], above: tuple[str, ...], steps: Steps
) -> list[str]:
    steps.take()
    if name in above or len(above) > _NESTED:
        raise TaskError(f"its task {name[:60]} calls itself")
    if name not in tasks:
        raise TaskError(f"it has no task {name[:60]}")
    given = tasks[name]
    task = given if isinstance(given, dict) else {"cmds": given if isinstance(given, list) else [given]}
    variables = {**variables, **_strings(task.get("vars"))}
    lines: list[str] = []
    for need in _list(task.get("deps")):
        lines += _lines(tasks, str(need.get("task") if isinstance(need, dict) else need), variables, (*above, name), steps)
    own: list[str] = []
    for command in [*_list(task.get("cmds")), *([task["cmd"]] if "cmd" in task else [])]:
        if isinstance(command, dict) and "task" in command:
            own += _lines(tasks, str(command["task"]), {**variables, **_strings(command.get("vars"))}, (*above, name), steps)
        elif isinstance(command, dict) and "defer" in command:
            continue
        else:
            text = str(command.get("cmd") if isinstance(command, dict) else command)
            careless = isinstance(command, dict) and command.get("ignore_error") is True
            own.append(filled(text, variables, _NAME).strip() + (" || true" if careless else ""))
    folder = filled(str(task["dir"]), variables, _NAME) if task.get("dir") else None
    text = "\n".join(own)
    if len(text) > TEXT_LIMIT:
        raise TaskError("what it runs is too long")
    return [*lines, subshell(text, _strings(task.get("env")), folder)]


def _strings(value: object) -> dict[str, str]:
    """Plain values; those that a command gives (`sh:`) are not known."""
    return {str(key): str(item) for key, item in as_table(value).items() if isinstance(item, str | int | float)}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
