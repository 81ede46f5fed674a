"""Commands that a project names in a table of pdm, rye, poe, taskipy, pipenv or hatch. Their forms are similar.

A form is a text, a list (words, or names of other commands), or a table with one of `cmd`, `shell`, `composite`, `sequence`,
`chain`, `ref`, `call`, `script`, and variables.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.ci.project.tables import as_table, strings
from agent.ci.runners.context import Again, Followed, ShellContext, Steps, Unfollowed, bounded
from agent.ci.runners.subshells import subshell

_ARGUMENTS = re.compile(r"\{args(?::([^{}]*))?\}|\$\{?POE_EXTRA_ARGS\}?")


def fill_arguments(text: str, arguments: Sequence[str]) -> str:
    """`text` with the arguments in place of `{args:default}`, or appended if there is no such field."""
    given = shlex.join(arguments)
    if _ARGUMENTS.search(text):
        return _ARGUMENTS.sub(lambda match: given or match[1] or "", text).strip()
    return f"{text} {given}".strip()


@dataclass(frozen=True, slots=True)
class NamedScripts:
    """The commands of one tool."""

    commands: Mapping[str, object]
    steps: Steps
    lists_names: bool = False  # whether a list names other commands; otherwise it lists the words of one
    hooks: tuple[str, str] | None = ("pre_", "post_")  # prefixes of the commands that run before and after
    fill: Callable[[str, Sequence[str]], str] = fill_arguments

    def run(self, name: str, arguments: Sequence[str], context: ShellContext, again: Again) -> Followed:
        """Raises `Unfollowed`."""
        return again(self.text(name, arguments), context)

    def text(self, name: str, arguments: Sequence[str], above: tuple[str, ...] = ()) -> str:
        """Shell text of the command `name`. Raises `Unfollowed`."""
        around = self.steps.enter(name, above)
        if name not in self.commands:
            raise Unfollowed(f"it has no command `{name[:60]}`")
        before, after = self.hooks or ("", "")
        lines = [
            self._form(self.commands[one], *((arguments, around) if one == name else ([], (*around, one))))
            for one in dict.fromkeys([before + name, name, after + name])
            if one in self.commands
        ]
        return bounded(line for line in lines if line)

    def _form(self, form: object, arguments: Sequence[str], around: tuple[str, ...]) -> str:
        match form:
            case str():
                return self.fill(form, arguments)
            case list():
                return self._sequence(form, arguments, around) if self.lists_names else _words(form, arguments)
            case {"cmd": list(words)}:
                text = _words(words, arguments)
            case {"cmd": str(line)}:
                text = self.fill(" ".join(line.split()), arguments)
            case {"shell": str(line)}:
                text = self.fill(line.strip(), arguments)
            case {"composite": list(items)} | {"sequence": list(items)} | {"chain": list(items)} | {"parallel": list(items)}:
                text = self._sequence(items, arguments, around)
            case {"ref": str(line)}:
                text = self._reference(line, arguments, around)
            case {"call": str(function)} | {"script": str(function)}:
                text = _call(function)
            case _:
                raise Unfollowed(f"its command `{around[-1][:60]}` has an unsupported form")
        table = as_table(form)
        variables = {
            str(key): str(value.get("default", "") if isinstance(value, dict) else value)
            for key, value in as_table(table.get("env")).items()
        }
        folder = table.get("cwd") or table.get("working_dir")
        needed = [self._reference(name, [], around) for name in strings(table.get("deps"))]
        return "\n".join([*needed, subshell(text, variables, str(folder) if folder else None)])

    def _sequence(self, items: list[object], arguments: Sequence[str], around: tuple[str, ...]) -> str:
        lines = []
        for item in items:
            if isinstance(item, str):
                line = item.removeprefix("- ")
                text = self._reference(line, arguments if "{args" in line else [], around)
                lines.append(text if line == item else f"{text} || true")
            else:
                lines.append(self._form(item, [], around))
        return "\n".join(lines)

    def _reference(self, text: str, arguments: Sequence[str], around: tuple[str, ...]) -> str:
        """Another command by its name, with arguments; any other text is a command line."""
        text = self.fill(text, arguments)
        name, _, rest = text.partition(" ")
        return self.text(name, rest.split(), around) if name in self.commands else text


def _words(words: list[object], arguments: Sequence[str]) -> str:
    return shlex.join([*strings(words), *arguments])


def _call(reference: str) -> str:
    """`module:function()` as a command."""
    called = re.fullmatch(r"([\w.]+)(?::(\w+)(?:\(\s*\))?)?", reference)
    if called is None:
        raise Unfollowed(f"the call of `{reference[:60]}` is not supported")
    module, function = called[1], called[2] or "main"
    return f"python -c {shlex.quote(f'import {module}; {module}.{function}()')}"
