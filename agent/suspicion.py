"""Which functions come first when code is shown: how suspicious their lines are, what the failing test's words say of them,
and whether code that certainly matters leads to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.affinity import affinities
from agent.failing import red
from agent.following import hands_on, reached
from agent.localization import SPANS
from agent.outline import Definition, Module
from agent.places import Place, Sources, widened
from agent.proposers.base import Situation
from agent.task import Span
from agent.testfiles import is_test

CLOSE, CALLED = 1.0, 0.2  # suspiciousness that the words of a failing test add, and that being called in it adds
LED = (0.4, 0.25)  # that being reached adds, by hops, from a traceback's functions, named places and the likeliest suspects
STARTS = 2  # suspects whose calls are followed
COMMON = 0.25  # suspiciousness below which a function runs in so many passing tests that it has to be reached to be shown
FEWEST = 3  # that are left however common they are
IMPORTED = 12  # modules that are read because a start imports them

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

    def place(self) -> Place:
        best = max((span.score for span in self.spans), default=0.0)
        lines = tuple(line for span in self.spans if span.score == best for line in (span.first_line, span.last_line))
        return widened(self.module, lines or (self.definition.first if self.definition else 1,), self.definition, self.why)


async def suspects(situation: Situation, sources: Sources, called: frozenset[str], sure: Sequence[Place]) -> list[Place]:
    """Functions in the order in which they deserve to be shown.

    `called` are the names in the failing test, `sure` the places that are shown anyhow: what their code leads to comes before
    what only happens to run in failing tests.
    """
    found = await _traced(situation, sources)
    _rank(found, situation, called)
    ranked = sorted(found.values(), key=lambda each: -each.rank)
    starts = [(place.module, place.definition) for place in sure if place.definition and not is_test(place.module.path)]
    starts += [(each.module, each.definition) for each in ranked[:STARTS] if each.definition and not each.definition.is_class]
    await _read_imports({module.path: module for module, _ in starts}, sources)
    modules = [module for module in sources.read() if not is_test(module.path)]
    # Where every line that runs is known, what does not run in a failing test is not at fault.
    is_all = 0 < len(situation.suspects) < SPANS and any("runs in" in span.reason for span in situation.suspects)
    led: dict[At, int] = {}
    for at, ((module, definition), hop) in reached(starts, modules, len(LED)).items():
        if at in found or not is_all:
            led[at] = hop
            found.setdefault(at, _Suspect(module, definition, [], "called by what is shown"))
    _rank(found, situation, called)
    for at, hop in led.items():
        if (known := found[at].definition) is not None and not hands_on(known):  # where it leads to is shown instead
            found[at].rank += LED[hop - 1]
            found[at].is_common = False
    ranked = sorted(found.values(), key=lambda each: -each.rank)
    return [each.place() for at, each in enumerate(ranked) if at < FEWEST or not each.is_common]


async def _traced(situation: Situation, sources: Sources) -> dict[At, _Suspect]:
    found: dict[At, _Suspect] = {}
    for span in situation.suspects:
        module = await sources.get(span.path)
        if module is not None:
            definition = module.around(span.first_line, span.last_line)
            at = (span.path, definition.first if definition else span.first_line)
            found.setdefault(at, _Suspect(module, definition, [], span.reason)).spans.append(span)
    # What runs when a module is imported says little beside its functions, which are shown with the constants that they use.
    with_functions = {at[0] for at, each in found.items() if each.definition and not each.definition.is_class}
    for at, each in list(found.items()):
        is_raised = any("traceback" in span.reason for span in each.spans)
        if (each.definition is None or each.definition.is_class) and at[0] in with_functions and not is_raised:
            del found[at]
    return found


def _rank(found: dict[At, _Suspect], situation: Situation, called: frozenset[str]) -> None:
    """Many are equally suspicious where few tests were traced: those that the failing test names, in its own name or in its
    code, come first."""
    test = next((str(failure.id).partition("[")[0] for failure in red(situation)), "")
    closeness = affinities(test, [f"{path} {each.name}" for (path, _), each in found.items()])
    for each, close in zip(found.values(), closeness, strict=True):
        score = max((span.score for span in each.spans), default=0.0)
        is_called = each.definition is not None and each.name.rpartition(".")[2] in called
        each.rank = score + CLOSE * close + CALLED * is_called
        each.is_common = score < COMMON and not is_called and close < LED[0]


async def _read_imports(modules: dict[str, Module], sources: Sources) -> None:
    names = dict.fromkeys(name for module in modules.values() for name, part in module.imports() if name or part)
    for name in list(names)[: 4 * IMPORTED]:
        if len(sources.read()) < 2 * IMPORTED:
            await sources.of_module(name)
