"""Splits a command line into options with their values and plain words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """Options as they are written (`--group`, `-G`), each with its values; one without a value has ""."""

    given: dict[str, list[str]] = field(default_factory=dict)

    def has(self, *names: str) -> bool:
        return any(name in self.given for name in names)

    def values(self, *names: str) -> list[str]:
        return [value for name in names for value in self.given.get(name, [])]

    def value(self, *names: str, default: str = "") -> str:
        return next(iter(self.values(*names)), default)

    def names(self, *names: str) -> list[str]:
        """The values, split at commas and spaces."""
        return split_names(self.values(*names))

    def merged(self, other: CommandOptions) -> CommandOptions:
        return CommandOptions({name: [*self.values(name), *other.values(name)] for name in {*self.given, *other.given}})


def split_options(arguments: Sequence[str], valued: Collection[str]) -> tuple[CommandOptions, list[str]]:
    """The options before a command, and the command: `--group a pytest -x` → ({"--group": ["a"]}, ["pytest", "-x"])."""
    options: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        option, equals, value = word.partition("=")
        if not equals and option in valued:
            value = rest.pop(0) if rest else ""
        elif not equals and not word.startswith("--") and len(word) > 2 and word[:2] in valued:
            option, value = word[:2], word[2:]
        options.setdefault(option, []).append(value)
    return CommandOptions(options), rest


def separate_options(arguments: Sequence[str], valued: Collection[str]) -> tuple[CommandOptions, list[str]]:
    """The options at any position, and the plain words between them."""
    options, rest = split_options(arguments, valued)
    plain: list[str] = []
    while rest:
        more, rest = split_options(rest, valued) if rest[0].startswith("-") else (CommandOptions(), rest)
        options = options.merged(more)
        plain += rest[:1]
        rest = rest[1:]
    return options, plain


def split_names(values: Iterable[str]) -> list[str]:
    return [name for value in values for name in re.split(r"[,\s]+", value) if name]
