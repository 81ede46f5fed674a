"""What playing with a change tells against it: an objection, or doubts. Pure; `play` says what was seen.

Only a stated contract counts against a repair that is green: an example in a docstring which comes out otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent import words
from agent.challenge.play import Example, Played, Variant


@dataclass(frozen=True, slots=True)
class Challenged:
    """What the second oracle found of the winner; `confidence` reads it. `objection` is a clause, or empty."""

    objection: str = ""
    doubts: tuple[str, ...] = ()
    examples: int = 0  # in docstrings, that hold with the change
    asked: bool = False  # whether there was anything to play with


def judge(played: Played) -> Challenged:
    """The first change of `played` is the winner's."""
    base, winner = [*played.variants, None, None][:2]
    if base is None or winner is None:
        return Challenged()
    kept = [example for example in winner.examples if example.outcome == "kept"]
    return Challenged(objection=_contradiction(base, winner), examples=len(kept), asked=bool(kept or winner.answers))


def _contradiction(base: Variant, winner: Variant) -> str:
    """An example that does not hold, as a clause; the one that held before goes first."""
    before = {(e.function, e.source): e for e in base.examples}
    broken = [example for example in winner.examples if example.outcome == "broken"]
    if not broken:
        return ""
    broken.sort(
        key=lambda example: (known := before.get((example.function, example.source))) is None or known.outcome != "kept"
    )
    more = f", and {words.counted(len(broken) - 1, 'other example')} is not kept" if len(broken) == 2 else ""
    more = f", and {len(broken) - 1} other examples are not kept" if len(broken) > 2 else more
    return _clause(broken[0]) + more


def _clause(example: Example) -> str:
    name, call, got = words.code(example.function, 80), words.code(example.source, 120), words.code(example.got, 80)
    return f"the docstring of {name} has the example {call}, which comes out as {got}"
