"""Turns the observations of `exercise` into an objection or doubts. Pure.

Only a stated contract can reject a passing repair: a docstring example with another result. Measured on HumanEvalFix (even
half, each half of the tests once as oracle; up to ten plausible changes a task), that rejects 102 of 165 changes that the
held-out tests find wrong, and 2 of 419 that they find right (lines with a plain `=` counted then too; three of the tasks have
nothing else). Weaker signs (new exceptions, rivals that disagree) and rare ones (hints, changed arguments) are doubts.
People are asked about what knows that it is tested, and about another value for a call that a passing test makes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agent.challenge.beyond import by_heart, near_questions
from agent.challenge.exercise import CallResult, ExampleResult, Observations, ObservedCall, Variant
from agent.contract import words
from agent.contract.outcome import UNDECIDED
from agent.guest.text import one_line

_DIFFERS = "differs"  # the kind of difference that a test would have to ask for
UNSETTLED = 0.1  # a doubt if the winner differs from most plausible changes on more than this share of the calls
FEWEST_NEAR = 3  # calls that no test makes and for which a rival gives the same results, to behave the same


@dataclass(frozen=True, slots=True)
class Challenged:
    """The second oracle's findings about the winner; `confidence` uses them. `objection` is a clause, or empty."""

    objection: str = ""
    doubts: tuple[str, ...] = ()  # a clause each
    kept: int = 0  # docstring examples, and tests from the specification, that pass with the change
    compared: int = 0  # calls whose results with other changes were compared
    unlike: int = 0  # rivals that give another result for one of these calls
    alike: tuple[str, ...] = ()  # digests of those that give the same results
    neighbours: int = 0  # mutations of the change itself that were tried
    passing: int = 0  # how many of them pass the same tests
    undecided: int = 0  # how many of these give another result for one of the calls
    variants: tuple[str, ...] = ()  # these, a clause each
    loose: str = ""  # a clause about the first of them, or of those that pass where no call could be compared
    asked: tuple[str, ...] = ()  # what people have to look at, a clause each
    by_heart: str = ""  # another one, that a test written without seeing the change answers: it may know the tests by heart
    # Examples and tests from the specification that pass and need the change, and an input that a review worked through.
    witnesses: int = 0
    tests_due: bool = False  # a model was to write tests from the specification, and none of them needs the change

    @property
    def questions(self) -> tuple[str, ...]:
        return (*self.asked, *([self.by_heart] if self.by_heart else []))


def judge(seen: Observations, rivals: int | None = None, *, has_data: bool = False, is_mutation: bool = False) -> Challenged:
    """The first change is the winner, the next ones are its `rivals` (None: all others). `has_data`: it adds literal values;
    `is_mutation`: our own search made it, so it cannot know that it is tested."""
    base, winner = [*seen.variants, None, None][:2]
    if base is None or winner is None:
        return Challenged()
    kept = sum(example.outcome == "kept" for example in winner.examples)
    broken = {(each.function, each.source) for each in base.examples if each.outcome == "broken"}
    turned = sum(each.outcome == "kept" and (each.function, each.source) in broken for each in winner.examples)
    objecting, doubtful = _contradictions(base, winner, seen.functions)
    known = [variant for variant in seen.variants[2 : None if rivals is None else 2 + rivals] if variant is not None]
    differences = dict(_differences(seen, base, winner))
    other_value = differences.pop(_DIFFERS, "")
    doubts = [
        *_described(doubtful),
        *_withdrawn(winner),
        *differences.values(),
        *_disagreement(seen.calls, winner, known),
    ]
    unlike = sum(_unlike(winner, variant) is not None for variant in known)
    compared = sum(answer.is_decided for answer in winner.answers)
    against = next(iter([*_described(objecting), *_agreeing(seen, base, winner)]), "")
    knowing = () if is_mutation else _elsewhere(seen)
    asked = (*knowing, *([other_value] if other_value else []), *near_questions(seen, base, winner))
    heart = by_heart(seen, base, winner) if has_data else ""
    return Challenged(against, tuple(doubts), kept, compared, unlike, asked=asked, by_heart=heart, witnesses=turned)


