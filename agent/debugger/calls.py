"""Parses a model's tool calls in plain text, which works without a tool API. Pure.

    TOOL read_span pkg/a.py 10 40

JSON calls, which some models are trained to write, are read too: `{"name": "read_span", "arguments": {"path": …}}`, alone,
fenced or in `<tool_call>` tags.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

TOOLS: Mapping[str, tuple[str, ...]] = {
    "read_span": ("path", "first", "last"),
    "search": ("text",),
    "run_snippet": ("code",),
    "inspect_function": ("name",),
    "run_test": ("id",),
    "diff_iterations": ("one", "other"),
}
"""The tools and the names of their arguments, in order."""
MOST = 3  # calls per message
# No part of a pattern goes past the end of a line without need: blank lines without end would cost their number squared.
_LINE = re.compile(r"^[ \t>*`-]*+TOOL:?[ \t]++`?(?P<name>\w++)(?P<rest>[^\n]*+)", re.MULTILINE)
_FENCE = re.compile(r"\s*+(`{3,}+|~{3,}+)[\w+-]*+[ \t]*+\r?\n(?P<code>.*?)\n[ \t]*+\1", re.DOTALL)
_ALIASES = {
    "query": "text", "pattern": "text", "file": "path", "start": "first", "end": "last", "start_line": "first",
    "end_line": "last", "first_line": "first", "last_line": "last", "function": "name", "function_name": "name",
    "test": "id", "test_id": "id", "node_id": "id", "snippet": "code", "source": "code",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str  # one of `TOOLS`, or an unknown name
    arguments: Mapping[str, str]


def read_calls(text: str) -> tuple[ToolCall, ...]:
    """The first `MOST` calls in a message, in their order."""
    return tuple(islice(_lines(text) if _LINE.search(text) else _json(text), MOST))


def _lines(text: str) -> Iterator[ToolCall]:
    for found in _LINE.finditer(text):
        name, rest = found["name"], found["rest"].strip().removesuffix("`").strip()
        names = TOOLS.get(name, ())
        if name == "run_snippet":
            fenced = _FENCE.match(text, found.end())
            yield ToolCall(name, {"code": fenced["code"] if fenced else rest})
        elif len(names) == 1:  # the rest of the line, including blanks
            yield ToolCall(name, {names[0]: _unquoted(rest)})
        else:
            yield ToolCall(name, dict(zip(names, _words(rest), strict=False)))


def _words(rest: str) -> list[str]:
    try:
        words = shlex.split(rest)
    except ValueError:
        words = rest.split()
    # models often write "path=a.py first=1" or "a.py:10-40"
    words = [word.partition("=")[2] if re.match(r"\w+=", word) else word for word in words]
    return [part for word in words for part in (re.split(r"[:,-](?=\d+\b)", word) if word else [])]


def _unquoted(text: str) -> str:
    text = re.sub(r"^(?:\w+=)(?=[\"'])", "", text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _json(text: str) -> Iterator[ToolCall]:
    decoder = json.JSONDecoder()
    at, tries = 0, 0
    while (at := text.find("{", at)) >= 0 and tries < 20:
        tries += 1
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        at = end
        if isinstance(value, dict) and (call := _as_call(value)) is not None:
            yield call


def _as_call(value: dict[str, Any]) -> ToolCall | None:
    inner: dict[str, Any] = value["function"] if isinstance(value.get("function"), dict) else value
    name = inner.get("name") or inner.get("tool") or inner.get("action")
    if not isinstance(name, str):
        return None
    given: Any = next((inner[key] for key in ("arguments", "args", "parameters", "input") if key in inner), {})
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = {}
    names = TOOLS.get(name, ())
    if isinstance(given, list):
        return ToolCall(name, {key: str(each) for key, each in zip(names, given, strict=False)})
    if not isinstance(given, dict):
        return None
    return ToolCall(name, {str(key if key in names else _ALIASES.get(key, key)): str(each) for key, each in given.items()})
