"""Commands that a project gives a name in a table: of pdm, rye, poe, taskipy, pipenv. Their forms are alike.

A form is a text, a list (words, or names of other commands), or a table with one of `cmd`, `shell`, `composite`, `sequence`,
`chain`, `ref`, `call`, `script`, and beside it variables.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.ci.runners.context import TEXT_LIMIT, Again, Followed, Place, Steps, Unfollowed
from agent.ci.runners.shell import subshell
from agent.ci.tables import strings

_NESTED = 20
_SEQUENCES = ("composite", "sequence", "chain", "parallel")
_ARGUMENTS = re.compile(r"\{args(?::([^{}]*))?\}|\$\{?POE_EXTRA_ARGS\}?")


class ScriptError(ValueError):
    """A command that cannot be followed; the message is a clause."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The named commands of one tool. `lists_names`: a list is other commands' names (poe), else the words of one command."""

    commands: Mapping[str, object]
    lists_names: bool = False
    steps: Steps = field(default_factory=Steps)
    hooks: tuple[str, str] | None = ("pre_", "post_")  # prefixes of what is run before and after


def run(tables: Tables, name: str, arguments: Sequence[str], place: Place, again: Again) -> Followed | Unfollowed:
    """What the command `name` comes to."""
    try:
        text = _text(tables, name, list(arguments), ())
    except ScriptError as wrong:
        return Unfollowed(str(wrong))
    return again(text, place)


def _text(tables: Tables, name: str, arguments: list[str], above: tuple[str, ...]) -> str:
    tables.steps.take()
    if name in above or len(above) > _NESTED:
        raise ScriptError(f"its command {name[:60]} calls itself")
    if name not in tables.commands:
        raise ScriptError(f"it has no command {name[:60]}")
    around = (*above, name)
    lines = [_form(tables, tables.commands[name], arguments, around)]
    before, after = (prefix + name for prefix in tables.hooks or ("", ""))
    if before != name and before in tables.commands:
        lines.insert(0, _form(tables, tables.commands[before], [], (*around, before)))
    if after != name and after in tables.commands:
        lines.append(_form(tables, tables.commands[after], [], (*around, after)))
    text = "\n".join(line for line in lines if line)
    if len(text) > TEXT_LIMIT:
        raise ScriptError("what it runs is too long")
    return text


def _form(tables: Tables, form: object, arguments: list[str], around: tuple[str, ...]) -> str:
    if isinstance(form, str):
        return _with_arguments(form, arguments)
    if isinstance(form, list):
        return _sequence(tables, form, arguments, around) if tables.lists_names else shlex.join([*strings(form), *arguments])
    if not isinstance(form, dict):
        raise ScriptError(f"its command {around[-1][:60]} cannot be read")
    env = form.get("env")
    variables = {
        str(key): str(value.get("default", "") if isinstance(value, dict) else value)
        for key, value in (env.items() if isinstance(env, dict) else [])
    }
    folder = form.get("cwd") or form.get("working_dir")
    key = next((key for key in ("cmd", "shell", *_SEQUENCES, "ref", "call", "script", "expr") if key in form), "")
    told = form.get(key)
    if key == "cmd" and isinstance(told, list):
        text = shlex.join([*strings(told), *arguments])
    elif key in ("cmd", "shell") and isinstance(told, str):
        text = _with_arguments(" ".join(told.split()) if key == "cmd" else told.strip(), arguments)
    elif key in _SEQUENCES and isinstance(told, list):
        text = _sequence(tables, told, arguments, around)
    elif key == "ref" and isinstance(told, str):
        text = _reference(tables, told, arguments, around)
    elif key in ("call", "script") and isinstance(told, str):
        text = _call(told, around)
    else:
        raise ScriptError(f"its command {around[-1][:60]} is of a kind that is not read")
    needed = [_reference(tables, name, [], around) for name in strings(form.get("deps"))]
    return "\n".join([*needed, subshell(text, variables, str(folder) if folder else None)])


def _sequence(tables: Tables, items: list[object], arguments: list[str], around: tuple[str, ...]) -> str:
    lines = []
    for item in items:
        if isinstance(item, str):
            lines.append(_reference(tables, item, arguments if "{args" in item else [], around))
        else:
            lines.append(_form(tables, item, [], around))
    return "\n".join(lines)


def _reference(tables: Tables, text: str, arguments: list[str], around: tuple[str, ...]) -> str:
    """Another command by its name, with arguments; what has no such name is a command line."""
    words = text.split()
    if words and words[0] in tables.commands:
        return _text(tables, words[0], [*words[1:], *arguments], around)
    return _with_arguments(text, arguments)


def _with_arguments(text: str, arguments: list[str]) -> str:
    given = shlex.join(arguments)
    if _ARGUMENTS.search(text):
        return _ARGUMENTS.sub(lambda match: given or match[1] or "", text).strip()
    return f"{text} {given}".strip()


def _call(told: str, around: tuple[str, ...]) -> str:
    """`module:function(arguments)` as a command."""
    module, _, function = told.partition(":")
    if not re.fullmatch(r"[\w.]+", module) or not (called := re.fullmatch(r"(\w+)(?:\(\s*\))?", function or "main")):
        raise ScriptError(f"its command {around[-1][:60]} calls {told[:60]}, which is not read")
    return f"python -c {shlex.quote(f'import {module}; {module}.{called[1]}()')}"
