"""Removes the installs from shell text and follows its runners; the rest stays as it was written.

If something depends on a removed command (`pip install x || exit 1`, the only line of an `if`), a `:` takes its place. Knows no
runner: `run` follows one command line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.ci.project.install_commands import hides_code, implied_packages, installs, merge, provisions, uploads
from agent.ci.runners.conditions import ConditionTracker
from agent.ci.runners.context import Followed, ShellContext, Unfollowed
from agent.ci.runners.subshells import isolated
from agent.ci.shell.pieces import Piece, is_simple, pieces
from agent.ci.shell.words import assignments, expanded, in_one_line
from agent.guest.text import one_line
from sandbox.base import Packages

_FEEDS = ("echo", "yes", "printf", "cat")  # only feed a program's input
_FILTERS = (
    "tee",
    "grep",
    "tail",
    "head",
    "cat",
    "sed",
    "awk",
    "ts",
    "cut",
    "sort",
    "uniq",
    "wc",
)  # only show output
_IDLE = (":", "true")
_ASKS = (*_IDLE, "[", "[[", "test")
_ONE_WORD = re.compile(r"[\w./:=+,@%-]+", re.ASCII)
LATER = re.compile(r"\$|`")  # in words that only a shell can expand

Run = Callable[[list[str], ShellContext], Followed | Unfollowed | None]


def read_script(text: str, context: ShellContext, run: Run) -> Followed:
    """Executes nothing. A runner that cannot be followed stays as it is, with a note."""
    return _Script(text, context, run).read()


@dataclass
class _ScriptLine:
    """One line outside all compound commands, and the replacements of its pieces: index → text."""

    pieces: list[Piece]
    end: int  # in the text; here-documents end before it
    pipelines: list[range] = field(default_factory=list)  # for each piece, the pieces of its pipeline
    instead: dict[int, str] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)  # those of `instead` that are removed
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

    def remove(self, at: int) -> None:
        self.instead[at] = " ".join([":", *self.pieces[at].here_documents])
        self.gone.add(at)


class _Script:
    def __init__(self, text: str, context: ShellContext, run: Run) -> None:
        self.text, self.context, self.run = text, context, run
        self.packages = Packages()
        self.python: str | None = None
        self.notes: list[str] = []
        self.now = ConditionTracker(context)

    def read(self) -> Followed:
        kept: list[str] = []
        alone: list[Followed] = []
        for line in self._lines():
            here = self.now.here
            self._line(line)
            if (only := line.alone) is not None:
                alone.append(only)
                kept.append(isolated(only, here))
            elif text := self._written(line):
                kept.append(text)
        notes = tuple(dict.fromkeys(self.notes))
        if len(kept) == len(alone) == 1:
            only = alone[0]
            return Followed(only.command, self.packages, {**self.context.env, **only.env}, only.cwd, self.python, notes)
        return Followed("\n".join(kept), self.packages, self.context.env, self.context.cwd, self.python, notes)

    def _lines(self) -> Iterator[_ScriptLine]:
        found: list[Piece] = []
        for piece in pieces(self.text):
            if piece.kind == "operator" and piece.depth == 0 and piece.text == "\n":
                if found:
                    yield _ScriptLine(found, piece.start)
                found = []
            else:
                found.append(piece)
        if found:
            yield _ScriptLine(found, len(self.text))

    def _line(self, line: _ScriptLine) -> None:
        self.now.operator(";")
        for at, piece in enumerate(line.pieces):
            match piece.kind:
                case "operator":
                    self.now.operator(piece.text)
                case "word":
                    self.now.word(piece)
                case "opaque":
                    self.notes.append(f"`{_shown(piece)}` is not read: a quote or a compound command is not closed")
                case "command":
                    self._command(line, at)
                    self.now.command(list(piece.words), is_done=at in line.gone)

    def _command(self, line: _ScriptLine, at: int) -> None:
        piece, runs = line.pieces[at], self.now.runs()
        if at in line.instead:
            return
        words = list(piece.words)
        _, bare = assignments(words)
        if bare[:1] == ["cd"] and len(bare) == 2 and not re.search(r"[$`~*-]", bare[1]):
            self.now.here = self.now.here.moved(bare[1])
        elif bare[:1] == ["export"]:
            given = assignments(bare[1:])[0].items()
            self.now.here = self.now.here.with_env({k: v for k, v in given if not LATER.search(v)})
        elif not bare:
            self.now.here = self.now.here.without_env(assignments(words)[0])
            return
        found = self.run(_known(piece, self.now.here.env), self.now.here) if runs is not False else None
        if found is not None and piece.is_computed:
            found = Unfollowed("its arguments are known only at run time")
        if isinstance(found, Unfollowed):
            self.notes.append(f"`{_shown(piece)}` is not followed: {found.reason}")
        elif found is not None:
            self._followed(line, at, found)
        elif self._installed(line, at, words):
            pass
        elif (provisions(bare) or uploads(bare)) and not self.now.is_condition:
            why = "uploads results" if uploads(bare) else "sets up the machine"
            self.notes.append(f"`{_shown(piece)}` {why} and is left out")
            self._out_of_pipeline(line, at)
        elif hides_code(bare, self.now.here.cwd, self.context.project.paths):
            self.notes.append(f"`{_shown(piece)}` is left out: the project is installed from this folder here")
            line.remove(at)
        elif runs is not False:
            self.packages = merge(self.packages, implied_packages(bare))
        if at not in line.instead and "\\\n" in piece.text and not re.search("['\"`]|\\$\\(", piece.text):
            line.instead[at] = piece.text.replace("\\\n", " ")

    def _followed(self, line: _ScriptLine, at: int, found: Followed) -> None:
        piece, here = line.pieces[at], self.now.here
        self.packages = merge(self.packages, found.packages)
        self.python = self.python or found.python
        if found.command and self.context.depth == 0:
            self.notes.append(f"`{_shown(piece)}` is approximated by `{in_one_line(found.command, 120)}`")
        self.notes += found.notes
        if not found.command:
            line.remove(at)
            return
        found = replace(found, env=here.added(found.env))
        if len(line.pieces) == 1 and not piece.redirections:
            line.alone = found
            return
        text = isolated(found, here)
        if not is_simple(text):
            text = f"bash -e -o pipefail -c {shlex.quote(text)}"
        line.instead[at] = " ".join([text, *piece.redirections])

    def _installed(self, line: _ScriptLine, at: int, words: Sequence[str]) -> bool:
        """Whether the command is an install; its packages are wanted unless it never runs."""
        piece, here, runs = line.pieces[at], self.now.here, self.now.runs()
        found: Packages | None = None
        later: set[str] = set()
        for variables in self.now.variables():
            given = expanded(words, {**here.env, **variables})
            later |= {word for word in given if LATER.search(word)}
            brought = installs(given)
            if brought is None:
                return False
            found = merge(found or Packages(), here.packages(brought))
        if found is None:
            return False
        if found == Packages() and "install" not in words and self._output_is_used(line, at):
            return False  # a query: `pip list | grep x`
        if runs is not False:
            self.packages = merge(self.packages, found)
            if later:
                self.notes.append(f"`{_shown(piece)}`: {one_line(', '.join(sorted(later)), 60)} is known only at run time")
            if runs is None and found != Packages():
                self.notes.append(f"`{_shown(piece)}` depends on a condition; its packages are installed in either case")
        self._out_of_pipeline(line, at)
        return True

    def _output_is_used(self, line: _ScriptLine, at: int) -> bool:
        return bool(line.pieces[at].redirections) or len(line.pipelines[at]) > 1 or self.now.is_condition

    def _out_of_pipeline(self, line: _ScriptLine, at: int) -> None:
        """Remove a command, and its pipeline if that only feeds it or filters its output."""
        first, last = line.pipelines[at][0], line.pipelines[at][-1]
        before, behind = range(first, at, 2), range(at + 2, last + 1, 2)
        is_first = at == 0 or line.pieces[at - 1].text not in ("|", "|&")
        if {line.pieces[first].kind, line.pieces[last].kind} != {"command"}:
            is_for_it = False  # it contains a compound command
        elif is_first:
            is_for_it = provisions([line.program(at)]) or all(line.program(index) in _FILTERS for index in behind)
        else:
            is_for_it = all(line.program(index) in _FEEDS for index in before)
        if is_for_it:
            self._out(line, line.pipelines[at])
        else:
            line.remove(at)
            if not is_first:
                line.instead[at] = "cat"

    def _out(self, line: _ScriptLine, around: Sequence[int]) -> None:
        """Remove a whole pipeline."""
        line.remove(around[0])
        for index in range(around[0] + 1, around[-1] + 1):
            line.instead[index] = " ".join(line.pieces[index].here_documents)
            line.gone.add(index)

    def _written(self, line: _ScriptLine) -> str:
        """The line's text, without the lists that only install."""
        has_below = any(piece.here_documents for piece in line.pieces)
        lists = list(_lists(line.pieces))
        kept = [one for one in lists if not _only_installs(line, one)]
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

    def _edited(self, line: _ScriptLine, indices: range) -> str:
        out: list[str] = []
        at = line.pieces[indices[0]].start
        for index in indices:
            piece = line.pieces[index]
            instead = line.instead.get(index, piece.text)
            out += [self.text[at : piece.start], instead] if instead else []
            at = piece.end
        return "".join(out)


def _known(piece: Piece, env: Mapping[str, str]) -> list[str]:
    """The words of `tox -e $PYTHON` with the value of PYTHON, if that is one word that no shell would change."""
    plain = {name: value for name, value in env.items() if _ONE_WORD.fullmatch(value)}
    written = zip(piece.words, piece.raw, strict=True)
    return [word if raw.startswith("'") else expanded([word], plain)[0] for word, raw in written]


def _shown(piece: Piece) -> str:
    return one_line(piece.text, 80)


def _lists(given: Sequence[Piece]) -> Iterator[range]:
    """The parts of a line between `;` and `&`."""
    begin = 0
    for at, piece in enumerate(given):
        if piece.kind == "operator" and piece.depth == 0 and piece.text in (";", "&"):
            if at > begin:
                yield range(begin, at)
            begin = at + 1
    if begin < len(given):
        yield range(begin, len(given))


def _only_installs(line: _ScriptLine, indices: range) -> bool:
    """Whether the pieces are only installs and the tests around them."""
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
