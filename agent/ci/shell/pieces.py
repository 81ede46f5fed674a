"""Reads shell text: simple commands, the operators between them, and the reserved words of compound commands.

Every piece knows its position, so that a reader can replace one and keep the rest as written. Not a shell: nothing is expanded,
and text with an unclosed quote or compound command is one opaque piece. One pass, in linear time.
Grammar: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html, and bash's `[[`, `((`, `function`, `<<<`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agent.ci.shell.words import UnreadError, behind, unquoted

_OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;;|;&|[;&|\n]")
_REDIRECTION = re.compile(r"(?:\d{1,4})?(?:<<<|<<-?|<>|<&|>>|>&|>\||<|>)|&>>?")
_DEPTH = 200  # of compound commands; deeper text is opaque
_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_PLAIN = re.compile(r"[^\s;&|()<>'\"`$\\]+")
# Reserved words before a command → the kind of compound command that they open or continue.
_OPENING = {"if": "if", "while": "loop", "until": "loop", "{": "{", "(": "("}
_MIDDLE = {"then": "if", "elif": "if", "else": "if", "do": "loop"}
_CLOSING = {"fi": "if", "done": "loop", "esac": "case", "}": "{", ")": "("}


@dataclass(frozen=True, slots=True)
class Piece:
    """`text` begins at `start` in the whole text; `depth` counts the compound commands around it.

    - "command": a simple command; `words` without quotes and redirections, `redirections` as they are written.
    - "operator": `text` is `&&`, `||`, `|`, `|&`, `;`, `&`, `;;` or a newline (after the here-documents of its line).
    - "word": a reserved word (`if`, `then`, `(`, `for x in a b`, …); `words` begin with it, or with "pattern" for a pattern of
      a `case` and "function" for the head of a function.
    - "opaque": text that could not be read; `words` are split at blanks.
    """

    kind: Literal["command", "operator", "word", "opaque"]
    text: str
    start: int
    depth: int
    words: tuple[str, ...] = ()
    redirections: tuple[str, ...] = ()
    is_computed: bool = False  # contains `$(…)` or backquotes
    raw: tuple[str, ...] = ()  # the words of a command as they are written

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def here_documents(self) -> tuple[str, ...]:
        """The here-documents: redirections whose text follows the line."""
        return tuple(one for one in self.redirections if re.match(r"\d*<<(?!<)", one))


def pieces(text: str) -> list[Piece]:
    """All of `text`, in order, without blanks and comments."""
    return _Reader(text).read()


def commands(text: str) -> list[Piece]:
    """The simple commands, also inside compound commands; unread text counts as one."""
    return [piece for piece in pieces(text) if piece.kind in ("command", "opaque") and piece.words]


def is_simple(text: str) -> bool:
    """Whether `text` is one simple command and nothing else."""
    return [piece.kind for piece in pieces(text.strip())] == ["command"]


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.found: list[Piece] = []
        self.open: list[str] = []  # enclosing compound commands
        self.waiting: list[tuple[str, bool]] = []  # here-documents of this line: delimiter, whether it can be indented
        self.line = 0  # number of pieces before the current top-level line
        self.line_start = 0
        self._new_command()

    def _new_command(self) -> None:
        self.start = -1
        self.raw: list[str] = []
        self.redirections: list[str] = []
        self.command_end = 0

    def read(self) -> list[Piece]:
        try:
            while self._next():
                pass
            self._end_command()
            if self.open:
                raise UnreadError
        except UnreadError:
            rest = self.text[self.line_start :]
            opaque = Piece("opaque", rest.strip(), self.line_start + len(rest) - len(rest.lstrip()), 0, tuple(rest.split()))
            return [*self.found[: self.line], opaque]
        return self.found

    def _next(self) -> bool:
        text = self.text
        if len(self.open) > _DEPTH:
            raise UnreadError
        if (blank := _BLANK.match(text, self.at)) is not None:
            self.at = blank.end()
        if self.at >= len(text):
            return False
        letter = text[self.at]
        if letter == "#":
            self._comment()
        elif self.open[-1:] == ["patterns"] and letter != "\n":
            self._pattern()
        elif (redirection := _REDIRECTION.match(text, self.at)) and not re.compile(r"[<>]\(").match(text, self.at):
            self._redirection(redirection)
        elif letter == "(" and self.raw:
            self._function_head()
        elif letter == "(" and not text.startswith("((", self.at):
            self._end_command()
            self._word("(", self.at + 1)
        elif letter == ")":
            self._end_command()
            self._word(")", self.at + 1)
        elif (operator := _OPERATOR.match(text, self.at)) is not None:
            self._operator(operator[0])
        else:
            self._any_word()
        return True

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _operator(self, text: str) -> None:
        self._end_command()
        start, self.at = self.at, self.at + len(text)
        if text == "\n":
            start = self._here_documents(start)
            self.at = start + 1
            if self.found and (self.found[-1].text in ("&&", "||", "|", "|&") or self.found[-1].words[:1] == ("function",)):
                return  # the line continues
        self.found.append(Piece("operator", self.text[start : self.at] or "\n", start, len(self.open)))
        if text.startswith(";;") or text == ";&":
            if self.open[-1:] != ["case"]:
                raise UnreadError
            self.open[-1] = "patterns"
        if text == "\n" and not self.open:
            self.line, self.line_start = len(self.found), self.at

    def _here_documents(self, newline: int) -> int:
        """The end of the here-documents that begin after `newline`."""
        at = newline
        for delimiter, is_indented in self.waiting:
            while at < len(self.text):
                end = self.text.find("\n", at + 1)
                line = self.text[at + 1 : len(self.text) if end < 0 else end]
                at = len(self.text) if end < 0 else end
                if (line.lstrip("\t") if is_indented else line) == delimiter:
                    break
        self.waiting = []
        return at

    def _redirection(self, operator: re.Match[str]) -> None:
        if self.start < 0:
            self.start = self.at
        start, self.at = self.at, operator.end()
        if (blank := _BLANK.match(self.text, self.at)) is not None:
            self.at = blank.end()
        target = self._raw_word()
        if not target:
            raise UnreadError
        if operator[0].lstrip("0123456789") in ("<<", "<<-"):
            self.waiting.append((unquoted(target), operator[0].endswith("-")))
        self.redirections.append(self.text[start : self.at])
        self.command_end = self.at

    def _function_head(self) -> None:
        found = re.compile(r"\([ \t]*\)").match(self.text, self.at)
        if found is None or len(self.raw) > 1:
            raise UnreadError
        start, name = self.start, self.raw[0]
        self._new_command()
        self.at = found.end()
        self._add("word", start, ("function", name))

    def _any_word(self) -> None:
        start = self.at
        if self.text.startswith("((", start) and not self.raw:
            end = self.text.find("))", start)
            if end < 0:
                raise UnreadError
            self.at = end + 2
            self.start, self.raw, self.command_end = start, ["((", "))"], self.at
            return
        raw = self._raw_word()
        if not raw:
            raise UnreadError
        if not self.raw and not self.redirections and self._reserved(raw, start):
            return
        if self.start < 0:
            self.start = start
        self.raw.append(raw)
        self.command_end = self.at

    def _reserved(self, raw: str, start: int) -> bool:
        if raw in _OPENING or raw in _MIDDLE or raw in _CLOSING:
            self.at = start
            self._word(raw, start + len(raw))
        elif raw in ("!", "time"):
            self._add("word", start, (raw,))
        elif raw in ("for", "select"):
            self._head(start, raw)
            self.open.append("loop")
        elif raw == "case":
            self._head(start, raw, "in")
            self.open.append("patterns")
        elif raw == "function":
            self._head(start, raw)
        elif raw == "[[":
            self._double_brackets(start)
        else:
            return False
        return True

    def _word(self, raw: str, end: int) -> None:
        """A word that opens, continues or closes a compound command."""
        start, self.at = self.at, end
        if raw in _CLOSING:
            opened = self.open.pop() if self.open else ""
            if opened != _CLOSING[raw] and not (raw == "esac" and opened == "patterns"):
                raise UnreadError
        elif raw in _MIDDLE and self.open[-1:] != [_MIDDLE[raw]]:
            raise UnreadError
        depth = len(self.open) - (raw in _MIDDLE)
        self.found.append(Piece("word", self.text[start:end], start, depth, (raw,)))
        if raw in _OPENING:
            self.open.append(_OPENING[raw])

    def _head(self, start: int, first: str, last: str = "") -> None:
        """`for x in a b`, `case $x in`, `function f()`: up to `last`, or to the end of the line or list."""
        given = [first]
        while True:
            if (blank := _BLANK.match(self.text, self.at)) is not None:
                self.at = blank.end()
            before = self.at
            if self.text.startswith("((", self.at) and first == "for":
                end = self.text.find("))", self.at)
                self.at = end + 2 if end >= 0 else self.at
            elif first == "function" and self.text.startswith("()", self.at):
                self.at += 2
            elif self.text.startswith("#", self.at):
                break
            else:
                raw = self._raw_word()
                if first == "function" and (raw == "{" or not raw):
                    self.at = before
                    break
                given.append(unquoted(raw)) if raw else None
                if raw == last:
                    break
            if self.at == before:
                break
        if len(given) == 1 and not self.text.startswith("((", start + 4):
            raise UnreadError
        self._add("word", start, tuple(given))

    def _pattern(self) -> None:
        """`a | b)` of a `case`, or its end."""
        start = self.at
        self.at += self.text.startswith("(", start)
        given = ["pattern"]
        while True:
            if (blank := _BLANK.match(self.text, self.at)) is not None:
                self.at = blank.end()
            raw = self._raw_word()
            if raw == "esac" and len(given) == 1:
                self.at = start
                self._word("esac", start + 4)
                return
            if raw:
                given.append(unquoted(raw))
            elif self.text.startswith("|", self.at):
                self.at += 1
            elif self.text.startswith(")", self.at):
                self.at += 1
                self.open[-1] = "case"
                self._add("word", start, tuple(given), depth=len(self.open) - 1)
                return
            else:
                raise UnreadError

    def _double_brackets(self, start: int) -> None:
        """`[[ a && b < c ]]` is one command, whatever it contains."""
        given = ["[["]
        while given[-1] != "]]":
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n;&|()<>":
                self.at += 1
            raw = self._raw_word()
            if not raw:
                raise UnreadError
            given.append(raw)
        self.start, self.raw, self.command_end = start, given, self.at

    def _raw_word(self) -> str:
        """A word as it is written; "" if there is none."""
        text, start = self.text, self.at
        while self.at < len(text):
            letter = text[self.at]
            if (plain := _PLAIN.match(text, self.at)) is not None:
                self.at = plain.end()
            elif letter == "\\":
                self.at += 2
            elif letter in "'\"`$" or (letter in "<>" and text.startswith("(", self.at + 1) and self.at == start):
                self.at = behind(text, self.at)
            elif letter == "(" and self.at > start and text[self.at - 1] in "=@?*+!":
                self.at = behind(text, self.at)  # an array, or bash's patterns
            else:
                break
        if self.at > len(text):
            raise UnreadError
        return text[start : self.at]

    def _end_command(self) -> None:
        if self.start < 0:
            return
        start, end, raw, redirections = self.start, self.command_end, self.raw, tuple(self.redirections)
        self._new_command()
        text = self.text[start:end]
        is_computed = any("$(" in word or "`" in word for word in raw if not word.startswith("'"))
        given = tuple(map(unquoted, raw))
        self.found.append(Piece("command", text, start, len(self.open), given, redirections, is_computed, tuple(raw)))

    def _add(self, kind: Literal["word"], start: int, given: tuple[str, ...], depth: int | None = None) -> None:
        text = self.text[start : self.at]
        self.found.append(Piece(kind, text, start, len(self.open) if depth is None else depth, given))
