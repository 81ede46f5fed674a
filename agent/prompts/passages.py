"""Code locations that a prompt may show, their modules (each read once), and their text within a token limit.

No line is shown twice; adjacent locations of a file share one title. The caller decides what is shown and in which order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from agent.edits.changes import read_text
from agent.models.values import estimate_tokens
from agent.source.languages import language
from agent.source.outline import Definition, Module
from agent.source.test_files import is_test
from sandbox.base import Workspace

MARGIN = 15  # lines shown around a location outside of functions, or in a long one
CLASS = 40  # classes up to this many lines are shown whole
LONGEST = 160  # lines of one location
SHORT = 30  # functions up to this many lines are shown whole if they fit
TEST = 60  # tests up to this many lines are shown whole
HEAD, DOCUMENTED = 6, 8  # first lines of a long function; lines of later docstrings
BEGINNING = 3  # first lines of a function that are always shown
FEWEST = 8  # fewest lines of a cut location
CHARACTERS = 3  # of a token, as `estimate_tokens` counts
IMPORTS = 25  # most lines of a module's imports
WIDEST = 300  # characters of a line of them
TITLE = 8  # tokens of an excerpt's heading and fences


@dataclass(frozen=True, slots=True)
class Location:
    """Lines of a module, both ends included."""

    module: Module
    first: int
    last: int
    why: str
    definition: Definition | None = None
    lines: tuple[int, ...] = ()  # suspicious lines, shown if the whole does not fit
    constant: str = ""  # qualified name of a constant

    @property
    def name(self) -> str:
        return self.definition.name if self.definition else self.constant


class Sources:
    """The repository's modules, each read once."""

    def __init__(self, base: Workspace) -> None:
        self._base = base
        self._known: dict[str, Module | None] = {}
        self._paths: frozenset[str] | None = None

    async def get(self, path: str) -> Module | None:
        if path not in self._known:
            text = await read_text(self._base, path)
            self._known[path] = await asyncio.to_thread(Module, path, text) if isinstance(text, str) else None
        return self._known[path]

    async def of_module(self, name: str) -> Module | None:
        """The module with this dotted name."""
        paths = await self.paths()
        stem = name.replace(".", "/")
        for root in ("", "src/", "lib/"):
            for end in (".py", "/__init__.py"):
                if (path := f"{root}{stem}{end}") in paths:
                    return await self.get(path)
        return None

    async def paths(self) -> frozenset[str]:
        """Every file of the repository."""
        if self._paths is None:
            self._paths = frozenset(entry.path for entry in await self._base.files())
        return self._paths

    async def find(self, name: str, why: str) -> Location | None:
        """The location of "path::Class.method", "path::CONSTANT" or "path:line"; None if there is none."""
        path, _, name = name.partition("::") if "::" in name else name.partition(":")
        module = await self.get(path)
        if module is None:
            return None
        if name.isdecimal():
            line = int(name)
            return widened(module, (line,), module.around(line), why) if 0 < line <= len(module.lines) else None
        name = name.replace("::", ".").removesuffix("()")
        if (definition := module.named(name)) is not None:
            return Location(module, definition.first, definition.last, why, definition, (definition.first,))
        constant = next((each for each in module.constants if name in (each.name, each.name.rpartition(".")[2])), None)
        return Location(module, constant.first, constant.last, why, constant=constant.name) if constant else None

    def read(self) -> list[Module]:
        return [module for module in self._known.values() if module is not None]


def widened(module: Module, lines: tuple[int, ...], definition: Definition | None, why: str) -> Location:
    """The whole function, else the lines around `lines`, without the module's head (licence, docstring)."""
    if definition is not None and (not definition.is_class or definition.last - definition.first < CLASS):
        return Location(module, definition.first, definition.last, why, definition, lines)
    line = min(lines)
    begins = min(line, module.begins)
    return Location(module, max(begins, line - MARGIN), min(len(module.lines), line + MARGIN), why, None, lines)


@dataclass(frozen=True, slots=True)
class Excerpt:
    path: str
    title: str  # "pkg/a.py, lines 10-24 (`parse`, in the traceback of 3 failing tests)"
    text: str

    def __post_init__(self) -> None:
        """Makes the title one line: it is a heading, and a file's name must not add another."""
        printable = "".join(character if character.isprintable() else " " for character in self.title)
        object.__setattr__(self, "title", " ".join(printable.split()))

    @property
    def language(self) -> str:
        return language(self.path)

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.title + self.text) + TITLE


