"""Asks about changes that behave oddly near the tests' calls. Pure.

Odd are new values without much effect there (answers by heart), and calls that are no longer refused: one that no test asks
for, or many where the tests ask for few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent.challenge.exercise import CallResult, NearCall, Observations, Variant

Pair = tuple[CallResult, CallResult]  # how the base and the winner answer a call
Near = Sequence[tuple[NearCall, CallResult, CallResult]]
ENOUGH, ENOUGH_BEYOND = 8, 40  # near calls from which on no effect is odd
WIDE, WIDE_SHARE = 4, 3  # so many near calls that are no longer refused, one in so many at least, are more than was asked for
SHARE = 6  # an effect for fewer than one in so many near calls is none; honest repairs that add values reach one in three


def near_questions(seen: Observations, base: Variant, winner: Variant) -> Iterator[str]:
    """A clause for each question about what is no longer refused."""
    own, near = _answered(seen, base, winner)
    lax = {seen.calls[at].function for at, pair in own.items() if _accepts(*pair)}
    if (call := _accepted(near, own, lax)) is not None:
        yield f"{seen.shown(call)} is no longer refused, and no test asks for that"
    # A function that refused all calls of tests had no measure of what to refuse.
    measured = {seen.calls[at].function for at, (before, _) in own.items() if before.kind == "value" and not before.refuses}
    for function in sorted(lax & measured):
        if (call := _opened(near, own, function)) is not None:
            yield f"{seen.shown(call)} is no longer refused, like many calls near those that still are"


def by_heart(seen: Observations, base: Variant, winner: Variant) -> str:
    """A clause about a change that adds values that may be answers: its effect ends with the tests' calls. "" if not so."""
    own, near = _answered(seen, base, winner)
    changed = [at for at, (before, after) in own.items() if before.differs(after) and not seen.calls[at].passing]
    for function in dict.fromkeys(seen.calls[at].function for at in changed):
        mine = [each for each in near if each[0].function == function]
        failing = [at for at in changed if seen.calls[at].function == function]
        if _is_by_heart(mine, failing):
            return f"the change affects {seen.shown(seen.calls[failing[0]])}, which a test calls, but hardly any call near it"
    return ""


def _answered(seen: Observations, base: Variant, winner: Variant) -> tuple[dict[int, Pair], Near]:
    """The tests' own calls and those near them, where both answers are known."""
    calls = enumerate(zip(seen.calls, base.answers, winner.answers, strict=False))
    own = {
        at: (before, after) for at, (call, before, after) in calls if not call.mild and before.is_decided and after.is_decided
    }
    answered = zip(seen.near, base.near, winner.near, strict=False)
    return own, [each for each in answered if each[0].of in own and each[1].is_decided and each[2].is_decided]


def _accepts(before: CallResult, after: CallResult) -> bool:
    return before.refuses and after.kind == "value" and not after.refuses


def _accepted(near: Near, own: Mapping[int, Pair], lax: set[int]) -> NearCall | None:
    """The first call that is no longer refused. Of a `lax` function, which is to refuse less, one with what it refuses."""
    for call, before, after in near:
        is_held = call.how == "holds" and all(one.refuses for one in own[call.of])
        if _accepts(before, after) and (is_held or call.function not in lax):
            return call
    return None


def _opened(near: Near, own: Mapping[int, Pair], function: int) -> NearCall | None:
    """The first of many calls that are no longer refused, near those that both refuse, and for the same reason."""
    refused = [
        (call, _accepts(before, after))
        for call, before, after in near
        if call.function == function and call.how == "beside"
        if before == own[call.of][0] and all(one.refuses for one in own[call.of])
    ]
    opened = [call for call, is_opened in refused if is_opened]
    beside = [call for call, _ in refused if call.of in {each.of for each in opened}]
    return opened[0] if len(opened) >= WIDE and len(opened) * WIDE_SHARE >= len(beside) else None


def _is_by_heart(near: Near, failing: Sequence[int]) -> bool:
    """Whether the effect ends with the tests: none for the numbers that follow theirs, and hardly any beside these calls.

    Calls that both refuse tell nothing: their arguments may be meaningless.
    """
    telling = [(call, before.differs(after)) for call, before, after in near if "value" in (before.kind, after.kind)]
    beyond = [differs for call, differs in telling if call.how == "beyond"]
    beside = [differs for call, differs in telling if call.how == "beside" and call.of in failing]
    ends = len(failing) > 1 and len(beyond) >= ENOUGH_BEYOND
    return not any(beyond) and (ends or (len(beside) >= ENOUGH and sum(beside) * SHARE <= len(beside)))
