"""Flaky failures: which conditions to try, and what their runs say about the cause. Pure.

Every trial fixes all conditions, so a failing trial can be repeated. Removing one condition at a time then finds the one that
matters (delta debugging, https://www.debuggingbook.org).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from agent.contract import words
from agent.contract.outcome import Chance, Flakiness
from agent.contract.verdicts import Conditions, VerdictId
from agent.guest.observe.conditions import ordered

EAST, WEST = "<+14>-14", "<-12>12"  # the earliest and the latest time zone, in POSIX notation
OTHERS = 3  # other seeds that must fail too before a seed counts as irrelevant
SURE = 0.05  # accepted chance that a series of runs misses a flaky failure
SERIES = (3, 10)  # least and most runs that a repair of a flaky failure must pass
FIXED = 5  # most runs if it fails every time under known conditions

# Only messages of an unreachable network: a refused connection may concern a server of the tests themselves.
_NETWORK = re.compile(
    r"gaierror|NameResolutionError|Temporary failure in name resolution|Name or service not known|nodename nor servname|"
    r"Could not resolve host|Failed to resolve|Network is unreachable|No route to host|\bENOTFOUND\b|\bEAI_AGAIN\b"
)
_CONCURRENT = re.compile(
    r"\b(?:threading|asyncio|multiprocessing|concurrent\.futures|ThreadPool\w*|ProcessPool\w*|anyio|trio|gevent|_thread)\b"
)
_CLOCK = re.compile(
    r"\b(?:datetime|date)\.(?:now|utcnow|today)\b|\btimezone\.(?:now|localtime)\b|\butcnow\(|"
    r"\btime\.(?:time|time_ns|monotonic|perf_counter|localtime|gmtime|ctime|strftime)\b|\bperf_counter\(|"
    r"\bDate\.now\b|\bnew Date\(\)"
)
_CHANCE = re.compile(r"\b(?:uuid[14]|urandom|SystemRandom|getrandbits|token_(?:hex|bytes|urlsafe))\b|\bsecrets\.")

_CAUSES: Mapping[str, Chance] = MappingProxyType(
    {"shuffle": "order", "clock": "time", "timezone": "time", "hash_seed": "randomness", "seed": "randomness"}
)


def trials(seed: int | None, clock: datetime | None, now: datetime) -> Iterator[Conditions]:
    """The conditions to try, likeliest first; `seed` and `clock` are those of the run in CI, if known.

    Two orders and their reverses run any two tests in both orders.
    """
    if seed is not None or clock is not None:
        yield Conditions(hash_seed=1, seed=1 if seed is None else seed, clock=None if clock is None else clock.timestamp())
    yield Conditions(shuffle=1, hash_seed=2, seed=2)
    yield Conditions(shuffle=-1, hash_seed=3, seed=3)
    late = (clock or now).astimezone(UTC).replace(hour=23, minute=30, second=0, microsecond=0)
    yield Conditions(hash_seed=4, seed=4, clock=late.timestamp(), timezone="UTC0")
    yield Conditions(shuffle=2, hash_seed=5, seed=5, timezone=EAST)
    yield Conditions(shuffle=-2, hash_seed=6, seed=6, timezone=WEST)
    for number in range(7, 13):
        yield Conditions(hash_seed=number, seed=number)


def varied(under: Conditions) -> tuple[str, ...]:
    """The fixed conditions, in the order in which to remove them."""
    return tuple(
        name for name in ("clock", "timezone", "shuffle", "hash_seed", "seed") if getattr(under, name) not in (None, "")
    )


def without(under: Conditions, name: str) -> Conditions:
    gone: dict[str, Any] = {name: "" if name == "timezone" else None}
    return replace(under, **gone)


def alternatives(under: Conditions, name: str) -> tuple[Conditions, ...]:
    """Variants with one condition changed: if all of them fail too, that condition does not matter."""
    if name in ("hash_seed", "seed"):
        value = getattr(under, name)
        return tuple(replace(under, **{name: value + more}) for more in range(1, OTHERS + 1))
    return (without(under, name),)


def cause_of(under: Conditions) -> Chance:
    """The cause of a failure that needs all these conditions; the test order comes first."""
    needed = varied(under)
    return next((cause for name, cause in _CAUSES.items() if name in needed), "unknown")


def by_signs(texts: Iterable[str]) -> tuple[Chance, str]:
    """The cause that tracebacks and the code in them suggest if no condition explains the failure, and the evidence."""
    whole = "\n".join(texts)
    for cause, sign, what in (
        ("network", _NETWORK, "its traceback mentions the network"),
        ("concurrency", _CONCURRENT, "the code in its traceback uses threads, tasks or processes"),
        ("time", _CLOCK, "the code in its traceback reads the clock"),
        ("randomness", _CHANCE, "the code in its traceback uses randomness that no seed fixes"),
    ):
        if found := sign.search(whole):
            return cause, f"{what} ({words.code(found.group(), 60)})"  # type: ignore[return-value]
    return "unknown", ""


def mentions_network(text: str) -> str:
    """The text that shows an unreachable network, or ""."""
    found = _NETWORK.search(text)
    return found.group() if found else ""


def in_words(under: Conditions) -> str:
    """The fixed conditions as a clause: "in shuffled order 3, with PYTHONHASHSEED=1"."""
    parts = []
    if under.shuffle is not None:
        parts.append(f"in shuffled order {under.shuffle}")
    if under.hash_seed is not None:
        parts.append(f"with PYTHONHASHSEED={under.hash_seed}")
    if under.seed is not None:
        parts.append(f"with random seed {under.seed}")
    if under.clock is not None:
        parts.append(f"with the clock at {datetime.fromtimestamp(under.clock, UTC):%Y-%m-%d %H:%M} UTC")
    if under.timezone:
        parts.append({EAST: "in the time zone UTC+14", WEST: "in the time zone UTC-12"}.get(under.timezone, "in UTC"))
    return ", ".join(parts) or "without fixed conditions"


def before(ids: Iterable[VerdictId], one: VerdictId, shuffle: int) -> list[VerdictId]:
    """The tests before `one` in that shuffled order, the nearest last."""
    order = [VerdictId(id_) for id_ in ordered(ids, shuffle)]
    return order[: order.index(one)] if one in order else []


def same_file(ids: Iterable[VerdictId], one: VerdictId) -> list[VerdictId]:
    def file(id_: str) -> str:
        return id_.partition("::")[0] if "::" in id_ else id_.rpartition(".")[0].rpartition(".")[0]

    return [id_ for id_ in ids if file(id_) == file(one)]


def reported_in(reported: Iterable[str], ids: Iterable[VerdictId]) -> frozenset[VerdictId]:
    """The ids that CI's log names; its paths may be relative to a subfolder."""
    names = set(reported)
    return frozenset(id_ for id_ in ids if id_ in names or any(id_.endswith(f"/{name}") for name in names))


def series(found: Flakiness, affordable: int) -> tuple[Conditions, ...]:
    """The runs that a repair of a flaky failure must pass; the failure occurred in at least one run like these.

    If known conditions make it fail every time, the series has those and similar ones; otherwise enough runs to make luck
    unlikely.
    """
    fewest, most = SERIES[0], max(SERIES[0], min(SERIES[1], affordable))
    if not found.under:
        share = min(0.95, found.red / max(1, found.runs))
        return (Conditions(),) * max(fewest, min(most, math.ceil(math.log(SURE) / math.log(1 - share)) if share else most))
    first = found.under[0]
    others = []
    for more in range(1, min(FIXED, most)):
        changed = {name: getattr(first, name) + more for name in ("hash_seed", "seed") if getattr(first, name) is not None}
        if first.shuffle is not None:
            changed["shuffle"] = -first.shuffle if more == 1 else first.shuffle + more * (1 if first.shuffle > 0 else -1)
        if first.clock is not None and not changed:
            changed["clock"] = first.clock + timedelta(days=more).total_seconds()
        others.append(replace(first, **changed))
    return tuple(dict.fromkeys([*found.under, *others]))
