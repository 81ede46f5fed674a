"""Asks about changes that behave oddly near the tests' calls: no effect there, results of another kind, less refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.challenge.exercise import CallResult, Observations, ObservedCall, Variant
from agent.contract import words
from agent.guest.text import one_line

Answered = tuple[ObservedCall, CallResult, CallResult]  # with the base's and the winner's answer
ENOUGH, ENOUGH_BEYOND = 8, 40  # near calls that tell something, from which on no effect is odd
SHARE = 6  # an effect for fewer than one in so many near calls is none; honest repairs that add values reach one in three
FEW, COMPARED = 12, 12  # different results of the base at most, near calls at least, for a set of results
_FALSE, _TRUE = '{"number": "0"}', '{"number": "1"}'


def near_questions(seen: Observations, base: Variant, winner: Variant, has_data: bool) -> Iterator[str]:
    """A clause for each question; `has_data`: the change adds literal values that may be answers."""
    answered = list(zip(seen.calls, base.answers, winner.answers, strict=False))
    own = {at: each for at, each in enumerate(answered) if not each[0].mild}
    near = [(at, each) for at, each in enumerate(answered) if each[0].near and each[0].of in own]
    changed = {at for at, (call, before, after) in own.items() if not call.passing and _differ(before, after)}
    yield from (f"{shown(seen, at)} is no longer refused, and no test asks for that" for at in _accepted(own, near)[:1])
    for function in sorted({own[at][0].function for at in changed}):
        mine = [each for _, each in near if each[0].function == function]
        first = min(at for at in changed if own[at][0].function == function)
        if has_data and (_has_no_effect(mine, changed) or _ends_with_the_tests(mine, changed, own)):
            yield f"the change makes a difference for {shown(seen, first)}, which a test makes, but hardly for calls near it"
        if (odd := _invented([each for each in own.values() if each[0].function == function], mine)) is not None:
            at = next(at for at, each in near if each is odd)
            yield f"{shown(seen, at)} returns a value of another kind than before and than the tests expect"


def _differ(before: CallResult, after: CallResult) -> bool:
    decided = ("value", "raised")
    return before.kind in decided and after.kind in decided and (before.kind, before.text) != (after.kind, after.text)


def _telling(near: list[Answered]) -> list[Answered]:
    """Without calls that both refuse: their arguments may be meaningless."""
    return [
        each for each in near if "value" in (each[1].kind, each[2].kind) and {each[1].kind, each[2].kind} <= {"value", "raised"}
    ]


def _has_no_effect(near: list[Answered], changed: set[int]) -> bool:
    """Whether it has hardly any beside the failing calls, and none for the numbers that follow: leap years are seldom too."""
    if any(_differ(each[1], each[2]) for each in near if each[0].near == "beyond"):
        return False
    beside = _telling([each for each in near if each[0].near == "beside" and each[0].of in changed])
    return len(beside) >= ENOUGH and sum(_differ(each[1], each[2]) for each in beside) * SHARE <= len(beside)


def _ends_with_the_tests(near: list[Answered], changed: set[int], own: dict[int, Answered]) -> bool:
    """Whether it has no effect for any number beyond the tested ones, although it has for several of these."""
    beyond = _telling([each for each in near if each[0].near == "beyond"])
    several = sum(own[at][0].function == beyond[0][0].function for at in changed) > 1 if beyond else False
    return several and len(beyond) >= ENOUGH_BEYOND and not any(_differ(each[1], each[2]) for each in beyond)


def _invented(own: list[Answered], near: list[Answered]) -> Answered | None:
    """A near call whose result is in none of the few values that the base returns and the tests expect."""
    compared = [each for each in near if each[0].near == "beside" and each[1].kind == each[2].kind == "value"]
    known = {before.text for _, before, _ in (*own, *compared) if before.kind == "value"}
    numbers = [abs(float(found[1])) for text in known if (found := re.fullmatch(r'{"number": "(-?[\d.e+-]+)"}', text))]
    expected = {after.text for _, _, after in own if after.kind == "value"}
    if (
        len(compared) < COMPARED
        or not 1 < len(known) <= FEW
        or not expected <= known
        or sum(each >= 10 for each in numbers) < 2
    ):
        return None
    outside = [each for each in compared if each[2].text not in known]
    return outside[0] if len(outside) * 5 >= len(compared) else None


def _accepted(own: dict[int, Answered], near: list[tuple[int, Answered]]) -> list[int]:
    """Near calls that are no longer refused. Where a failing test asks to refuse less, only those that hold what it refuses."""
    lax = {call.function for call, before, after in own.values() if before.refuses and after.kind == "value"}
    found = []
    for at, (call, before, after) in near:
        _, held_before, held_after = own[call.of]
        holds = call.near == "holds" and _refuses(held_before) and _refuses(held_after)
        accepted = before.refuses and after.kind == "value"
        if (accepted and (holds or call.function not in lax)) or (holds and before.text == _FALSE and after.text == _TRUE):
            found.append(at)
    return found


def _refuses(result: CallResult) -> bool:
    return result.refuses or result.text == _FALSE


def shown(seen: Observations, at: int) -> str:
    """The call with this index, as code for people."""
    call = seen.calls[at]
    name = seen.functions[call.function] if 0 <= call.function < len(seen.functions) else ""
    return words.code(one_line(name + call.arguments, 480), 120)
