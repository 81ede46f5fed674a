"""Ranks the functions to show: by suspiciousness, by similarity to the failing test's words, and by being reachable from code
that certainly matters.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agent.contract.proposal import Span
from agent.prompts.failures import red
from agent.prompts.passages import Location, Sources, widened
from agent.proposer import Situation
from agent.reproduce.localization import SPANS
from agent.source.callees import hands_on, made, maker, operated, reached
from agent.source.outline import Definition, Module
from agent.source.test_files import is_test

BY_NAME, BY_COMMENT, CALLED = 1.0, 0.5, 0.2  # added for similarity to the failing test's name, comments; for a call in it
BARE = 0.15  # subtracted for a function that only calls another or returns an attribute
REACHED = (0.4, 0.25)  # added, by hops, for being reachable from tracebacks, named locations and the likeliest suspects
STARTS = 2  # suspects whose calls are followed
COMMON = 0.25  # suspiciousness below which a function must be reachable to be shown
FEWEST = 3  # functions that are always kept
SHORT = 30  # functions up to this many lines are shown instead of those inside
IMPORTED = 12  # imported modules that are read

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_STOP_WORDS = frozenset(
    {"test", "testing", "py", "src", "lib", "a", "the", "of", "in", "on", "is", "not", "and", "with", "self", "init"}
)

At = tuple[str, int]  # path, first line


@dataclass
class _Suspect:
    module: Module
    definition: Definition | None
    spans: list[Span]
    why: str
    rank: float = 0.0
    is_common: bool = False

    @property
    def name(self) -> str:
        return self.definition.name if self.definition else ""

    def location(self) -> Location:
        best = max((span.score for span in self.spans), default=0.0)
        lines = tuple(line for span in self.spans if span.score == best for line in (span.first_line, span.last_line))
        return widened(self.module, lines or (self.definition.first if self.definition else 1,), self.definition, self.why)


def called(tests: Sequence[Location]) -> frozenset[str]:
    """The names in the failing tests and in the helpers of the first one; operators as their methods."""
    names = {name for test in tests if test.definition for name in test.definition.mentions}
    helpers = [each for test in tests[:1] for each in test.module.definitions if each.name in names]
    return frozenset(names.union(*(helper.mentions for helper in helpers), _operators(tests)))


def _operators(tests: Sequence[Location]) -> set[str]:
    """ "Class.__setitem__" for instances that the failing tests create and use with operators."""
    found = set()
    for test in tests:
        if test.definition is not None:
            known = made(test.definition.node)
            found |= {f"{name}.{method}" for value, method in operated(test.definition.node) if (name := maker(value, known))}
    return found


async def suspects(
    situation: Situation, sources: Sources, tests: Sequence[Location], sure: Sequence[Location]
) -> tuple[list[Location], list[Location]]:
    """Functions, most relevant first; and those that are not worth showing, since many passing tests run them too.

    `tests` are the failing ones, `sure` the locations that are shown anyway: functions reachable from them come before those
    that merely run in failing tests.
    """
    found = await _traced(situation, sources)
    words = _words_of(situation, tests)
    _rank(found, words)
    ranked = sorted(found.values(), key=lambda each: -each.rank)
    starts = [(place.module, place.definition) for place in sure if place.definition and not is_test(place.module.path)]
    starts += [(each.module, each.definition) for each in ranked[:STARTS] if each.definition and not each.definition.is_class]
    await _read_imports({module.path: module for module, _ in starts}, sources)
    modules = [module for module in sources.read() if not is_test(module.path)]
    # If every executed line is known, code that no failing test runs is not at fault.
    is_all = 0 < len(situation.suspects) < SPANS and any("runs in" in span.reason for span in situation.suspects)
    reachable: dict[At, int] = {}
    for at, ((module, definition), hop) in reached(starts, modules, len(REACHED)).items():
        if at in found or not is_all:
            reachable[at] = hop
            found.setdefault(at, _Suspect(module, definition, [], "called by shown code"))
    _rank(found, words)
    for at, hop in reachable.items():
        if (known := found[at].definition) is not None and not hands_on(known):  # its target is shown instead
            found[at].rank += REACHED[hop - 1]
            found[at].is_common = False
    ranked = sorted(found.values(), key=lambda each: -each.rank)
    likely = [each for at, each in enumerate(ranked) if at < FEWEST or not each.is_common]
    return [each.location() for each in likely], [each.location() for each in ranked[FEWEST:] if each.is_common]


async def _traced(situation: Situation, sources: Sources) -> dict[At, _Suspect]:
    found: dict[At, _Suspect] = {}
    for span in situation.suspects:
        module = await sources.get(span.path)
        if module is not None:
            definition = _outermost(module, module.around(span.first_line, span.last_line))
            at = (span.path, definition.first if definition else span.first_line)
            found.setdefault(at, _Suspect(module, definition, [], span.reason)).spans.append(span)
    # Module-level lines tell less than functions, which are shown with the constants that they use.
    if any(_is_function(each) for each in found.values()):
        for at, each in list(found.items()):
            if not _is_function(each) and not any("traceback" in span.reason for span in each.spans):
                del found[at]
    return found


def _outermost(module: Module, definition: Definition | None) -> Definition | None:
    """The outermost short function around a function, with which it is shown; else the definition itself."""
    if definition is None or definition.is_class:
        return definition
    holding = [
        each
        for each in module.definitions
        if definition.name.startswith(f"{each.name}.") and not each.is_class and each.last - each.first < SHORT
    ]
    return min(holding, key=lambda each: each.first, default=definition)


def _is_function(suspect: _Suspect) -> bool:
    return suspect.definition is not None and not suspect.definition.is_class


def _words_of(situation: Situation, tests: Sequence[Location]) -> tuple[str, str, frozenset[str]]:
    """The words of the failing test: its name, its comments, and the names in it."""
    name = next((str(failure.id).partition("[")[0] for failure in red(situation)), "")
    lines = [line for test in tests[:1] for line in test.module.lines[test.first - 1 : test.last]]
    remarks = [line.partition("#")[2] for line in lines if line.lstrip().startswith("#")]
    remarks += [test.definition.docstring for test in tests[:1] if test.definition]
    return name, " ".join(remarks), called(tests)


def _rank(found: dict[At, _Suspect], words: tuple[str, str, frozenset[str]]) -> None:
    """With few traced tests, many functions are equally suspicious: those named by the failing test's name, comments or code
    come first."""
    test_name, remarks, in_test = words
    names = [f"{path} {each.name}" for (path, _), each in found.items()]
    by_name, by_remarks = similarities(test_name, names), similarities(remarks, names)
    for each, close, mentioned in zip(found.values(), by_name, by_remarks, strict=True):
        score = max((span.score for span in each.spans), default=0.0)
        is_called = each.definition is not None and bool({each.name, each.name.rpartition(".")[2]} & in_test)
        is_bare = each.definition is not None and hands_on(each.definition)
        each.rank = score + BY_NAME * close + BY_COMMENT * mentioned + CALLED * is_called - BARE * is_bare
        each.is_common = score < COMMON and not is_called and close < REACHED[0]


async def _read_imports(modules: dict[str, Module], sources: Sources) -> None:
    names = dict.fromkeys(name for module in modules.values() for name, part in module.imports() if name or part)
    for name in list(names)[: 4 * IMPORTED]:
        if len(sources.read()) < 2 * IMPORTED:
            await sources.of_module(name)


def _words(name: str) -> frozenset[str]:
    """The words of a path or a qualified name, in lower case, singular."""
    found = (word.lower() for word in _WORD.findall(name))
    return frozenset(word.removesuffix("s") if len(word) > 3 else word for word in found) - _STOP_WORDS


def similarities(test: str, locations: Sequence[str]) -> list[float]:
    """For each location ("path name"), the weighted share, 0..1, of the test's words that it contains.

    Words shared by many locations count less (inverse document frequency).
    """
    names = [_words(each) for each in locations]
    seen = Counter(word for each in names for word in each)
    weight = {word: math.log((len(locations) + 1) / seen[word]) for word in _words(test) if seen[word]}
    total = sum(weight.values())
    return [sum(weight.get(word, 0.0) for word in each) / total if total else 0.0 for each in names]
