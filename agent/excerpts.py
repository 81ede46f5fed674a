"""What a model is shown of a repository: the code around what fails, best first, within a number of tokens.

The failing test whole, the suspicious functions whole, then what they call and who calls them as signatures. Never the whole
repository, and no line twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent.failing import red
from agent.model import estimate_tokens
from agent.places import MARGIN, Place, Sources, widened
from agent.proposers.base import Situation
from agent.suspicion import suspects
from agent.task import Failure
from agent.testfiles import is_test

LONGEST = 160  # lines of one excerpt
TESTS, SUSPECTS, CALLERS, LESSONS = 3, 16, 4, 4
HELPER = 30  # lines of a function, up to which it is shown whole as long as there is room
_PLACE = re.compile(r"[\w./-]+\.pyi?(?:::[\w.]+\w|:\d+)")


@dataclass(frozen=True, slots=True)
class Excerpt:
    path: str
    title: str  # "pkg/a.py, lines 10-24 (`parse`, in the traceback of 3 failing tests)"
    text: str

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.title + self.text) + 8


@dataclass
class _Shown:
    """Excerpts within a number of tokens, and which lines they hold."""

    left: int
    excerpts: list[Excerpt] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    lines: dict[str, set[int]] = field(default_factory=dict)

    def add(self, place: Place, *, always: bool = False) -> None:
        here = self.lines.setdefault(place.module.path, set())
        wanted = set(range(place.first, place.last + 1))
        if 2 * len(wanted & here) > len(wanted):
            return
        excerpt, is_long = _excerpt(place), place.last - place.first >= HELPER
        if excerpt.tokens > (self.left if always or not is_long else self.left // 2) and place.definition and place.lines:
            excerpt = _excerpt(place, HELPER)  # the lines that matter, with some around
        if excerpt.tokens > self.left and not always:
            return
        self.left -= excerpt.tokens
        here |= wanted
        self.places.append(place)
        self.excerpts.append(excerpt)


async def excerpts(situation: Situation, tokens: int) -> list[Excerpt]:
    """About `tokens` of code; the first failing test and the likeliest function are there however long they are."""
    sources = Sources(situation.sandbox.base)
    failing = red(situation)
    tests = await _tests(failing, sources)
    called = _called(tests)
    frames = await _frames(failing, sources)
    sure = [place for place in frames if not is_test(place.module.path)]
    if situation.diagnosis is not None:
        sure = [*await _named(situation.diagnosis.places, "where the cause is believed to be", sources), *sure]
    sure += await _named(_places(situation.lessons), "changed by an earlier try", sources)
    likely = await suspects(situation, sources, called, sure) or await _imported(tests, called, sources)
    around = tokens // 6  # kept back for what the functions use: constants and signatures
    shown = _Shown(tokens - around)
    for place in tests[:1]:
        shown.add(place, always=True)
    for place in frames:
        if is_test(place.module.path) and place.last - place.first < HELPER:
            shown.add(place)
    for at, place in enumerate([*sure, *likely[:SUSPECTS]]):
        shown.add(place, always=at == 0)
    for place in [*tests[1:TESTS], *frames]:
        shown.add(place)
    shown.excerpts.sort(key=lambda excerpt: not is_test(excerpt.path))
    shown.left = max(0, shown.left) + around
    for excerpt in await _around(shown, tests, sources):
        fits = _cut(excerpt, shown.left)
        if fits.text:
            shown.left -= fits.tokens
            shown.excerpts.append(fits)
    return shown.excerpts


def _cut(excerpt: Excerpt, tokens: int) -> Excerpt:
    """The first of its lines, as many as fit."""
    kept = excerpt.text.split("\n")
    while kept and replace(excerpt, text="\n".join(kept)).tokens > tokens:
        kept.pop()
    return replace(excerpt, text="\n".join(kept))


async def at(situation: Situation, places: Sequence[str], tokens: int) -> list[Excerpt]:
    """What "path::Class.method" and "path:line" point at, as far as it is there and fits."""
    shown = _Shown(tokens)
    for place in await _named(tuple(places), "asked for", Sources(situation.sandbox.base)):
        shown.add(place)
    return shown.excerpts


async def failing_tests(situation: Situation, characters: int) -> str:
    """The code of the tests that fail: the first, at line ends if it is too long, and the others that fit whole."""
    told = ""
    for place in await _tests(red(situation), Sources(situation.sandbox.base)):
        text = place.module.text(place.first, place.last)
        if not told:
            told = text if len(text) <= characters else text[:characters].rpartition("\n")[0] + "\n…"
        elif len(told) + len(text) + 2 <= characters:
            told += f"\n\n{text}"
    return told


async def _tests(failing: tuple[Failure, ...], sources: Sources) -> list[Place]:
    """The tests that fail, whole, each once."""
    found: dict[tuple[str, int], Place] = {}
    for failure in failing[:20]:
        path, _, rest = str(failure.id).partition("::")
        if not rest:  # unittest's dotted names, findings, steps
            path = next((frame.path for frame in failure.frames if is_test(frame.path)), path)
        module = await sources.get(path) if path.endswith(".py") else None
        if module is None:
            continue
        definition = module.named(rest.partition("[")[0].replace("::", ".")) if rest else None
        line = next((frame.line for frame in failure.frames if frame.path == path), None)
        definition = definition or (module.around(line) if line else None)
        if definition is not None and not definition.is_class:
            found.setdefault(
                (path, definition.first), Place(module, definition.first, definition.last, "the failing test", definition)
            )
    return list(found.values())


def _called(tests: list[Place]) -> frozenset[str]:
    """The names in the failing tests, and in the helpers beside them that they use."""
    names = {name for test in tests if test.definition for name in test.definition.mentions}
    helpers = [each for test in tests[:1] for each in test.module.definitions if each.name in names]
    return frozenset(names.union(*(helper.mentions for helper in helpers)))


def _places(lessons: tuple[str, ...]) -> tuple[str, ...]:
    """What the lessons name beside tests, the latest first."""
    found = dict.fromkeys(place for lesson in reversed(lessons) for place in _PLACE.findall(lesson))
    return tuple(place for place in found if not is_test(place.partition(":")[0]))[:LESSONS]


async def _named(places: tuple[str, ...], why: str, sources: Sources) -> list[Place]:
    return [place for told in places if (place := await sources.named(told, why)) is not None]


async def _frames(failing: tuple[Failure, ...], sources: Sources) -> list[Place]:
    """The lines of the tracebacks, innermost first."""
    places = []
    for failure in failing[:TESTS]:
        for frame in reversed(failure.frames[-8:]):
            if (module := await sources.get(frame.path)) is not None:
                places.append(widened(module, (frame.line,), module.around(frame.line), "in a traceback"))
    return places


async def _imported(tests: list[Place], called: frozenset[str], sources: Sources) -> list[Place]:
    """Where nothing is suspicious: what the failing tests name of the modules that they import."""
    places = []
    for test in tests[:TESTS]:
        for name, part in test.module.imports():
            module = await sources.of_module(f"{name}.{part}" if part else name) or await sources.of_module(name)
            for definition in module.definitions if module else ():
                assert module is not None
                if definition.name in called and definition.last - definition.first < LONGEST:
                    places.append(Place(module, definition.first, definition.last, "named by the failing test", definition))
    return places


def _excerpt(place: Place, longest: int = LONGEST) -> Excerpt:
    name = f"`{place.definition.name}`, " if place.definition else ""
    title = f"{place.module.path}, lines {place.first}-{place.last} ({name}{place.why})"
    if place.last - place.first < longest:
        return Excerpt(place.module.path, title, place.module.text(place.first, place.last))
    keep = set(range(place.first, place.first + 6)) | {place.last}
    for line in place.lines:
        keep |= set(range(max(place.first, line - MARGIN), min(place.last, line + MARGIN) + 1))
    out, previous = [], place.first - 1
    for line in sorted(keep)[:LONGEST]:
        if line != previous + 1:
            out.append(f"[… lines {previous + 1}-{line - 1} are not shown …]")
        out.append(place.module.lines[line - 1])
        previous = line
    return Excerpt(place.module.path, title, "\n".join(out))


async def _around(shown: _Shown, tests: list[Place], sources: Sources) -> list[Excerpt]:
    """Signatures, constants and imports that the shown code uses, and the lines that call the likeliest function."""
    code = [place for place in shown.places if place.definition and not is_test(place.module.path)]
    names = frozenset(name for place in code for name in place.definition.mentions)  # type: ignore[union-attr]
    hidden = frozenset(place.definition.name for place in code if place.definition)
    out = []
    for module in dict.fromkeys(place.module for place in code):
        related = module.related(names, hidden)
        for name, part in module.imports():
            if part in names and (other := await sources.of_module(name)) is not None and other is not module:
                related += [f"{signature}  # in {other.path}" for signature in other.related(frozenset({part}), hidden)]
        if related:
            out.append(
                Excerpt(
                    module.path, f"What {module.path} has besides (constants and signatures)", "\n".join(dict.fromkeys(related))
                )
            )
    for place in code[:2]:
        if called := _callers(place, sources, shown):
            assert place.definition is not None
            out.append(Excerpt(place.module.path, f"Who calls `{place.definition.name}`", "\n".join(called)))
    return out


def _callers(place: Place, sources: Sources, shown: _Shown) -> list[str]:
    assert place.definition is not None
    own = place.definition.name.rpartition(".")[2]
    found = []
    for module in sources.read():
        for number, line in enumerate(module.lines, 1):
            is_seen = number in shown.lines.get(module.path, ())
            if f"{own}(" in line and not is_seen and f"def {own}(" not in line and not own.startswith("__"):
                found.append(f"{module.path}:{number}: {line.strip()[:160]}")
    return found[:CALLERS]
