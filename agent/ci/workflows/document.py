"""Bounded YAML as GitHub Actions reads it: nodes that know their line, or a `WorkflowProblem`.

YAML 1.2 core scalars (`on`, `yes` are text, `3.10` is the number 3.1), anchors and aliases, no merge keys, keys unique
regardless of case. Size, depth and the number of nodes that aliases expand to are limited. Knows nothing of workflows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from agent.ci.expressions.values import exact
from sandbox.base import KIB

SIZE_LIMIT = 512 * KIB
DEPTH_LIMIT = 100
NODE_LIMIT = 50_000  # with aliases expanded; each 100 characters of a text count as one more

Word: TypeAlias = bool | int | float | str | None
Value: TypeAlias = "Word | list[Value] | dict[str, Value]"


@dataclass(frozen=True, slots=True)
class WorkflowProblem:
    """Why something cannot be read or found: a sentence for people, and the line in the file if there is one."""

    sentence: str
    line: int | None = None

    def __str__(self) -> str:
        return self.sentence if self.line is None else f"line {self.line}: {self.sentence}"


EMPTY = WorkflowProblem("The file is empty.")


class WorkflowError(Exception):
    """Ends reading early. Never raised outside this package."""

    def __init__(self, sentence: str, line: int | None = None) -> None:
        super().__init__(sentence)
        self.problem = WorkflowProblem(sentence, line)


@dataclass(frozen=True, slots=True)
class Scalar:
    value: Word
    line: int


@dataclass(frozen=True, slots=True)
class Items:
    nodes: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class KeyValue:
    key: str
    line: int
    value: Node


@dataclass(frozen=True, slots=True)
class Keys:
    entries: tuple[KeyValue, ...]
    line: int

    def get(self, key: str) -> Node | None:
        return next((entry.value for entry in self.entries if entry.key == key), None)


Node: TypeAlias = Scalar | Items | Keys


def read_document(text: str) -> Node | WorkflowProblem:
    """The one YAML document of `text`."""
    if len(text) > SIZE_LIMIT or len(text.encode(errors="replace")) > SIZE_LIMIT:
        return WorkflowProblem(f"The file is larger than {SIZE_LIMIT // KIB} KiB.")
    try:
        return _Composer(text).document()
    except WorkflowError as refused:
        return refused.problem
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.context, error.problem) if part)
        return WorkflowProblem(f"The file is not valid YAML: {said}.", mark.line + 1 if mark else None)
    except (yaml.YAMLError, UnicodeError):
        return WorkflowProblem("The file is not valid YAML: it contains characters that YAML does not allow.")


def text_of(value: Word) -> str:
    """A scalar as text, as GitHub's reader converts it: 3.10 is "3.1", true is "true", null is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else exact(value)


def plain(node: Node) -> Value:
    """The node's value without lines."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Items):
        return [plain(item) for item in node.nodes]
    return {entry.key: plain(entry.value) for entry in node.entries}


# With the C parser the largest file takes 0.2 seconds; the wheels of all platforms have it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Composer:
    """Turns YAML events into nodes. An alias shares its anchor's node, so an alias bomb costs no memory; its size counts."""

    def __init__(self, text: str) -> None:
        self._events = iter(yaml.parse(text, Loader=_LOADER))
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._open: set[str] = set()

    def document(self) -> Node:
        self._next()  # the stream's start
        if isinstance(self._next(), yaml.StreamEndEvent):
            raise WorkflowError(EMPTY.sentence)
        node, _ = self._node(self._next(), 1)
        self._next()  # the document's end
        after = self._next()
        if not isinstance(after, yaml.StreamEndEvent):
            raise WorkflowError("The file contains more than one YAML document.", _line(after))
        return node

    def _next(self) -> Any:
        return next(self._events)

    def _node(self, event: Any, depth: int) -> tuple[Node, int]:
        """The node that begins with `event`, and how many nodes it expands to."""
        line = _line(event)
        if depth > DEPTH_LIMIT:
            raise WorkflowError(f"The file is nested deeper than {DEPTH_LIMIT} levels.", line)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in self._open:
                raise WorkflowError(f"The anchor '{event.anchor}' contains an alias to itself.", line)
            if event.anchor not in self._anchors:
                raise WorkflowError(f"The alias '{event.anchor}' has no anchor before it.", line)
            return self._anchors[event.anchor]
        if isinstance(event, yaml.ScalarEvent):
            # Long texts count for more: an alias of one costs no memory, but reading it takes time.
            found: tuple[Node, int] = Scalar(_word(event), line), 1 + len(event.value) // 100
        else:
            if event.anchor:
                self._open.add(event.anchor)
            found = self._items(line, depth) if isinstance(event, yaml.SequenceStartEvent) else self._keys(line, depth)
            self._open.discard(event.anchor)
        if event.anchor:
            self._anchors[event.anchor] = found
        return found

    def _items(self, line: int, depth: int) -> tuple[Node, int]:
        nodes: list[Node] = []
        total = 1
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            node, size = self._node(event, depth + 1)
            nodes.append(node)
            total = _within(total + size, event)
        return Items(tuple(nodes), line), total

    def _keys(self, line: int, depth: int) -> tuple[Node, int]:
        entries: list[KeyValue] = []
        seen: set[str] = set()
        total = 1
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key, _ = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise WorkflowError("A key must be text.", _line(event))
            name = text_of(key.value)
            if name.upper() in seen:
                raise WorkflowError(f"'{name}' is already defined.", _line(event))
            seen.add(name.upper())
            node, size = self._node(self._next(), depth + 1)
            entries.append(KeyValue(name, _line(event), node))
            total = _within(total + size + 1, event)
        return Keys(tuple(entries), line), total


def _within(total: int, event: Any) -> int:
    if total > NODE_LIMIT:
        raise WorkflowError(f"With its aliases expanded, the file has more than {NODE_LIMIT} values.", _line(event))
    return total


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


# The core schema of YAML 1.2.2, chapter 10.3.2.
_WORDS: dict[str, Word] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_RADIX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_EXACT = 2**53  # GitHub's numbers are doubles
_RESOLVED = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "null")}


def _word(event: Any) -> Word:
    text: str = event.value
    untagged = event.tag is None and event.implicit[0]  # and unquoted
    if not untagged and event.tag not in _RESOLVED:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _FLOAT.fullmatch(text):
        return _number(float(text))
    if _RADIX.fullmatch(text):
        whole = int(text, 0)
        return whole if whole < _EXACT else float(whole) if whole.bit_length() < 1024 else float("inf")
    return float(text.replace(".", "")) if _SPECIAL.fullmatch(text) else text


def _number(value: float) -> int | float:
    return int(value) if abs(value) < _EXACT and value.is_integer() else value
