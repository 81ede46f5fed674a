"""Places as text: within a number of tokens, no line twice, and what touches each other in one file under one title.

Knows nothing of why a place is shown or of what comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from agent.models.values import estimate_tokens
from agent.prompts.locations import MARGIN, Place
from agent.source.languages import language
from agent.source.test_files import is_test

LONGEST = 160  # lines of one place
SHORT = 30  # lines of a function, up to which it is shown whole as long as there is room
HEAD, DOCUMENTED = 6, 8  # lines of a long function's beginning, and of a docstring that is not the first place's
BEGINNING = 3  # first lines of a function that are shown however little room there is
FEWEST = 8  # lines that are left of one that is cut
TITLE = 8  # tokens of the marks around an excerpt


@dataclass(frozen=True, slots=True)
class Excerpt:
    path: str
    title: str  # "pkg/a.py, lines 10-24 (`parse`, in the traceback of 3 failing tests)"
    text: str

    @property
    def language(self) -> str:
        return language(self.path)

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.title + self.text) + TITLE


@dataclass
class Passages:
    """The places that were taken, in the order in which they deserve it."""

    left: int  # tokens
    places: list[Place] = field(default_factory=list)
    lines: dict[str, set[int]] = field(default_factory=dict)  # that are shown, by path
    _seen: dict[str, set[int]] = field(default_factory=dict)  # those, and what was left out of the places on purpose

    def has(self, place: Place) -> bool:
        """Is it among them, or all but?"""
        whole = set(range(place.first, place.last + 1))
        return 2 * len(whole & self._seen.get(place.module.path, set())) > len(whole)

    def add(self, place: Place, *, always: bool = False, cut: bool = False) -> bool:
        """Take a place if it fits, or its beginning where it may be `cut`, or `always`; True when it is there afterwards.

        One that is long may take half of the room only.
        """
        if self.has(place):
            return True
        path = place.module.path
        seen, whole = self._seen.setdefault(path, set()), set(range(place.first, place.last + 1))
        is_long = len(whole) > SHORT
        kept = _kept(place, SHORT if is_test(path) and place.lines else LONGEST)
        if self.places and not always:
            kept -= _lengthy(place)
        room = self.left if always or not is_long else self.left // 2
        if _tokens(place, kept - seen) > room and place.definition and place.lines:
            kept = _kept(place, SHORT)  # the lines that matter, with some around
        while cut and len(kept) > FEWEST and _tokens(place, kept - seen) > room:
            kept.discard(max(kept))
        cost = _tokens(place, kept - seen)
        if cost > room and not always:
            return False
        self.left -= cost
        self.lines.setdefault(path, set()).update(kept)
        seen |= whole
        self.places.append(place)
        return True

    def excerpts(self) -> list[Excerpt]:
        """Tests first, else in the order of the best place in each."""
        order = {id(place): at for at, place in enumerate(self.places)}
        found: list[tuple[int, Excerpt]] = []
        for path in self.lines:
            here = sorted((place for place in self.places if place.module.path == path), key=lambda each: each.first)
            for group in _touching(here):
                found.append((min(order[id(place)] for place in group), _excerpt(group, self.lines[path])))
        return [excerpt for _, excerpt in sorted(found, key=lambda each: (not is_test(each[1].path), each[0]))]


def _tokens(place: Place, lines: set[int]) -> int:
    text = "\n".join(place.module.lines[line - 1] for line in sorted(lines))
    return estimate_tokens(_title([place]) + text) + TITLE


def _kept(place: Place, longest: int) -> set[int]:
    """All its lines, or of a long one its beginning, its end and those around the ones that matter."""
    if place.last - place.first < longest:
        return set(range(place.first, place.last + 1))
    keep = set(range(place.first, place.first + HEAD)) | {place.last}
    for line in place.lines:
        keep |= set(range(max(place.first, line - MARGIN), min(place.last, line + MARGIN) + 1))
    return set(sorted(keep)[:LONGEST])


def _lengthy(place: Place) -> set[int]:
    """The lines of a docstring beyond its beginning."""
    if place.definition is None or not place.definition.docstring:
        return set()
    node = place.definition.node.body[0]
    return set(range(node.lineno + DOCUMENTED, node.end_lineno or node.lineno))


def _touching(places: Iterable[Place]) -> list[list[Place]]:
    """Places of one file, in their order, of which only blank lines lie between those of one group."""
    groups: list[list[Place]] = []
    for place in places:
        last = max((each.last for each in groups[-1]), default=0) if groups else 0
        between = place.module.lines[last : place.first - 1]
        if groups and not any(line.strip() for line in between):
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _excerpt(group: list[Place], kept: set[int]) -> Excerpt:
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
    """The lines of a function that fit: its head, then those that are nearest to the wanted ones (from 0); gaps are marked."""
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


def _title(group: list[Place]) -> str:
    by_reason: dict[str, list[str]] = {}
    for place in group:
        by_reason.setdefault(place.why, []).extend([f"`{place.name}`"] if place.name else [])
    told = "; ".join(", ".join([*dict.fromkeys(names), why]) for why, names in by_reason.items())
    return f"{group[0].module.path}, lines {group[0].first}-{max(place.last for place in group)} ({told})"
