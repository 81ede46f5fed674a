"""What a model is shown of a repository: the code around what fails, best first, within a number of tokens.

The failing test whole, the suspicious functions whole, then what they call and who calls them as signatures. Never the whole
repository, and no line twice.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agent.affinity import affinities
from agent.edits import read_text
from agent.failing import red
from agent.model import estimate_tokens
from agent.outline import Definition, Module
from agent.proposers.base import Situation
from agent.task import Failure, Span
from agent.testfiles import is_test

MARGIN = 12  # lines around a place that lies in no function, or in one that is too long
LONGEST = 160  # lines of one excerpt
TESTS, SUSPECTS, CALLERS = 3, 12, 4
CLOSE, CALLED = 1.0, 0.2  # suspiciousness that the words of a failing test add, and that being called in it adds
HELPER = 30  # lines of a function in the traceback, up to which it is shown before what is only suspicious


@dataclass(frozen=True, slots=True)
class Excerpt:
    path: str
    title: str  # "pkg/a.py, lines 10-24 (`parse`, in the traceback of 3 failing tests)"
    text: str

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.title + self.text) + 8


@dataclass(frozen=True, slots=True)
class Place:
    module: Module
    first: int
    last: int
    why: str
    definition: Definition | None = None
    lines: tuple[int, ...] = ()  # suspicious ones, for what is too long to be shown whole


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
        excerpt = _excerpt(place)
        if excerpt.tokens > self.left and not always:
            return
        self.left -= excerpt.tokens
        here |= wanted
        self.places.append(place)
        self.excerpts.append(excerpt)


async def excerpts(situation: Situation, tokens: int) -> list[Excerpt]:
    """About `tokens` of code; the first failing test and the likeliest function are there however long they are."""
    sources = _Sources(situation)
    failing = red(situation)
    tests = await _tests(failing, sources)
    called = _called(tests)
    suspects = await _suspects(situation, sources, called) or await _imported(tests, called, sources)
    if situation.diagnosis is not None:
        suspects = [*await _named(situation.diagnosis.places, sources), *suspects]
    frames = await _frames(failing, sources)
    shown = _Shown(tokens)
    for place in tests[:1]:
        shown.add(place, always=True)
    for place in frames:
        if place.last - place.first < HELPER:
            shown.add(place)
    for at, place in enumerate([*suspects[:SUSPECTS], *frames]):
        shown.add(place, always=at == 0)
    for place in tests[1:TESTS]:
        shown.add(place)
    for excerpt in await _around(shown, tests, sources):
        if excerpt.tokens <= shown.left:
            shown.left -= excerpt.tokens
            shown.excerpts.append(excerpt)
    return shown.excerpts


async def failing_test(situation: Situation) -> Excerpt | None:
    """The first test that fails, whole."""
    tests = await _tests(red(situation), _Sources(situation))
    return _excerpt(tests[0]) if tests else None


class _Sources:
    """The repository's modules, each read once."""

    def __init__(self, situation: Situation) -> None:
        self._base = situation.sandbox.base
        self._known: dict[str, Module | None] = {}
        self._paths: frozenset[str] | None = None

    async def get(self, path: str) -> Module | None:
        if path not in self._known:
            text = await read_text(self._base, path)
            self._known[path] = await asyncio.to_thread(Module, path, text) if isinstance(text, str) else None
        return self._known[path]

    async def of_module(self, name: str) -> Module | None:
        """By its dotted name."""
        if self._paths is None:
            self._paths = frozenset(entry.path for entry in await self._base.files())
        stem = name.replace(".", "/")
        for root in ("", "src/", "lib/"):
            for end in (".py", "/__init__.py"):
                if (path := f"{root}{stem}{end}") in self._paths:
                    return await self.get(path)
        return None

    def read(self) -> list[Module]:
        return [module for module in self._known.values() if module is not None]


async def _tests(failing: tuple[Failure, ...], sources: _Sources) -> list[Place]:
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


