"""Selects the code that a prompt shows: the code around the failure, most relevant first, within a token limit.

The failing test and suspicious functions are shown whole, with what they use. If a diagnosis names locations, these come first
and little else is shown. No line appears twice.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from agent.contract.verdicts import Failure, Frame
from agent.diagnosis.evidence import UNSURE
from agent.prompts.failures import red
from agent.prompts.passages import LONGEST, Excerpt, Location, Passages, Sources, imports, nearest, widened
from agent.prompts.ranking import called, similarities, suspects
from agent.prompts.surroundings import surroundings
from agent.proposer import Situation
from agent.source.languages import blocks, family, likeness, relatives
from agent.source.outline import Module
from agent.source.test_files import is_test
from agent.source.test_parts import named, parts_of, used_by

TESTS, SUSPECTS, LESSONS, OTHERS = 3, 16, 4, 20
RELATED = 4  # files of one test
FILES_ALIKE, ALIKE = 3, 6  # files, and functions in them, that are named like the failing test
BEFORE_TESTS = 2  # number of first locations that come before the failing tests after the first
FOREMOST = 8  # number of first locations that are cut if they do not fit whole
AROUND = 5  # 1/5 of the tokens is for what the shown code uses
BESIDE = 4  # 1/4 of the tokens is for other code if the diagnosis is sure of its locations
LITERAL = 40  # characters of a string in the failing test that points at lines of the code
LITERALS = 50  # that are looked for
POINTED = 3  # lines of a function with the same string: more of them tell nothing
HELPER = 6  # test helpers with more lines are reduced to their signature
SET_UP, LONGEST_SET_UP = 8, 700  # 1/8 of the tokens is for what prepares the failing test; characters of one function
_PRINTED = re.compile(r'File "([^"\n]+)", line (\d{1,9}), in ([\w<>]+)')
_PLACE = re.compile(r"[\w./-]+\.(?:pyi?|[cm]?[jt]sx?|go|rs|java|kt)(?:::[\w.]+\w|:\d+)")


@dataclass(frozen=True, slots=True)
class View:
    """The code to show, and the functions that are only named."""

    excerpts: list[Excerpt]
    shown: frozenset[str]  # functions and constants, "path::Class.method"
    others: tuple[str, ...] = ()  # suspicious functions that did not fit, best first, in the same format


async def view(situation: Situation, tokens: int) -> View:
    """About `tokens` of code, the diagnosis' locations first. Includes the first failing test and the likeliest function."""
    sources = Sources(situation.sandbox.base)
    failing = red(situation)
    tests = await _tests(failing, sources)
    frames = await _frames(failing, sources)
    raised = [place for place in frames if not is_test(place.module.path)]
    leading, is_sure = await _leading(situation, sources)
    sure = [*leading, *raised, *await _named(_places(situation.lessons), "changed by an earlier try", sources)]
    likely, common = await suspects(situation, sources, tests, sure)
    likely = likely or await _imported(tests, sources)
    if all(is_test(place.module.path) for place in [*sure, *likely]):
        likely += await _alike(tests, sources)
    related = await _related([test for test in tests if family(test.module.path)], sources)
    passages, literals = Passages(tokens - tokens // AROUND), _literals(tests)
    for place in [*tests[:1], *(_pointed(place, literals) for place in leading)]:
        passages.add(place, always=True)
    if leading and is_sure:
        passages.left = min(passages.left, tokens // BESIDE)
    for place in _helpers(frames, tests):
        passages.add(place)
    spare = max(0, passages.left - tokens // SET_UP)
    passages.left -= spare
    for place in await _set_up(tests[:1], sources):
        passages.add(place)
    passages.left += spare
    code = [_pointed(place, literals) for place in [*sure, *likely[:SUSPECTS], *related]]
    for at, place in enumerate(code[:BEFORE_TESTS]):
        passages.add(place, always=not leading and at == 0, cut=True)
    for place in tests[1:TESTS]:
        passages.add(place)
    for at, place in enumerate(code[BEFORE_TESTS:], BEFORE_TESTS):
        passages.add(place, cut=at < FOREMOST)
    found = await _with_surroundings(passages, sources, max(passages.left, 0) + tokens // AROUND)
    others = _names([place for place in [*sure, *likely, *common] if place.definition and not passages.has(place)])
    return View(found, frozenset(passages.names), tuple(others)[:OTHERS])


async def _leading(situation: Situation, sources: Sources) -> tuple[list[Location], bool]:
    """The locations that come first, and whether little else is needed."""
    known = situation.diagnosis
    if known is None:
        return [], False
    return await _named(known.places, "the suspected cause", sources), known.confidence >= UNSURE


async def _with_surroundings(passages: Passages, sources: Sources, left: int) -> list[Excerpt]:
    """The locations as text, the first of each file followed by what it uses, within `left` tokens; first, the imports of the
    first file."""
    found = passages.excerpts()
    code = [place for place in passages.places if not is_test(place.module.path)]
    block = imports(code[0].module) if code else None
    for excerpt in [*([block] if block else []), *await surroundings(code, passages.lines, sources)]:
        fits = _cut(excerpt, left)
        if fits.text:
            left -= fits.tokens
            same = [at for at, each in enumerate(found) if each.path == excerpt.path]
            found.insert(same[0] + 1 if same else len(found), fits)
    return found


def _names(places: Sequence[Location]) -> list[str]:
    return list(dict.fromkeys(f"{place.module.path}::{place.name}" for place in places if place.name))


def _helpers(frames: Sequence[Location], tests: Sequence[Location]) -> list[Location]:
    """Helpers of the failing tests in their tracebacks: short ones whole, others by their signature."""
    failing = {(test.module.path, test.name) for test in tests}
    found = []
    for place in frames:
        if is_test(place.module.path) and place.definition and (place.module.path, place.name) not in failing:
            is_short = place.last - place.first < HELPER
            found.append(place if is_short else replace(place, last=max(place.first, place.definition.node.body[0].lineno - 1)))
    return found


async def _set_up(tests: Sequence[Location], sources: Sources) -> list[Location]:
    """The short fixtures and set-up methods that failing tests use, from their files and the `conftest.py` around them."""
    found = []
    for test in tests:
        parts = parts_of("\n".join(test.module.lines)) if test.definition else []
        if (own := named(parts, test.name)) is None:
            continue
        used = [(test.module, each) for each in used_by(parts, [own]) if each.runs_unasked or own.arguments & {*each.names}]
        missing = own.arguments - {name for part in parts for name in part.names}
        for folder in PurePosixPath(test.module.path).parents if missing else ():
            if (shared := await sources.get(str(folder / "conftest.py"))) is not None:
                used += [(shared, each) for each in parts_of("\n".join(shared.lines)) if missing & {*each.names}]
        for module, each in used:
            definition = module.around(each.node.lineno)
            if len(each.source) <= LONGEST_SET_UP and definition is not None and not definition.is_class:
                found.append(Location(module, each.first, each.last, "prepares the failing test", definition))
    return found


def _cut(excerpt: Excerpt, tokens: int) -> Excerpt:
    """Its first lines, as many as fit."""
    kept = excerpt.text.split("\n")
    while kept and replace(excerpt, text="\n".join(kept)).tokens > tokens:
        kept.pop()
    return replace(excerpt, text="\n".join(kept))


async def at(situation: Situation, places: Sequence[str], tokens: int) -> tuple[View, tuple[str, ...]]:
    """The code at "path::Class.method", "path::CONSTANT" and "path:line", of a long class first the beginnings of its methods;
    and a sentence about each of `places` that is not shown."""
    sources = Sources(situation.sandbox.base)
    found = [(name, place) for name in places if (place := await sources.find(name, "asked for")) is not None]
    found.sort(key=lambda each: each[1].last - each[1].first)  # each has an equal share, and what shorter ones leave
    block = imports(found[0][1].module) if found else None
    passages = Passages(tokens - (block.tokens if block else 0))
    missing = [f"{name} is not shown: there is no such code." for name in places if name not in dict(found)]
    for waiting, (name, place) in zip(range(len(found), 0, -1), found, strict=True):
        spare = passages.left - passages.left // waiting
        passages.left -= spare
        if not passages.add(_outlined(place), cut=True, whole=True):
            missing.append(f"{name} is not shown: no room is left.")
        passages.left += spare
    left = max(passages.left, 0) + (block.tokens if block else 0)
    return View(await _with_surroundings(passages, sources, left), frozenset(passages.names)), tuple(missing)


def _outlined(place: Location) -> Location:
    """A class with the beginnings of its methods as the lines that matter most."""
    if place.definition is None or not place.definition.is_class:
        return place
    inside = (each.first for each in place.module.definitions if each.name.startswith(f"{place.name}."))
    return replace(place, lines=(place.first, *inside))


async def failing_tests(situation: Situation, characters: int) -> str:
    """The code of the failing tests: the first (cut around its failing line if too long), and others that fit whole."""
    code = ""
    for place in await _tests(red(situation), Sources(situation.sandbox.base)):
        text = place.module.text(place.first, place.last)
        if not code:
            lines, wanted = text.splitlines(), [line - place.first for line in place.lines]
            code = text if len(text) <= characters else "\n".join(nearest(lines, wanted, characters))
        elif len(code) + len(text) + 2 <= characters:
            code += f"\n\n{text}"
    return code


async def _tests(failing: tuple[Failure, ...], sources: Sources) -> list[Location]:
    """The failing tests, whole, each once."""
    found: dict[tuple[str, int], Location] = {}
    for failure in failing[:20]:
        path, _, rest = str(failure.id).partition("::")
        if not rest:  # for unittest's dotted names, findings and steps
            path = next((frame.path for frame in _traced(failure) if is_test(frame.path)), path)
            if path.endswith(".py"):
                for place in await _in_frames(failure, sources):
                    found.setdefault((place.module.path, place.first), place)
                continue
        module = await sources.get(path) if path.endswith(".py") or family(path) else None
        if module is None:
            continue
        if not path.endswith(".py"):
            place = _in_another_language(module, rest, failure)
            found.setdefault((path, place.first), place)
            continue
        definition = module.named(rest.partition("[")[0].replace("::", "."))
        line = next((frame.line for frame in failure.frames if frame.path == path), None)  # the outermost
        definition = definition or (module.around(line) if line else None)
        if definition is not None and not definition.is_class:
            at = tuple(one for one in (line,) if one and definition.first <= one <= definition.last)
            place = Location(module, definition.first, definition.last, "the failing test", definition, at)
            found.setdefault((path, definition.first), place)
    return list(found.values())


def _literals(tests: Sequence[Location]) -> tuple[str, ...]:
    """The short strings in the first failing test, such as options and keys."""
    nodes = [node for test in tests[:1] if test.definition for node in ast.walk(test.definition.node)]
    found = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return tuple(dict.fromkeys(text for text in found if 1 < len(text) <= LITERAL))[:LITERALS]


def _pointed(place: Location, literals: Sequence[str]) -> Location:
    """A function with the lines that contain the failing test's strings among those that matter."""
    if place.definition is None or place.definition.is_class:
        return place
    code = list(enumerate(place.module.lines[place.first - 1 : place.last], place.first))
    found = ([at for at, line in code if f"'{each}'" in line or f'"{each}"' in line] for each in literals)
    lines = dict.fromkeys([*place.lines, *(at for each in found if len(each) <= POINTED for at in each)])
    return replace(place, lines=tuple(lines))


async def _in_frames(failure: Failure, sources: Sources) -> list[Location]:
    """The tests in a failure's tracebacks; else the outermost function of a test file in them."""
    found: dict[tuple[str, int], Location] = {}
    for frame in _traced(failure):
        module = await sources.get(frame.path) if is_test(frame.path) and frame.path.endswith(".py") else None
        definition = module.around(frame.line) if module else None
        if module is not None and definition is not None and not definition.is_class:
            place = Location(module, definition.first, definition.last, "the failing test", definition, (frame.line,))
            found.setdefault((frame.path, definition.first), place)
    tests = [place for place in found.values() if place.name.rpartition(".")[2].startswith("test")]
    return tests or list(found.values())[:1]


def _traced(failure: Failure) -> tuple[Frame, ...]:
    """Its frames with functions, if there are any: lines of the output that name only a place can be warnings."""
    return tuple(frame for frame in failure.frames if frame.function) or failure.frames


def _in_another_language(module: Module, name: str, failure: Failure) -> Location:
    """The failing line with context, else the line with the test's name: other languages have no outline."""
    lines = [frame.line for frame in failure.frames if frame.path == module.path and 0 < frame.line <= len(module.lines)]
    title = re.split(r" > |::", name)[-1]
    line = lines[-1] if lines else next((at for at, text in enumerate(module.lines, 1) if title and title in text), 1)
    return replace(widened(module, (line,), None, "the failing test"), lines=(line,))


def _places(lessons: tuple[str, ...]) -> tuple[str, ...]:
    """The locations that lessons name, without tests, latest first."""
    found = dict.fromkeys(place for lesson in reversed(lessons) for place in _PLACE.findall(lesson))
    return tuple(place for place in found if not is_test(place.partition(":")[0]))[:LESSONS]


async def _named(places: tuple[str, ...], why: str, sources: Sources) -> list[Location]:
    return [place for name in places if (place := await sources.find(name, why)) is not None]


async def _frames(failing: tuple[Failure, ...], sources: Sources) -> list[Location]:
    """The lines of the tracebacks, innermost first; those of one function together."""
    places: dict[tuple[str, int, int], Location] = {}
    for failure in failing[:TESTS]:
        frames = _traced(failure)
        if all(is_test(frame.path) for frame in frames):
            frames += await _printed(failure, sources)
        for frame in reversed(frames[-8:]):
            if (module := await sources.get(frame.path)) is not None:
                place = widened(module, (frame.line,), module.around(frame.line), "in a traceback")
                known = places.setdefault((frame.path, place.first, place.last), place)
                if frame.line not in known.lines:
                    places[frame.path, place.first, place.last] = replace(known, lines=(*known.lines, frame.line))
    return list(places.values())


async def _printed(failure: Failure, sources: Sources) -> tuple[Frame, ...]:
    """The frames of tracebacks in a failure's text, such as those of a program that a test starts."""
    paths, found = await sources.paths(), []
    for path, line, function in _PRINTED.findall(f"{failure.message}\n{failure.details}"):
        parts = path.split("/")
        known = next((end for at in range(len(parts)) if (end := "/".join(parts[at:])) in paths), None)
        module = await sources.get(known) if known else None
        if known and module and 0 < int(line) <= len(module.lines):
            found.append(Frame(known, int(line), function))
    return tuple(dict.fromkeys(found))


async def _related(tests: list[Location], sources: Sources) -> list[Location]:
    """For languages other than Python: parts of the files under test, those most similar to the tests first."""
    found: dict[str, list[Location]] = {}
    for test in tests:
        wanted = test.module.text(test.first, test.last)
        for path in relatives(test.module.path, "\n".join(test.module.lines), await sources.paths())[:RELATED]:
            if path not in found and (module := await sources.get(path)) is not None:
                parts = [Location(module, *part, "related to the failing test") for part in blocks("\n".join(module.lines))]
                found[path] = sorted(parts, key=lambda part: -likeness(wanted, part.module.text(part.first, part.last)))
    return [part for parts in found.values() for part in parts]


async def _imported(tests: list[Location], sources: Sources) -> list[Location]:
    """If nothing is suspicious: the definitions that the failing tests use from the modules they import."""
    places, named = [], called(tests)
    for test in tests[:TESTS]:
        for name, part in test.module.imports():
            module = await sources.of_module(f"{name}.{part}" if part else name) or await sources.of_module(name)
            for definition in module.definitions if module else ():
                assert module is not None
                if definition.name in named and definition.last - definition.first < LONGEST:
                    places.append(Location(module, definition.first, definition.last, "named by the failing test", definition))
    return places


async def _alike(tests: list[Location], sources: Sources) -> list[Location]:
    """Functions that share words with a test that reaches no known code, as it starts a program, and with its path."""
    if not tests:
        return []
    test = " ".join([tests[0].module.path, *_literals(tests)])  # a program's path can be among them
    paths = sorted(path for path in await sources.paths() if path.endswith(".py") and not is_test(path))
    near = sorted(zip(similarities(test, paths), paths, strict=True), key=lambda each: -each[0])[:FILES_ALIKE]
    modules = [module for close, path in near if close and (module := await sources.get(path)) is not None]
    found = [(module, each) for module in modules for each in module.definitions if not each.is_class]
    close = similarities(f"{test} {tests[0].name}", [f"{module.path} {each.name}" for module, each in found])
    ranked = sorted(zip(close, found, strict=True), key=lambda each: -each[0])[:ALIKE]
    return [Location(module, each.first, each.last, "named like the failing test", each) for _, (module, each) in ranked]