def _agreeing(seen: Observations, base: Variant, winner: Variant) -> list[str]:
    """Results that equal other values too, as those of the base do not; the first of them."""
    for at, (before, after) in enumerate(itertools.zip_longest(base.answers, winner.answers)):
        if after is not None and after.agrees and not (before is not None and before.agrees):
            return [f"{seen.shown(seen.calls[at])} returns something that also equals other values"]
    return []


def _elsewhere(seen: Observations) -> list[str]:
    """Calls that are answered differently, or not at all, outside of a test run; the first of them."""
    if seen.silent == "change":
        return ["its functions cannot be called outside of a test run, although they could before"]
    known = [at for at in seen.elsewhere if 0 <= at < len(seen.calls)]
    return [f"{seen.shown(seen.calls[known[0]])} returns something else outside of a test run"] if known else []


def with_neighbours(found: Challenged, seen: Observations, first: int, tried: int, titles: Sequence[str]) -> Challenged:
    """Adds what is known about the mutations of the winner: of `tried` ones, those with these titles pass the same tests.

    The first of them are among the variants, from the index `first`.
    """
    winner, variants = [*seen.variants, None, None][1], seen.variants[first:]
    unlike = tuple(
        f"{title}, {_otherwise(seen.shown(seen.calls[at]), winner.answers[at], variant.answers[at])}"
        for title, variant in zip(titles, variants, strict=False)
        if winner is not None and variant is not None and (at := _unlike(winner, variant)) is not None
    )
    found = with_variants(replace(found, neighbours=tried, passing=len(titles)), unlike)
    return replace(found, loose=_loose(titles[0])) if titles and not (found.compared or unlike) else found


def with_variants(found: Challenged, unlike: tuple[str, ...]) -> Challenged:
    """With these mutations of the winner as the ones that pass the same tests and behave differently."""
    return replace(found, undecided=len(unlike), variants=unlike, loose=_loose(unlike[0]) if unlike else "")


def _otherwise(call: str, mine: CallResult, other: CallResult) -> str:
    """How a call ends with a variant, and with the change itself."""
    ours, theirs = _end(mine), _end(other)
    if not (ours and theirs) or ours == theirs:  # it cannot be told in a few words
        return f"which makes a difference for {call}"
    return f"with which {call} {theirs}, while with this change it {ours}"


def _end(result: CallResult) -> str:
    """A clause without a subject; "" for a value that is not plain."""
    if result.kind == "raised":
        return f"raises {_code(result.text, 60)}"
    return f"gives {_code(result.shown, 60)}" if result.shown else ""


def _loose(variant: str) -> str:
    return f"{UNDECIDED}: they also pass if {variant}"


def alike(seen: Observations, rivals: Sequence[str]) -> tuple[str, ...]:
    """Those of the rivals (the changes after the winner) with the same results, if enough of the calls are made by no test."""
    winner = [*seen.variants, None, None][1]
    if winner is None:
        return ()
    results = [(answer.kind, answer.text) for answer in winner.answers]
    near = sum(call.mild and answer.is_decided for call, answer in zip(seen.calls, winner.answers, strict=False))
    pairs = zip(rivals, seen.variants[2:], strict=False)
    known = ((name, variant) for name, variant in pairs if variant is not None and near >= FEWEST_NEAR)
    return tuple(name for name, variant in known if [(answer.kind, answer.text) for answer in variant.answers] == results)


def _unlike(winner: Variant, other: Variant) -> int | None:
    """The index of the first call that gives another result; None if there is none."""
    pairs = enumerate(zip(winner.answers, other.answers, strict=False))
    return next((at for at, (one, two) in pairs if one.differs(two)), None)


def objections(seen: Observations) -> list[str]:
    """The objection to each change, the winner first: a clause, or empty."""
    base = seen.variants[0] if seen.variants else None
    if base is None:
        return []
    clauses = [
        _described(_contradictions(base, variant, seen.functions)[0]) if variant is not None else []
        for variant in seen.variants[1:]
    ]
    return [next(iter(each), "") for each in clauses]