@dataclass
class Passages:
    """The accepted locations, most important first."""

    left: int  # tokens
    places: list[Location] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # functions, constants and whole classes among them, "path::Class.method"
    lines: dict[str, set[int]] = field(default_factory=dict)  # shown lines, by path
    _seen: dict[str, set[int]] = field(default_factory=dict)  # the shown lines, and lines left out on purpose

    def has(self, place: Location) -> bool:
        """Is more than half of the location shown already?"""
        whole = set(range(place.first, place.last + 1))
        return 2 * len(whole & self._seen.get(place.module.path, set())) > len(whole)

    def add(self, place: Location, *, always: bool = False, cut: bool = False, whole: bool = False) -> bool:
        """Add a location if it fits, or if `always`; with `cut` a part is enough. Returns whether it is shown.

        A long one can take only half of the remaining tokens, and is reduced to its important lines, unless `whole`.
        """
        if self.has(place):
            return True
        path = place.module.path
        seen, lines = self._seen.setdefault(path, set()), set(range(place.first, place.last + 1))
        kept = set(lines) if whole else _kept(place, TEST if is_test(path) and place.lines else LONGEST)
        room = self.left if always or whole or len(lines) <= SHORT else self.left // 2
        if (self.places and not (always or whole)) or _tokens(place, kept - seen) > room:
            kept -= _lengthy(place)
        if _tokens(place, kept - seen) > room and place.definition and place.lines and not whole:
            kept = _kept(place, SHORT)  # the suspicious lines, with context
        if cut and _tokens(place, kept - seen) > room:
            kept = _fitting(place, kept, seen, room)
        cost = _tokens(place, kept - seen)
        if cost > room and not always:
            return False
        self.left -= cost
        self.lines.setdefault(path, set()).update(kept)
        is_class = place.definition is not None and place.definition.is_class
        seen |= kept if is_class else lines  # a method that was left out can follow
        if place.name and not (is_class and kept < lines):
            self.names.add(f"{path}::{place.name}")
        self.places.append(place)
        return True

    def excerpts(self) -> list[Excerpt]:
        """The excerpts: tests first, then ordered by the best location in each."""
        order = {id(place): at for at, place in enumerate(self.places)}
        found: list[tuple[int, Excerpt]] = []
        for path in self.lines:
            here = sorted((place for place in self.places if place.module.path == path), key=lambda each: each.first)
            for group in _touching(here):
                found.append((min(order[id(place)] for place in group), _excerpt(group, self.lines[path])))
        return [excerpt for _, excerpt in sorted(found, key=lambda each: (not is_test(each[1].path), each[0]))]


def _tokens(place: Location, lines: set[int]) -> int:
    text = "\n".join(place.module.lines[line - 1] for line in sorted(lines))
    return estimate_tokens(_title([place]) + text) + TITLE


def _kept(place: Location, longest: int) -> set[int]:
    """All its lines, or for a long one its beginning, its end and the suspicious lines with context."""
    if place.last - place.first < longest:
        return set(range(place.first, place.last + 1))
    keep = set(range(place.first, place.first + HEAD)) | {place.last}
    for line in place.lines:
        keep |= set(range(max(place.first, line - MARGIN), min(place.last, line + MARGIN) + 1))
    return set(sorted(keep)[:LONGEST])


def _fitting(place: Location, kept: set[int], seen: set[int], tokens: int) -> set[int]:
    """As many of the lines as fit, those nearest to the suspicious ones first, else the first ones; a few in any case.

    How a function begins and ends tells what it takes and returns."""
    ends = {*range(place.first, place.first + BEGINNING), place.last - 1, place.last}

    def rank(line: int) -> tuple[bool, int, int]:
        return line not in ends, min((abs(line - each) for each in place.lines), default=0), line

    found, left = set[int](), CHARACTERS * (tokens - _tokens(place, set()))
    for line in sorted(kept, key=rank):
        left -= 0 if line in seen else len(place.module.lines[line - 1]) + 1
        if left < 0 and len(found) >= FEWEST:
            break
        found.add(line)
    return found


def _lengthy(place: Location) -> set[int]:
    """The lines of a long docstring after its beginning."""
    if place.definition is None or not place.definition.docstring:
        return set()
    node = place.definition.node.body[0]
    return set(range(node.lineno + DOCUMENTED, node.end_lineno or node.lineno))


def imports(module: Module) -> Excerpt | None:
    """The imports verbatim, so that a change can add to them."""
    lines = [at for at in module.import_lines() if at <= len(module.lines) and len(module.lines[at - 1]) <= WIDEST][:IMPORTS]
    return _excerpt([Location(module, lines[0], lines[-1], "its imports")], set(lines)) if lines else None


def _touching(places: Iterable[Location]) -> list[list[Location]]:
    """Groups locations of one file that are separated by blank lines only."""
    groups: list[list[Location]] = []
    for place in places:
        last = max((each.last for each in groups[-1]), default=0) if groups else 0
        between = place.module.lines[last : place.first - 1]
        if groups and not any(line.strip() for line in between):
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _excerpt(group: list[Location], kept: set[int]) -> Excerpt:
    module, first, last = group[0].module, group[0].first, max(place.last for place in group)
    out, previous = [], first - 1
    for line in [*(line for line in sorted(kept) if first <= line <= last), last + 1]:
        hidden = module.lines[previous : line - 1]
        if len(hidden) > 1 and any(text.strip() for text in hidden):
            out.append(f"[… lines {previous + 1}-{line - 1} are not shown …]")
        else:
            out += hidden
        if line <= last:
            out.append(module.lines[line - 1])
        previous = line
    return Excerpt(module.path, _title(group), "\n".join(out))


def nearest(lines: Sequence[str], wanted: Collection[int], characters: int) -> list[str]:
    """The lines of a function that fit: its head, then those nearest to the wanted ones (from 0); gaps are marked."""
    order = [*range(min(BEGINNING, len(lines)))]
    order += sorted(range(BEGINNING, len(lines)), key=lambda at: min((abs(at - each) for each in wanted), default=at))
    kept = set[int]()
    for at in order:
        characters -= len(lines[at]) + 1
        if characters < 0:
            break
        kept.add(at)
    out, before = list[str](), -1
    for at in sorted(kept):
        out += ["[…]"] * (at > before + 1) + [lines[at]]
        before = at
    return [*out, "[…]"] if kept and before < len(lines) - 1 else out


def _title(group: list[Location]) -> str:
    by_reason: dict[str, list[str]] = {}
    for place in group:
        by_reason.setdefault(place.why, []).extend([f"`{place.name}`"] if place.name else [])
    reasons = "; ".join(", ".join([*dict.fromkeys(names), why]) for why, names in by_reason.items())
    return f"{group[0].module.path}, lines {group[0].first}-{max(place.last for place in group)} ({reasons})"
