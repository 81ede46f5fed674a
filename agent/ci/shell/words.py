"""The words of shell text: the end of quotes and substitutions, unquoting, assignments before a command, Python's own options.

Knows words only; `pieces` reads the syntax between them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from agent.guest.text import clean

_NESTED_PLAIN = re.compile(r"[^'\"`$\\(){}#]+")
_PYTHON = re.compile(r"^(?:.*/)?(?:python|pypy|py)[\d.]*$")
_ANSI_QUOTED = re.compile(r"\$'(?:\\.|[^'\\])*'", re.DOTALL)
_QUOTED = re.compile(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)


class UnreadError(Exception):
    """A quote or compound command is not closed, or not opened."""


def words(text: str) -> list[str]:
    """The words of one line that is not shell text, such as a list of options."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def assignments(given: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """`A=1 B=2 make test` → ({"A": "1", "B": "2"}, ["make", "test"]); `env A=1 make` the same."""
    env: dict[str, str] = {}
    rest = list(given[1:] if given[:1] == ["env"] and len(given) > 1 and not given[1].startswith("-") else given)
    for at, word in enumerate(rest):
        found = re.match(r"([A-Za-z_]\w*)=(.*)", word, re.DOTALL)
        if found is None:
            return env, rest[at:]
        env[found[1]] = found[2]
    return env, []


def in_one_line(text: str, limit: int) -> str:
    """Shell text for a sentence: its lines joined, cut to `limit` characters."""
    lines = [line for each in clean(text, 4 * limit).splitlines() if (line := " ".join(each.split()))]
    joined = re.sub(r"((?:^|\s)[({]|\b(?:then|do|else)|&&|\|);", r"\1", "; ".join(lines))
    return joined if len(joined) <= limit else f"{joined[: limit - 2]} …"


def expanded(given: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Words with known variables substituted: `django==${DJANGO}`; others stay as they are."""
    return [re.sub(r"\$(?:(\w+)|\{(\w+)\})", lambda name: env.get(name[1] or name[2], name[0]), word) for word in given]


def behind(text: str, at: int) -> int:
    """The end of the quoted or substituted text that begins at `at`. Raises `UnreadError`."""
    closers: list[str] = []
    while True:
        if (plain := _NESTED_PLAIN.match(text, at)) is not None and closers:
            at = plain.end()
        letter, two, top = text[at : at + 1], text[at : at + 2], closers[-1] if closers else ""
        if not letter:
            raise UnreadError
        in_quotes = top == '"' or (top == "}" and closers[-2:-1] == ['"'])
        if letter == "\\":
            at += 2
        elif letter == top:
            closers.pop()
            at += 1
        elif two in ("$(", "${", "<(", ">("):
            closers.append(")" if two[1] == "(" else "}")
            at += 2
        elif two == "$'" and not in_quotes:
            ansi = _ANSI_QUOTED.match(text, at)
            if ansi is None:
                raise UnreadError
            at = ansi.end()
        elif letter == "'" and not in_quotes:
            end = text.find("'", at + 1)
            if end < 0:
                raise UnreadError
            at = end + 1
        elif letter in '"`':
            closers.append(letter)
            at += 1
        elif letter == "(" and (top == ")" or not closers):
            closers.append(")")
            at += 1
        elif letter == "#" and top == ")" and text[at - 1] in " \t\n;":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        else:
            at += 1
        if not closers:
            return at


def unquoted(raw: str) -> str:
    """The word that the program receives, unless only a shell can compute it."""
    if "$(" in raw or "`" in raw or not any(letter in raw for letter in "'\"\\"):
        return raw

    def inside(found: re.Match[str]) -> str:
        if found[2] is not None:
            return re.sub(r"\\([\"\\$`\n])", lambda escaped: "" if escaped[1] == "\n" else escaped[1], found[2])
        return found[1] if found[1] is not None else found[3].strip("\n")

    return _QUOTED.sub(inside, raw)


def is_python(word: str) -> bool:
    return _PYTHON.match(word) is not None


def module_of(words: list[str]) -> list[str] | None:
    """`python -Im pip install x` → ["pip", "install", "x"]; None if it runs no module."""
    if not words or not is_python(words[0]):
        return None
    module, rest = without_options(words[1:])
    return [module, *rest] if module else None


def without_options(words: list[str]) -> tuple[str, list[str]]:
    """The module that Python's own options name ("" for none), and the words after them."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        found = re.match(r"-([A-Za-z?]*?)([cmWX])(.*)$", rest.pop(0), re.DOTALL)
        if found is None:
            continue
        value = found[3] or (rest.pop(0) if rest else "")
        if found[2] in "cm":
            return (value, rest) if found[2] == "m" else ("", [])
    return "", rest