def _contradictions(base: Variant, winner: Variant, touched: Sequence[str]) -> tuple[list[ExampleResult], list[ExampleResult]]:
    """The broken examples that count (first those that passed before), and those that only raise a doubt.

    An example of an untouched function that gives the same as before may just be outdated.
    """
    before = {(e.function, e.source): e.outcome for e in base.examples}
    same = {(e.function, e.source, e.got) for e in base.examples if e.function not in touched}
    living = {example.function for example in winner.examples if example.outcome == "kept"}
    failing = [example for example in winner.examples if example.outcome in ("broken", "unlike", "overruled")]
    regressed = [e for e in failing if before.get((e.function, e.source)) == "kept" and e.outcome != "overruled"]
    # A docstring is outdated if tests contradict it, or if none of its examples passes.
    stale = {example.function for example in failing if example.outcome == "overruled"}
    others = [e for e in failing if e not in regressed and not e.withdrawn]
    counting = [e for e in others if e.function not in stale and (e.function, e.source, e.got) not in same]
    still_broken = [e for e in counting if e.outcome == "broken" or e.function in living]
    return [*regressed, *still_broken], [e for e in others if e not in still_broken]


def _withdrawn(winner: Variant) -> Iterator[str]:
    """Examples that the change removes although no test contradicts them; one clause for all."""
    gone = [example for example in winner.examples if example.withdrawn and example.outcome != "overruled"]
    if gone:
        more = f", and {words.counted(len(gone) - 1, 'other example')}" if len(gone) > 1 else ""
        name, call = _code(gone[0].function, 80), _code(gone[0].source, 120)
        yield f"it removes or rewrites the example {call} in the docstring of {name}{more}"


def _described(broken: Sequence[ExampleResult]) -> list[str]:
    """One clause for all broken examples; none without any."""
    if not broken:
        return []
    first, others = broken[0], len(broken) - 1
    name, call, got = _code(first.function, 80), _code(first.source, 120), _code(first.got, 80)
    more = f", and {words.counted(others, 'other example')} {'fails' if others == 1 else 'fail'} too" if others else ""
    return [f"the docstring of {name} has the example {call}, which gives {got}{more}"]


def _differences(seen: Observations, base: Variant, winner: Variant) -> Iterator[tuple[str, str]]:
    """Differences from the old code in calls of passing tests, or similar ones: kind and clause, the first of each kind."""
    kinds: set[str] = set()
    for call, before, after in zip(seen.calls, base.answers, winner.answers, strict=False):
        if not call.passing or before.kind != "value":
            continue
        kind, clause = _difference(call, before, after)
        if kind and kind not in kinds:
            kinds.add(kind)
            yield kind, f"{seen.shown(call)} {clause}"


def _difference(call: ObservedCall, before: CallResult, after: CallResult) -> tuple[str, str]:
    """The kind of difference and a clause without a subject, or two empty texts.

    A call that hangs only with the change is no difference: a slow machine causes that too.
    """
    if after.kind == "raised":
        return "raises", f"raises {_code(after.text, 60)}, which it did not before"
    if after.kind == "unsteady":
        return "unsteady", "returns a different value each time, which it did not before"
    if after.mutates and not before.mutates:
        return "mutates", "changes its arguments, which it did not before"
    if after.fits is False and before.fits:
        return "hint", "returns a value that contradicts its type hint"
    if not call.mild and after.kind == "value" and after.text != before.text:
        if call.is_internal:
            return "internal", "returns a different value than before, although it is called in a passing test"
        return _DIFFERS, "returns a different value than before, although a passing test makes this call"
    return "", ""


def _disagreement(calls: Sequence[ObservedCall], winner: Variant, rivals: Sequence[Variant]) -> Iterator[str]:
    """A doubt if most of the other plausible changes give different results."""
    variants, compared, unlike = [winner, *rivals], 0, list[int]()
    for at, mine in enumerate(winner.answers):
        known = [(v.answers[at].kind, v.answers[at].text) for v in variants if at < len(v.answers)]
        (most, count), *_ = Counter(known).most_common(1)
        if len(known) > 1:
            compared += 1
            if count > 1 and most != (mine.kind, mine.text):
                unlike.append(at)
    if compared and len(unlike) / compared > UNSETTLED:
        first = calls[unlike[0]].arguments if unlike[0] < len(calls) else ""
        yield f"most other changes that pass the same tests give different results, for example for {_code(first, 120)}"


def _code(text: str, limit: int) -> str:
    """Possibly hostile text as a code span."""
    return words.code(one_line(text, 4 * limit), limit)