async def _suspects(situation: Situation, sources: _Sources, called: frozenset[str]) -> list[Place]:
    """The suspicious functions, likeliest first.

    Many are equally suspicious where few tests were traced: those that the failing test names, in its own name or in its
    code, come first.
    """
    groups: dict[tuple[str, int, int], list[Span]] = {}
    found: dict[tuple[str, int, int], tuple[Module, Definition | None]] = {}
    for span in situation.suspects:
        module = await sources.get(span.path)
        if module is not None:
            definition = module.around(span.first_line, span.last_line)
            at = (span.path, definition.first if definition else span.first_line, definition.last if definition else 0)
            groups.setdefault(at, []).append(span)
            found[at] = (module, definition)
    # What runs when a module is imported says little beside its functions, which are shown with the constants that they use.
    with_functions = {at[0] for at, (_, definition) in found.items() if definition and not definition.is_class}
    for at, (_, definition) in list(found.items()):
        is_raised = any("traceback" in span.reason for span in groups[at])
        if (definition is None or definition.is_class) and at[0] in with_functions and not is_raised:
            del found[at], groups[at]
    names = {at: f"{at[0]} {definition.name if definition else ''}" for at, (_, definition) in found.items()}
    test = next((str(failure.id).partition("[")[0] for failure in red(situation)), "")
    closeness = dict(zip(names, affinities(test, list(names.values())), strict=True))
    ranked = []
    for at, spans in groups.items():
        module, definition = found[at]
        is_called = definition is not None and definition.name.rpartition(".")[2] in called
        rank = max(span.score for span in spans) + CLOSE * closeness[at] + CALLED * is_called
        lines = tuple(line for span in spans for line in (span.first_line, span.last_line))
        ranked.append((-rank, _widened(module, lines, definition, spans[0].reason)))
    return [place for _, place in sorted(ranked, key=lambda entry: entry[0])]


async def _named(places: tuple[str, ...], sources: _Sources) -> list[Place]:
    """What the diagnosis points at: "path::name" or "path:line"; what is not there is left out."""
    found = []
    for told in places:
        path, _, name = told.partition("::") if "::" in told else told.partition(":")
        module = await sources.get(path)
        if module is None:
            continue
        line = int(name) if name.isdigit() else 0
        definition = module.around(line) if line else module.named(name)
        if definition is not None or 0 < line <= len(module.lines):
            lines = (line,) if line else (definition.first,) if definition else ()
            found.append(_widened(module, lines, definition, "where the cause is believed to be"))
    return found


async def _frames(failing: tuple[Failure, ...], sources: _Sources) -> list[Place]:
    """The lines of the tracebacks, innermost first."""
    places = []
    for failure in failing[:1]:
        for frame in reversed(failure.frames[-8:]):
            if (module := await sources.get(frame.path)) is not None:
                places.append(_widened(module, (frame.line,), module.around(frame.line), "in a traceback"))
    return places


async def _imported(tests: list[Place], called: frozenset[str], sources: _Sources) -> list[Place]:
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


def _widened(module: Module, lines: tuple[int, ...], definition: Definition | None, why: str) -> Place:
    if definition is not None and not definition.is_class:
        return Place(module, definition.first, definition.last, why, definition, lines)
    first, last = max(1, min(lines) - MARGIN), min(len(module.lines), min(lines) + MARGIN)
    return Place(module, first, last, why, None, lines)


def _excerpt(place: Place) -> Excerpt:
    name = f"`{place.definition.name}`, " if place.definition else ""
    title = f"{place.module.path}, lines {place.first}-{place.last} ({name}{place.why})"
    if place.last - place.first < LONGEST:
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


async def _around(shown: _Shown, tests: list[Place], sources: _Sources) -> list[Excerpt]:
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
                Excerpt(module.path, f"What {module.path} has besides (signatures only)", "\n".join(dict.fromkeys(related)))
            )
    called = [line for place in code[:2] for line in _callers(place, sources, shown)]
    if called:
        out.append(Excerpt(code[0].module.path, "Who calls it", "\n".join(called)))
    return out


def _callers(place: Place, sources: _Sources, shown: _Shown) -> list[str]:
    assert place.definition is not None
    own = place.definition.name.rpartition(".")[2]
    found = []
    for module in sources.read():
        for number, line in enumerate(module.lines, 1):
            is_seen = number in shown.lines.get(module.path, ())
            if f"{own}(" in line and not is_seen and f"def {own}(" not in line and not own.startswith("__"):
                found.append(f"{module.path}:{number}: {line.strip()[:160]}")
    return found[:CALLERS]
