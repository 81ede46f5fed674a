"""Runs the examples in docstrings: `>>> f(1)` sessions and lines like `f(1) == 2`.

Changes that keep the examples are ranked above those that break them, and broken examples count against a change.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Tuple

from .forks import TimeLimit

Example = Tuple[str, Any]  # expression, wanted text or (value,)

MOST = 40
SHOWN = 120  # most characters of a value that people see
_LINE = re.compile(
    r"^\s*(?:[-*]\s*)?(?P<call>(?P<name>[A-Za-z_]\w*)\(.*\))\s*"
    r"(?:==|=>|->|➞|→|➔|⇒|returns|should return|should be)\s*(?P<value>\S.*?)\s*$"
)


def parse(docstring: str, name: str) -> list[Example]:
    """[(expression, wanted text or (value,)), …]: sessions as printed text, other lines as literal values."""
    found: list[Example] = []
    try:
        for example in doctest.DocTestParser().get_examples(docstring):
            if example.exc_msg is None:
                found.append((example.source, example.want))
    except ValueError:
        pass
    return [*found, *_lines(docstring, name)][:MOST]


def _lines(docstring: str, name: str) -> Iterator[Example]:
    """Lines like `f(1) == 2`. A plain `=` can also be a definition, so it does not count."""
    for line in docstring.splitlines():
        match = None if ">>>" in line or len(line) > 500 else _LINE.match(line)
        if match is None or match.group("name") != name:
            continue
        try:
            ast.parse(match.group("call"), mode="eval")
            yield match.group("call"), (_literal(match.group("value")),)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue


def _kind(value: object) -> type:
    return float if isinstance(value, (bool, int, float, complex)) else type(value)


def _literal(text: str) -> Any:
    """The literal that the text is or starts with ("[1, 2] # why", "5.")."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return ast.literal_eval(re.split(r"\s+(?:#|//)|\.$", text)[0])


def kept(examples: Iterable[Example], namespace: Mapping[str, Any], limit: TimeLimit) -> int:
    """How many of the examples give the documented result."""
    names = dict(namespace)
    return sum(outcome(source, want, names, limit)[0] == "kept" for source, want in examples)


def outcome(source: str, want: Any, names: dict[str, Any], limit: TimeLimit) -> list[str]:
    """["kept" | "broken" | "unlike" | "impossible", the result].

    Broken means another plain value; unlike means any other difference, which can be only in notation; impossible means that
    the example needs something that is missing.
    """
    return limit.run(lambda: _outcome(source, want, names), 0.2, 1.0) or ["unlike", "no result in time"]


def _outcome(source: str, want: Any, names: dict[str, Any]) -> list[str]:
    value, printed = None, io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            try:
                value = eval(compile(source.lstrip(" \t"), "<example>", "eval", dont_inherit=True), names)
            except SyntaxError:
                exec(compile(source, "<example>", "exec", dont_inherit=True), names)
    except (NameError, ImportError, OSError, SyntaxError) as error:
        return ["impossible", type(error).__name__]
    except (Exception, SystemExit) as error:  # code under test; `limit` would count SystemExit as no result in time
        return ["unlike", type(error).__name__]
    if not isinstance(want, tuple):
        if not want.strip():  # `>>> f(1) == 2` without output is meant to be true; anything else is only a preparing step
            want = (True,) if isinstance(value, bool) else (value,)
        else:
            shown = printed.getvalue() + ("" if value is None else repr(value) + "\n")
            if doctest.OutputChecker().check_output(want, shown, doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS):
                return ["kept", shown.strip()[:SHOWN]]
            try:
                want = (ast.literal_eval(want.strip()),)
            except (SyntaxError, ValueError, MemoryError, RecursionError):
                return ["unlike", shown.strip()[:SHOWN]]
    result = "kept" if value == want[0] else "broken" if _kind(value) is _kind(want[0]) else "unlike"
    return [result, repr(value)[:SHOWN]]
