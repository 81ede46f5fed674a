"""Decides without running shell text whether a command in it runs: True, False, or None for unknown.

Evaluates the conditions around a command (`if`, `&&`, `||`, loops, functions) against the repository's files.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agent.ci.runners.context import ShellContext, Unfollowed
from agent.ci.shell.pieces import Piece

_COMBINATIONS = 64  # of loop values around one command
_LOOK = 50  # steps that one search through all paths costs
# Commands that test something. Any other command is assumed to succeed, so what follows its `&&` runs.
_TESTING = ("test", "[", "[[", "((", "command", "which", "type", "hash", "grep", "diff", "python", "python3")

Known = bool | None


def both(one: Known, other: Known) -> Known:
    if one is False or other is False:
        return False
    return True if one and other else None


def _not(one: Known) -> Known:
    return None if one is None else not one


@dataclass
class _Frame:
    """A compound command that encloses the piece."""

    kind: str
    here: ShellContext
    outer: Known  # whether the compound command itself runs
    runs: Known = True  # whether the current branch does
    earlier: Known = False  # whether an earlier branch does
    condition: Known = None
    is_condition: bool = False  # inside the condition itself
    variable: str = ""
    values: list[str] = field(default_factory=list)


class ConditionTracker:
    """The state after the last piece. `here` is the context of the commands; the code that reads `cd` changes it."""

    def __init__(self, here: ShellContext) -> None:
        self.here = here
        self._frames: list[_Frame] = []
        self._reach: Known = True  # whether the `&&` and `||` before the next command let it run
        self._status: Known = None
        self._tested = self._negated = self._is_function = False

    def runs(self) -> Known:
        """Whether a command at this point runs."""
        if not self._frames:
            return self._reach
        return both(self._reach, both(self._frames[-1].outer, self._frames[-1].runs))

    @property
    def is_condition(self) -> bool:
        return self._negated or any(frame.is_condition for frame in self._frames)

    def variables(self) -> Iterator[dict[str, str]]:
        """The combinations of values of the enclosing loops' variables."""
        loops = [frame for frame in self._frames if frame.variable]
        for values in itertools.islice(itertools.product(*(loop.values for loop in loops)), _COMBINATIONS):
            yield dict(zip((loop.variable for loop in loops), values, strict=True))

    def operator(self, text: str) -> None:
        if text == "&&":
            self._reach = (None if self._tested else True) if self._status is None else self._status
        elif text == "||":
            self._reach = _not(self._status)
        elif text not in ("|", "|&"):
            self._reach, self._negated = True, False

    def command(self, words: list[str], *, is_done: bool) -> None:
        """`is_done`: the command was removed, because the install step does its work."""
        if self._reach is False:
            return
        self._status = True if is_done or words[:1] in ([":"], ["true"]) else _answer(words, self.here)
        if self._negated:
            self._status, self._negated = _not(self._status), False
        if self._reach is None:
            self._status = None
        self._tested = bool(words) and words[0] in _TESTING

    def word(self, piece: Piece) -> None:
        """A reserved word of the shell."""
        name, frame = piece.words[0], self._frames[-1] if self._frames else None
        match name:
            case "if" | "while" | "until":
                self._open(name).is_condition = True
            case "for" | "select" | "case":
                opened = self._open(name)
                if name == "for" and len(piece.words) > 3:
                    opened.variable, opened.values = piece.words[1], self._globbed(piece.words[3:])
                opened.runs = True if opened.values else None
            case "{" | "(":
                opened = self._open("function" if self._is_function else name)
                opened.runs, self._is_function = (None if self._is_function else True), False
            case "function":
                self._is_function = True
            case "!":
                self._negated = True
                return
            case "time":
                return
            case "then" if frame:
                frame.condition, frame.is_condition = self._status, False
                frame.runs = both(_not(frame.earlier), frame.condition)
            case "elif" | "else" if frame:
                frame.earlier = _not(both(_not(frame.earlier), _not(frame.condition)))
                frame.runs, frame.is_condition = _not(frame.earlier), name == "elif"
            case "do" if frame:
                frame.runs = frame.runs if frame.kind == "for" else None
                frame.is_condition = False
            case "fi" | "done" | "esac" | "}" | ")" if frame:
                self._close(self._frames.pop())
                return
        self._reach = True

    def _open(self, kind: str) -> _Frame:
        self._frames.append(_Frame(kind, self.here, self.runs()))
        self._reach, self._tested, self._negated = True, False, False
        return self._frames[-1]

    def _close(self, frame: _Frame) -> None:
        if frame.kind != "{":
            self.here = frame.here
        if frame.kind not in ("{", "("):
            self._status = None
        self._tested, self._reach = False, True

    def _globbed(self, values: Sequence[str]) -> list[str]:
        found: list[str] = []
        for value in values[:_COMBINATIONS]:
            if "*" in value and "$" not in value and _can_search(self.here):
                pattern = self.here.path(value)
                depth = pattern.count("/")
                hits = [path for path in sorted(self.here.project.paths) if path.count("/") == depth]
                prefix = value.rpartition("/")[0]
                names = (path.rpartition("/")[2] for path in hits if fnmatch.fnmatchcase(path, pattern))
                found += [f"{prefix}/{name}" if prefix else name for name in names]
            else:
                found.append(value)
        return found


def _can_search(here: ShellContext) -> bool:
    """Whether the budget allows one more search through all paths."""
    try:
        here.steps.take(_LOOK)
    except Unfollowed:
        return False
    return True


def _answer(words: list[str], here: ShellContext) -> Known:
    """The status of `[ -f PATH ]` and similar tests."""
    if words[:1] == ["false"]:
        return False
    if words[:1] in (["["], ["[["]):
        words = words[1:-1]
    elif words[:1] == ["test"]:
        words = words[1:]
    else:
        return None
    is_not = words[:1] == ["!"]
    words = words[1:] if is_not else words
    if len(words) != 2 or words[0] not in ("-f", "-e", "-s", "-r", "-d") or re.search(r"[$*?`~\[]|^/", words[1]):
        return None
    path = here.path(words[1])
    is_there = here.has(words[1]) if words[0] != "-d" else False
    if words[0] in ("-d", "-e", "-r") and not is_there:
        if not _can_search(here):
            return None
        is_there = path == "." or any(one.startswith(f"{path}/") for one in here.project.paths)
    return is_there is not is_not
