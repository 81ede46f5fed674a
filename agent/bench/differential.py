"""Compares a repair with the reference: both get the calls that the tests make, and deterministic mutations of them.

They run in separate workspaces and are compared here, so that a repair cannot copy results that it never sees. A mutation stays
within the ranges, lengths and alphabets of the tests' calls, and sorted arguments stay sorted: otherwise, a reference's result
is no contract.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from itertools import pairwise
from typing import Any

from agent.bench.lab import Changes, Lab
from agent.source import syntax
from sandbox.base import DeadlinePassed

CALLS = 300  # that are compared at most
SECONDS = 1.0  # for one call
PATIENCE = 120.0  # seconds for all calls of one side
_SEED = 20


@dataclass(frozen=True, slots=True)
class Function:
    """The function, and its calls: literal texts of (args, kwargs), or the module of the tests that make them."""

    module: str
    entry: str
    tests: str = ""
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agreement:
    """`difference` is the first call, or test, with another result, as text for people; None if there is none."""

    compared: int  # calls
    difference: str | None


async def compare(lab: Lab, function: Function, reference: Changes, repair: Changes) -> Agreement | None:
    """None if the tests make no repeatable call, or a run gives no complete result in time. Raises `SandboxError`."""
    told = {"module": function.module, "entry": function.entry}
    known = list(function.calls)
    if function.tests:
        captured = await _asked(lab, reference, {"do": "capture", "tests": function.tests, **told})
        known = [call for call in captured or [] if isinstance(call, str)]
    if not known:
        return None
    calls = [*known, *mutations(known, CALLS - len(known))]
    request = {"do": "answer", "seconds": SECONDS, **told}
    expected = await _asked(lab, reference, {**request, "calls": calls})
    if expected is None or len(expected) != len(calls):
        return None
    given = await _asked(lab, repair, {**request, "calls": calls})
    if given is None or len(given) != len(calls):
        return None
    # A call on which the reference takes too long cannot be compared.
    kept = [(call, one, two) for call, one, two in zip(calls, expected, given, strict=True) if one[0] != "hung"]
    different = next((call for call, one, two in kept if one != two and two[0] != "hung"), None)
    # A repair that takes too long, and else gives the same, is not judged: the machine may be slow.
    slow = different is None and any(two[0] == "hung" for _, _, two in kept)
    return Agreement(len(kept), different) if kept and not slow else None


async def _asked(lab: Lab, changes: Changes, request: dict[str, Any]) -> list[Any] | None:
    """The answer of the program in the sandbox; None if it did not finish or gave no valid answer."""
    source = resources.files("agent.bench").joinpath("answers.py").read_bytes()
    try:
        done = await lab.program(changes, source, json.dumps(request).encode(), PATIENCE)
    except DeadlinePassed:
        return None
    try:
        told = json.loads(done.stdout)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, list) else None


def mutations(calls: Sequence[str], count: int) -> list[str]:
    """Up to `count` more calls; the same calls always give the same mutations."""
    rng = random.Random(_SEED)  # noqa: S311 - reproducible, nothing secret
    parsed = [syntax.literal(call) for call in calls]
    seen, made = set(calls), list[str]()
    shown: dict[tuple[object, ...], _Shown] = {}
    for args, _ in parsed:
        for at, value in enumerate(args):
            _learn(shown, (at,), value)
    for _ in range(count * 4):
        if len(made) >= count:
            break
        args, kwargs = rng.choice(parsed)
        changed = list(args)
        for at in rng.sample(range(len(args)), min(len(args), rng.choice((1, 1, 2)))):
            changed[at] = _mutated(rng, shown, (at,), args[at])
        text = repr((tuple(changed), kwargs))
        if text not in seen:
            seen.add(text)
            made.append(text)
    return made


@dataclass(slots=True)
class _Shown:
    """The values and lengths that the tests' calls show at one position in the arguments."""

    values: list[Any] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)


def _learn(shown: dict[tuple[object, ...], _Shown], place: tuple[object, ...], value: Any) -> None:
    """All positions inside a container count as one: its items are of one kind."""
    here = shown.setdefault((*place, type(value)), _Shown())
    here.values.append(value)
    if isinstance(value, list | tuple | str | dict | set):
        here.lengths.append(len(value))
    for inner in _items(value):
        _learn(shown, (*place, "item"), inner)


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value


def _mutated(rng: random.Random, shown: dict[tuple[object, ...], _Shown], place: tuple[object, ...], value: Any) -> Any:
    here = shown[(*place, type(value))]
    if isinstance(value, bool) or value is None or rng.random() < 0.2:
        return rng.choice(here.values)
    if isinstance(value, int | float):
        low, high = min(here.values), max(here.values)
        drawn = rng.randint(low, high) if isinstance(value, int) else round(rng.uniform(low, high), 2)
        return min(high, max(low, rng.choice((value + 1, value - 1, drawn, drawn))))
    if isinstance(value, str):
        return "".join(_resized(rng, list(value), [char for text in here.values for char in text], here.lengths))
    if isinstance(value, list | tuple):
        inside = (*place, "item")
        items = [_mutated(rng, shown, inside, item) if rng.random() < 0.3 else item for item in value]
        items = _resized(rng, items, [item for other in here.values for item in other], here.lengths)
        return type(value)(sorted(items) if all(map(is_sorted, here.values)) else items)
    if isinstance(value, dict):
        return {key: _mutated(rng, shown, (*place, "item"), item) for key, item in value.items()}
    return value


def is_sorted(items: Sequence[Any]) -> bool:
    """Whether the items ascend. If all that the tests give do, that may be the contract."""
    try:
        return all(one <= other for one, other in pairwise(items))
    except TypeError:
        return False


def _resized(rng: random.Random, items: list[Any], pool: Sequence[Any], lengths: Sequence[int]) -> list[Any]:
    """One item removed, added, replaced or swapped; the length stays within those that the tests' calls show."""
    step = rng.choice(("less", "more", "other", "moved"))
    if step == "less" and len(items) > min(lengths):
        del items[rng.randrange(len(items))]
    elif step == "more" and pool and len(items) < max(lengths):
        items.insert(rng.randint(0, len(items)), rng.choice(pool))
    elif step == "other" and items and pool:
        items[rng.randrange(len(items))] = rng.choice(pool)
    elif len(items) > 1:
        one, other = rng.sample(range(len(items)), 2)
        items[one], items[other] = items[other], items[one]
    return items
