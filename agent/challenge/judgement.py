"""What playing with a change tells against it: an objection, or doubts. Pure; `play` says what was seen.

Only a stated contract counts against a repair that is green: an example in a docstring which comes out otherwise. Measured on
HumanEvalFix (even half, each half of the tests once as oracle; up to ten plausible changes a task): that rejects 102 of 165
changes which the held-out tests find wrong, and 2 of 419 which they find right (lines with a plain `=` counted then too; three
of the tasks have nothing else). What tells less (new exceptions, rivals that disagree), or hardly ever happened there (hints,
changed arguments), is a doubt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent import words
from agent.challenge.play import Answer, Call, Example, Played, Variant
from agent.guest.text import one_line

UNSETTLED = 0.1  # share of the calls that most plausible changes answer otherwise than the winner, from which it is a doubt


@dataclass(frozen=True, slots=True)
class Challenged:
    """What the second oracle found of the winner; `confidence` reads it. `objection` is a clause, or empty."""

    objection: str = ""
    doubts: tuple[str, ...] = ()  # a clause each
    kept: int = 0  # examples of docstrings, and tests from the specification, that hold with the change


def judge(played: Played) -> Challenged:
    """The first change of `played` is the winner's, the others are its rivals'."""
    base, winner = [*played.variants, None, None][:2]
    if base is None or winner is None:
        return Challenged()
    kept = sum(example.outcome == "kept" for example in winner.examples)
    objecting, doubtful = _contradictions(base, winner)
    rivals = [variant for variant in played.variants[2:] if variant is not None]
    doubts = [
        *_told(doubtful),
        *_withdrawn(winner),
        *_differences(played, base, winner),
        *_disagreement(played.calls, winner, rivals),
    ]
    return Challenged(next(iter(_told(objecting)), ""), tuple(doubts), kept)


def objections(played: Played) -> list[str]:
    """To each of the changes, the winner's first: a clause, or empty."""
    base = played.variants[0] if played.variants else None
    if base is None:
        return []
    told = [_told(_contradictions(base, variant)[0]) if variant is not None else [] for variant in played.variants[1:]]
    return [next(iter(clauses), "") for clauses in told]


def _contradictions(base: Variant, winner: Variant) -> tuple[list[Example], list[Example]]:
    """Broken examples that count, one that held before first, and those that only raise a doubt."""
    before = {(e.function, e.source): e.outcome for e in base.examples}
    living = {example.function for example in winner.examples if example.outcome == "kept"}
    failing = [example for example in winner.examples if example.outcome in ("broken", "unlike", "overruled")]
    spoilt = [e for e in failing if before.get((e.function, e.source)) == "kept" and e.outcome != "overruled"]
    # A docstring that tests contradict, or of which nothing holds, before or after, is one that nobody has kept up to date.
    stale = {example.function for example in failing if example.outcome == "overruled"}
    unspoilt = [e for e in failing if e not in spoilt and not e.withdrawn]
    counting = [e for e in unspoilt if e.function not in stale]
    unmended = [e for e in counting if e.outcome == "broken" or e.function in living]
    return [*spoilt, *unmended], [e for e in unspoilt if e not in unmended]


def _withdrawn(winner: Variant) -> Iterator[str]:
    """Examples that the change takes away although no test speaks against them; one clause for all."""
    gone = [example for example in winner.examples if example.withdrawn and example.outcome != "overruled"]
    if gone:
        more = f", and {words.counted(len(gone) - 1, 'other example')}" if len(gone) > 1 else ""
        name, call = _code(gone[0].function, 80), _code(gone[0].source, 120)
        yield f"it takes the example {call} out of the docstring of {name}, or rewrites it{more}"


def _told(broken: Sequence[Example]) -> list[str]:
    """One clause for all."""
    if not broken:
        return []
    first, others = broken[0], len(broken) - 1
    name, call, got = _code(first.function, 80), _code(first.source, 120), _code(first.got, 80)
    more = f", and {words.counted(others, 'other example')} {'fails' if others == 1 else 'fail'} too" if others else ""
    return [f"the docstring of {name} has the example {call}, which comes out as {got}{more}"]


def _differences(played: Played, base: Variant, winner: Variant) -> Iterator[str]:
    """How it behaves otherwise than the old code where passing tests call it, or near there; the first of each kind."""
    told: set[str] = set()
    for call, before, after in zip(played.calls, base.answers, winner.answers, strict=False):
        if not call.passing or before.kind != "value":
            continue
        name = played.functions[call.function] if 0 <= call.function < len(played.functions) else ""
        shown = _code(name + call.arguments, 120)
        kind, clause = _difference(call, before, after)
        if kind and kind not in told:
            told.add(kind)
            yield f"{shown} {clause}"


def _difference(call: Call, before: Answer, after: Answer) -> tuple[str, str]:
    """Its kind and a clause without a subject, or two empty texts."""
    if after.kind == "raised":
        return "raises", f"raises {_code(after.text, 60)}, which it did not before"
    if after.kind == "unsteady":
        return "unsteady", "gives another value each time, which it did not before"
    if after.mutates and not before.mutates:
        return "mutates", "changes its arguments, which it did not before"
    if after.fits is False and before.fits:
        return "hint", "gives what its type hint does not say"
    if not call.mild and after.kind == "value" and after.text != before.text:
        return "differs", "gives another value than before, although a passing test makes this call"
    return "", ""


def _disagreement(calls: Sequence[Call], winner: Variant, rivals: Sequence[Variant]) -> Iterator[str]:
    """Where most of the other plausible changes answer otherwise."""
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
        yield f"most other changes that pass the same tests answer otherwise, for {_code(first, 120)} among others"


def _code(text: str, limit: int) -> str:
    """Text from near hostile code as a code span."""
    return words.code(one_line(text, 4 * limit), limit)
