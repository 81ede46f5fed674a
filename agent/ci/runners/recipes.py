"""Follows just (`just RECIPE` of a justfile) and go-task (`task NAME` of a Taskfile): recipes that can depend on each other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from agent.ci.project.commands import RUNNER_FILES
from agent.ci.project.tables import as_table, variables
from agent.ci.runners.context import TEXT_LIMIT, Again, Followed, ShellContext, Steps, Unfollowed, bounded
from agent.ci.runners.subshells import subshell
from agent.ci.shell.words import words as shell_words

_HEAD = re.compile(r"^@?([A-Za-z_][\w-]*)((?:\s+[*+$]?\w+(?:=(?:'[^']*'|\"[^\"]*\"|\w+))?)*)\s*:(?!=)(.*)$")
_TASK_VARIABLE = r"\.(\w+)"


@dataclass
class _Recipe:
    parameters: list[tuple[str, str | None]]  # with a leading * or +, and the default
    needs: list[list[str]]
    lines: list[str] = field(default_factory=list)


def just(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    text = next((text for name in RUNNER_FILES["just"] if (text := context.text(name))), "")
    if not text:
        raise Unfollowed(f"there is no justfile in {context.cwd}")
    variables, recipes, exported = _read_justfile(text, context)
    given = [word for word in words[1:] if not word.startswith("-")]
    variables |= {found[1]: found[2] for word in given if (found := re.match(r"^(\w+)=(.*)$", word))}
    name = next((word for word in given if not re.match(r"\w+=", word)), None)
    call = list(words[words.index(name) :]) if name else [next(iter(recipes), "")]
    lines = _recipe_lines(recipes, call, variables, (), context.steps)
    return again("\n".join(lines), context.with_env({key: variables[key] for key in exported if key in variables}))


def _read_justfile(text: str, context: ShellContext) -> tuple[dict[str, str], dict[str, _Recipe], list[str]]:
    variables: dict[str, str] = {}
    recipes: dict[str, _Recipe] = {}
    exported: list[str] = []
    current: _Recipe | None = None
    for line in text.replace("\\\n", " ").split("\n"):
        if line[:1] in (" ", "\t") and line.strip():
            if current is not None:
                current.lines.append(line.strip())
            continue
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "[", "set ", "alias ", "import ", "mod ")):
            continue
        if (found := re.match(r"^(export\s+)?(\w+)\s*:=\s*(.*)$", stripped)) is not None:
            if (value := _just_value(found[3], variables, context)) is not None:
                variables[found[2]] = value
            if found[1]:
                exported.append(found[2])
        elif (head := _HEAD.match(stripped)) is not None:
            parameters = [_parameter(part) for part in re.findall(r"[*+$]?\w+(?:=(?:'[^']*'|\"[^\"]*\"|\w+))?", head[2])]
            needs = re.findall(r"\(([^)]*)\)|([\w-]+)", re.sub(r"&&|#.*", " ", head[3]))
            current = recipes[head[1]] = _Recipe(parameters, [shell_words(one or other) for one, other in needs])
    return variables, recipes, exported


def _parameter(text: str) -> tuple[str, str | None]:
    name, equals, default = text.lstrip("$").partition("=")
    return name, default.strip("'\"") if equals else None


def _just_value(text: str, variables: Mapping[str, str], context: ShellContext) -> str | None:
    """A string, a variable, `env_var_or_default`, or several joined by `+`; None for any other expression."""
    parts: list[str] = []
    for part in text.split("+"):
        part = part.strip()
        if (found := re.fullmatch(r"'([^']*)'|\"([^\"\\]*)\"", part)) is not None:
            parts.append(found[1] or found[2] or "")
        elif part in variables:
            parts.append(variables[part])
        elif (
            found := re.fullmatch(r"env(?:_var_or_default)?\(\s*['\"](\w+)['\"]\s*,\s*['\"]([^'\"]*)['\"]\s*\)", part)
        ) is not None:
            parts.append(context.env.get(found[1], found[2]))
        else:
            return None
    return bounded(["".join(parts)])


def _recipe_lines(
    recipes: Mapping[str, _Recipe], call: list[str], variables: Mapping[str, str], above: tuple[str, ...], steps: Steps
) -> list[str]:
    name, *arguments = call or [""]
    around = steps.enter(name, above)
    recipe = recipes.get(name)
    if recipe is None:
        raise Unfollowed(f"it has no recipe {name[:60]}")
    own = dict(variables)
    for parameter, default in recipe.parameters:
        if parameter[0] in "*+":
            own[parameter[1:]] = " ".join(arguments) or default or ""
            arguments = []
        elif arguments:
            own[parameter] = arguments.pop(0)
        elif default is not None:
            own[parameter] = default
        else:
            raise Unfollowed(f"its recipe {name[:60]} needs the argument {parameter[:40]}")
    lines: list[str] = []
    for need in recipe.needs:
        lines += _recipe_lines(recipes, [own.get(word, word) for word in need], own, around, steps)
    if recipe.lines and recipe.lines[0].startswith("#!"):
        if not re.search(r"\b(?:ba|da)?sh\b", recipe.lines[0]):
            raise Unfollowed(f"its recipe {name[:60]} is not a shell script")
        return [*lines, "(\n" + "\n".join(_fill(line, own) for line in recipe.lines[1:]) + "\n)"]
    size = sum(map(len, lines))
    for line in recipe.lines:
        careless = re.match(r"^@?-", line) is not None
        text = _fill(line.lstrip("@-"), own).strip()
        # Each line has a shell of its own.
        text = f"(\n{text}\n)" if re.match(r"cd\b|export\b|set\b", text) and "&&" not in text else text
        lines.append(f"{text} || true" if careless else text)
        size += len(lines[-1])
        if size > TEXT_LIMIT:
            raise Unfollowed("the commands that it runs are too long")
    # Arguments that are left over are further recipes.
    return [*lines, *(_recipe_lines(recipes, arguments, variables, above, steps) if arguments and not above else [])]


def go_task(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    at = words.index("--") if "--" in words else len(words)
    arguments = words[at + 1 :]
    given = {found[1]: found[2] for word in words[1:at] if (found := re.match(r"(\w+)=(.*)", word, re.DOTALL))}
    names = [word for word in words[1:at] if not re.match(r"-|\w+=", word)]
    text = next((text for name in RUNNER_FILES["task"] if (text := context.text(name))), "")
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
    lines = [line for name in names or ["default"] for line in _task_lines(tasks, name, known, (), context.steps)]
    return again("\n".join(lines), context.with_env(variables(content.get("env"))))


def _task_lines(
    tasks: Mapping[str, object], name: str, known: Mapping[str, str], above: tuple[str, ...], steps: Steps
) -> list[str]:
    around = steps.enter(name, above)
    if name not in tasks:
        raise Unfollowed(f"it has no task `{name[:60]}`")
    given = tasks[name]
    task = given if isinstance(given, dict) else {"cmds": given if isinstance(given, list) else [given]}
    known = {**known, **variables(task.get("vars"))}
    lines: list[str] = []
    for need in _list(task.get("deps")):
        lines += _task_lines(tasks, str(need.get("task") if isinstance(need, dict) else need), known, around, steps)
    own: list[str] = []
    for command in [*_list(task.get("cmds")), *([task["cmd"]] if "cmd" in task else [])]:
        match command:
            case {"task": called, **more}:
                own += _task_lines(tasks, str(called), {**known, **variables(more.get("vars"))}, around, steps)
            case {"defer": _}:
                continue
            case {"cmd": line, "ignore_error": True}:
                own.append(f"{_fill(str(line), known, _TASK_VARIABLE).strip()} || true")
            case {"cmd": line} | line:
                own.append(_fill(str(line), known, _TASK_VARIABLE).strip())
    folder = _fill(str(task["dir"]), known, _TASK_VARIABLE) if task.get("dir") else None
    return [*lines, subshell(bounded(own), variables(task.get("env")), folder)]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _fill(text: str, variables: Mapping[str, str], name: str = r"(\w+)") -> str:
    """`name` is the pattern of a variable; its group is the variable's name. Raises `Unfollowed`."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise Unfollowed(f"the value of `{match[0][:60]}` is not known")
        return variables[match[1]]

    filled = re.sub(r"\{\{\s*" + name + r"\s*\}\}", value, text)
    if (at := filled.find("{{")) >= 0 and (end := filled.find("}}", at)) >= 0:
        raise Unfollowed(f"the expression `{filled[at : end + 2][:60]}` is not supported")
    return filled
