"""Follows go-task: `task NAME` of a Taskfile, with `cmds`, `deps`, `vars`, `env` and `dir`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import yaml

from agent.ci.project.tables import as_table, variables
from agent.ci.runners.context import Again, Followed, ShellContext, Steps, Unfollowed, bounded
from agent.ci.runners.placeholders import fill
from agent.ci.runners.subshells import subshell

_FILES = ("Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml")
_NAME = r"\.(\w+)"


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    at = words.index("--") if "--" in words else len(words)
    arguments = words[at + 1 :]
    given = {found[1]: found[2] for word in words[1:at] if (found := re.match(r"(\w+)=(.*)", word, re.DOTALL))}
    names = [word for word in words[1:at] if not re.match(r"-|\w+=", word)]
    text = next((text for name in _FILES if (text := context.text(name))), "")
    if not text:
        raise Unfollowed(f"there is no Taskfile in {context.cwd}")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise Unfollowed("its Taskfile uses YAML aliases")
        content = as_table(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError):
        raise Unfollowed("its Taskfile is not valid YAML") from None
    known = {**variables(content.get("vars")), "CLI_ARGS": shlex.join(arguments), **given}
    tasks = as_table(content.get("tasks"))
    lines = [line for name in names or ["default"] for line in _lines(tasks, name, known, (), context.steps)]
    return again("\n".join(lines), context.with_env(variables(content.get("env"))))


def _lines(tasks: Mapping[str, object], name: str, known: Mapping[str, str], above: tuple[str, ...], steps: Steps) -> list[str]:
    around = steps.enter(name, above)
    if name not in tasks:
        raise Unfollowed(f"it has no task `{name[:60]}`")
    given = tasks[name]
    task = given if isinstance(given, dict) else {"cmds": given if isinstance(given, list) else [given]}
    known = {**known, **variables(task.get("vars"))}
    lines: list[str] = []
    for need in _list(task.get("deps")):
        lines += _lines(tasks, str(need.get("task") if isinstance(need, dict) else need), known, around, steps)
    own: list[str] = []
    for command in [*_list(task.get("cmds")), *([task["cmd"]] if "cmd" in task else [])]:
        match command:
            case {"task": called, **more}:
                own += _lines(tasks, str(called), {**known, **variables(more.get("vars"))}, around, steps)
            case {"defer": _}:
                continue
            case {"cmd": line, "ignore_error": True}:
                own.append(f"{fill(str(line), known, _NAME).strip()} || true")
            case {"cmd": line} | line:
                own.append(fill(str(line), known, _NAME).strip())
    folder = fill(str(task["dir"]), known, _NAME) if task.get("dir") else None
    return [*lines, subshell(bounded(own), variables(task.get("env")), folder)]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
