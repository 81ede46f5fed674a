"""Shell text with its installs taken out and its runners followed; all else stays as it was written.

What is taken out where something depends on it (`pip install x || exit 1`, the only line of an `if`) leaves a `:`.
Knows no runner: `run` says what one command line comes to.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from agent.ci.project.install_commands import installs, merge
from agent.ci.project.provisioning import provisions
from agent.ci.runners.conditions import Holding
from agent.ci.runners.context import Followed, Place, Result, Unfollowed
from agent.ci.runners.shell import from_folder, subshell
from agent.ci.shell.pieces import Piece, is_simple, pieces
from agent.ci.shell.words import assignments, expanded, in_one_line
from agent.guest.text import one_line
from sandbox.base import Packages

_FEEDS = ("echo", "yes", "printf", "cat")  # what only gives a program something to read
_FILTERS = ("tee", "grep", "tail", "head", "cat", "sed", "awk", "ts", "cut", "sort", "uniq", "wc")  # or shows what it says
_IDLE = (":", "true")
_ASKS = (*_IDLE, "[", "[[", "test")
_LATER = re.compile(r"\$|`")  # of words that only a shell knows

Run = Callable[[list[str], Place], Result]


def read_script(text: str, place: Place, run: Run) -> Followed:
    """Never executes anything. A runner that cannot be followed stays as it is, with a note."""
    return _Script(text, place, run).read()


@dataclass
class _Line:
    """One line outside of all compound commands, and what becomes of its pieces: index → text in its place."""

    pieces: list[Piece]
    end: int  # in the text; here-documents end before it
    pipelines: list[range] = field(default_factory=list)  # of each piece, the pieces of its pipeline
    instead: dict[int, str] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)  # those of `instead` that are taken out
    alone: Followed | None = None

    def __post_init__(self) -> None:
        begin = 0
        for at, piece in enumerate(self.pieces):
            if piece.kind != "command" and not (piece.kind == "operator" and piece.text in ("|", "|&")):
                self.pipelines += [range(begin, at)] * (at - begin)
                self.pipelines.append(range(at, at + 1))
                begin = at + 1
        self.pipelines += [range(begin, len(self.pieces))] * (len(self.pieces) - begin)

    def program(self, at: int) -> str:
        return "".join(assignments(self.pieces[at].words)[1][:1])

    def take_out(self, at: int) -> None:
        self.instead[at] = " ".join([":", *self.pieces[at].here_documents])
        self.gone.add(at)


class _Script:
    def __init__(self, text: str, place: Place, run: Run) -> None:
        self.text, self.place, self.run = text, place, run
        self.packages = Packages()
        self.python: str | None = None
        self.notes: list[str] = []
        self.now = Holding(place)

    def read(self) -> Followed:
        kept: list[str] = []
        alone: list[Followed] = []
        for line in self._lines():
            here = self.now.here
            self._line(line)
            if (only := line.alone) is not None:
                alone.append(only)
                kept.append(subshell(only.command, only.env, from_folder(here.cwd, only.cwd)))
            elif text := self._written(line):
                kept.append(text)
        notes = tuple(dict.fromkeys(self.notes))
        if len(kept) == len(alone) == 1:
            only = alone[0]
            return Followed(only.command, self.packages, {**self.place.env, **only.env}, only.cwd, self.python, notes)
        return Followed("\n".join(kept), self.packages, self.place.env, self.place.cwd, self.python, notes)

    def _lines(self) -> Iterator[_Line]:
        found: list[Piece] = []
        for piece in pieces(self.text):
            if piece.kind == "operator" and piece.depth == 0 and piece.text == "\n":
                if found:
                    yield _Line(found, piece.start)
                found = []
            else:
                found.append(piece)
        if found:
            yield _Line(found, len(self.text))

    def _line(self, line: _Line) -> None:
        self.now.operator(";")
        for at, piece in enumerate(line.pieces):
            match piece.kind:
                case "operator":
                    self.now.operator(piece.text)
                case "word":
                    self.now.word(piece)
                case "opaque":
                    self.notes.append(f"`{_shown(piece)}` is not read: it opens what it does not close")
                case "command":
                    self._command(line, at)
                    self.now.command(list(piece.words), is_done=at in line.gone)

    def _command(self, line: _Line, at: int) -> None:
        piece, holds = line.pieces[at], self.now.holds()
        if at in line.instead:
            return
        words = list(piece.words)
        _, bare = assignments(words)
        if bare[:1] == ["cd"] and len(bare) == 2 and not re.search(r"[$`~*-]", bare[1]):
            self.now.here = self.now.here.moved(bare[1])
        elif bare[:1] == ["export"]:
            given = assignments(bare[1:])[0].items()
            self.now.here = self.now.here.with_env({k: v for k, v in given if not _LATER.search(v)})
        elif not bare:
            return
        found = self.run(words, self.now.here) if holds is not False else None
        if found is not None and piece.is_computed:
            found = Unfollowed("what it is given is only known when it is run")
        if isinstance(found, Unfollowed):
            self.notes.append(f"`{_shown(piece)}` is not followed: {found.reason}")
        elif found is not None:
            self._followed(line, at, found)
        elif not self._installed(line, at, words) and provisions(bare) and not self.now.is_condition:
            self.notes.append(f"`{_shown(piece)}` makes a machine ready, and is left out")
            self._out_of_pipeline(line, at)
        if at not in line.instead and "\\\n" in piece.text and not re.search("['\"`]|\\$\\(", piece.text):
            line.instead[at] = piece.text.replace("\\\n", " ")

    def _followed(self, line: _Line, at: int, found: Followed) -> None:
        piece, here = line.pieces[at], self.now.here
        self.packages = merge(self.packages, found.packages)
        self.python = self.python or found.python
        if found.command and self.place.depth == 0:
            self.notes.append(f"`{_shown(piece)}` is approximated by `{in_one_line(found.command, 120)}`")
        self.notes += found.notes
        if not found.command:
            line.take_out(at)
            return
        found = replace(found, env=here.added(found.env))
        if len(line.pieces) == 1 and not piece.redirections:
            line.alone = found
            return
        text = subshell(found.command, found.env, from_folder(here.cwd, found.cwd))
        if not is_simple(text):
            text = f"bash -e -o pipefail -c {shlex.quote(text)}"
        line.instead[at] = " ".join([text, *piece.redirections])

    def _installed(self, line: _Line, at: int, words: Sequence[str]) -> bool:
        """Whether the command is an install; what it brings is wanted, if it is not known that it never runs."""
        piece, here, holds = line.pieces[at], self.now.here, self.now.holds()
        found: Packages | None = None
        later: set[str] = set()
        for variables in self.now.variables():
            given = expanded(words, {**here.env, **variables})
            later |= {word for word in given if _LATER.search(word)}
            brought = installs(given)
            if brought is None:
                return False
            found = merge(found or Packages(), here.packages(brought))
        if found is None:
            return False
        if found == Packages() and "install" not in words and self._is_heard(line, at):
            return False  # it is asked something: `pip list | grep x`
        if holds is not False:
            self.packages = merge(self.packages, found)
            if later:
                self.notes.append(f"`{_shown(piece)}`: {one_line(', '.join(sorted(later)), 60)} is only known when it is run")
            if holds is None and found != Packages():
                self.notes.append(
                    f"`{_shown(piece)}` depends on a condition: what it installs is there, whether it holds or not"
                )
        self._out_of_pipeline(line, at)
        return True

    def _is_heard(self, line: _Line, at: int) -> bool:
        return bool(line.pieces[at].redirections) or len(line.pipelines[at]) > 1 or self.now.is_condition

    def _out_of_pipeline(self, line: _Line, at: int) -> None:
        """With what only feeds it before it in its pipeline, and what only filters behind it."""
        first, last = line.pipelines[at][0], line.pipelines[at][-1]
        before, behind = range(first, at, 2), range(at + 2, last + 1, 2)
        is_first = at == 0 or line.pieces[at - 1].text not in ("|", "|&")
        if {line.pieces[first].kind, line.pieces[last].kind} != {"command"}:
            is_for_it = False  # a compound command is part of it
        elif is_first:
            is_for_it = provisions([line.program(at)]) or all(line.program(index) in _FILTERS for index in behind)
        else:
            is_for_it = all(line.program(index) in _FEEDS for index in before)
        if is_for_it:
            self._out(line, line.pipelines[at])
        else:
            line.take_out(at)
            if not is_first:
                line.instead[at] = "cat"

    def _out(self, line: _Line, around: Sequence[int]) -> None:
        """A whole pipeline."""
        line.take_out(around[0])
        for index in range(around[0] + 1, around[-1] + 1):
            line.instead[index] = " ".join(line.pieces[index].here_documents)
            line.gone.add(index)

    def _written(self, line: _Line) -> str:
        """The line's text, without lists that only install."""
        has_below = any(piece.here_documents for piece in line.pieces)
        lists = list(_lists(line.pieces))
        kept = [one for one in lists if not _is_over(line, one)]
        if not kept:
            return ""
        if has_below:
            kept = lists
        out: list[str] = []
        for number, one in enumerate(kept):
            last = one[-1]
            behind = line.pieces[last + 1].text if last + 1 < len(line.pieces) else ""
            out.append(self._edited(line, one))
            if number < len(kept) - 1:
                out.append(f"{behind or ';'} ")
            elif behind == "&":
                out.append(" &")
        return "".join(out) + self.text[line.pieces[-1].end : line.end].rstrip()

    def _edited(self, line: _Line, indices: range) -> str:
        out: list[str] = []
        at = line.pieces[indices[0]].start
        for index in indices:
            piece = line.pieces[index]
            instead = line.instead.get(index, piece.text)
            out += [self.text[at : piece.start], instead] if instead else []
            at = piece.end
        return "".join(out)


def _shown(piece: Piece) -> str:
    return one_line(piece.text, 80)


def _lists(given: Sequence[Piece]) -> Iterator[range]:
    """What stands between the `;` and `&` of a line."""
    begin = 0
    for at, piece in enumerate(given):
        if piece.kind == "operator" and piece.depth == 0 and piece.text in (";", "&"):
            if at > begin:
                yield range(begin, at)
            begin = at + 1
    if begin < len(given):
        yield range(begin, len(given))


def _is_over(line: _Line, indices: range) -> bool:
    """Whether nothing but installs stands there, and what asks whether to install."""
    if not any(index in line.gone for index in indices):
        return False
    for index in indices:
        piece = line.pieces[index]
        idle = _ASKS if piece.depth else _IDLE
        if piece.kind == "opaque" or (piece.kind == "command" and index not in line.gone and not _is_idle(piece, idle)):
            return False
        if piece.kind == "word" and (piece.words[0] == "function" or "$(" in piece.text or "`" in piece.text):
            return False
    return True


def _is_idle(piece: Piece, idle: Sequence[str]) -> bool:
    return piece.words[:1] != () and piece.words[0] in idle and not piece.redirections and not piece.is_computed
