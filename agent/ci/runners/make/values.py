"""Expands the text of a Makefile: variables, substitutions, and the functions that need no shell. Knows no rules."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from dataclasses import dataclass, field

from agent.ci.runners.context import TEXT_LIMIT, Steps, Unfollowed

_NESTED = 40
_BUILT_IN = {"MAKE": "make", "CURDIR": "$(pwd)", "SHELL": "/bin/sh", "PYTHON": "", "CC": "cc", "RM": "rm -f", "MAKEFLAGS": ""}


@dataclass
class Variables:
    """`settled` are those the command line gives, which the file cannot change."""

    values: dict[str, tuple[str, bool]]  # name → (text, whether it is expanded already)
    settled: frozenset[str] = frozenset()
    steps: Steps = field(default_factory=Steps)


def assign(known: Variables, name: str, how: str, value: str) -> None:
    """Raises `Unfollowed` where a variable grows without bound."""
    if name in known.settled:
        return
    if how == "!=":
        known.values[name] = (f"$(shell {value})", False)
    elif how == "?=":
        known.values.setdefault(name, (value, False))
    elif how == "+=" and name in known.values:
        before, settled = known.values[name]
        added = expand(value, known, {}) if settled else value
        if len(before) + len(added) > TEXT_LIMIT:
            raise Unfollowed(f"its variable {name} grows without bound")
        known.values[name] = (f"{before} {added}".strip() if before else added, settled)
    elif how in (":=", "::="):
        try:
            known.values[name] = (expand(value, known, {}), True)
        except Unfollowed:
            known.values[name] = (value, False)  # refused where it is used
    else:
        known.values[name] = (value, False)


def fits(pattern: str, target: str) -> bool:
    return fnmatch.fnmatchcase(target, pattern.replace("%", "*"))


def raw(name: str, known: Variables) -> str:
    return known.values.get(name, (_BUILT_IN.get(name, ""), True))[0]


def expand(text: str, known: Variables, own: dict[str, str], above: tuple[str, ...] = ()) -> str:
    """Raises `Unfollowed` for what only a shell knows, and for text that grows without bound."""
    if "$" not in text:
        return text
    if len(text) > TEXT_LIMIT:
        raise Unfollowed("a line of it is too long")
    if len(above) > _NESTED:
        raise Unfollowed(f"its variable {above[-1][:40]} is nested too deeply")
    out: list[str] = []
    size = at = 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            following = text.find("$", at + 1)
            piece, at = (text[at:], len(text)) if following < 0 else (text[at:following], following)
        elif text[at + 1] in "({":
            end = _closing(text, at + 1)
            piece = _reference(text[at + 2 : end], known, own, above)
            at = end + 1
        else:
            letter = text[at + 1]
            piece = "$" if letter == "$" else own[letter] if letter in own else _variable(letter, known, own, above)
            at += 2
        size += len(piece)
        if size > TEXT_LIMIT:
            raise Unfollowed("a variable of it grows without bound")
        out.append(piece)
    return "".join(out)


def _closing(text: str, at: int) -> int:
    opening, closing = text[at], ")" if text[at] == "(" else "}"
    depth = 0
    for index in range(at, len(text)):
        depth += (text[index] == opening) - (text[index] == closing)
        if depth == 0:
            return index
    raise Unfollowed(f"`{text[max(at - 1, 0) : at + 40]}` is not closed")


def _variable(name: str, known: Variables, own: dict[str, str], above: tuple[str, ...]) -> str:
    known.steps.take()
    if name in own:
        return own[name]
    if name in above:
        raise Unfollowed(f"its variable {name[:40]} refers to itself")
    raw, settled = known.values.get(name, (_BUILT_IN.get(name, ""), True))
    return raw if settled else expand(raw, known, own, (*above, name))


def _reference(inside: str, known: Variables, own: dict[str, str], above: tuple[str, ...]) -> str:
    name, _, rest = inside.partition(" ")
    if rest and name in _FUNCTIONS_OF_SHELL:
        raise Unfollowed(f"`$({inside[:60]})` is only known when it is run")
    if rest and re.fullmatch(r"[a-z-]+", name):
        return _function(name, rest, known, own, above)
    inside = expand(inside, known, own, above)
    if (found := re.fullmatch(r"([^:]+):(.*)=(.*)", inside)) is not None:
        text = _variable(found[1], known, own, above)
        return " ".join(
            word[: len(word) - len(found[2])] + found[3] if word.endswith(found[2]) else word for word in text.split()
        )
    return _variable(inside, known, own, above)


_FUNCTIONS_OF_SHELL = ("shell", "wildcard", "eval", "call", "foreach", "file", "realpath", "abspath", "origin", "value")


def _function(name: str, rest: str, known: Variables, own: dict[str, str], above: tuple[str, ...]) -> str:
    arguments = [expand(part, known, own, above) for part in _split(rest)]
    match name, arguments:
        case "strip", [text]:
            return " ".join(text.split())
        case "subst", [old, new, text] if old:
            return text.replace(old, new)
        case "if", [condition, then, *otherwise]:
            return then if condition.strip() else "".join(otherwise)
        case "or", [*choices]:
            return next((choice for choice in choices if choice.strip()), "")
        case "and", [*choices]:
            return choices[-1] if all(choice.strip() for choice in choices) else ""
        case "filter" | "filter-out", [patterns, text]:
            keeps = name == "filter"
            return " ".join(word for word in text.split() if any(fits(one, word) for one in patterns.split()) is keeps)
        case "addprefix", [prefix, text]:
            return " ".join(prefix + word for word in text.split())
        case "addsuffix", [suffix, text]:
            return " ".join(word + suffix for word in text.split())
        case "firstword", [text]:
            return "".join(text.split()[:1])
        case "notdir", [text]:
            return " ".join(posixpath.basename(word) for word in text.split())
        case "sort", [text]:
            return " ".join(sorted(set(text.split())))
    raise Unfollowed(f"the function `$({name} …)` is not supported")


def _split(text: str) -> list[str]:
    """Arguments between commas that stand in no parentheses."""
    parts: list[str] = []
    begin = depth = 0
    for at, letter in enumerate(text):
        depth += (letter in "({") - (letter in ")}")
        if letter == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]
