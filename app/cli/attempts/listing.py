"""`selfheal attempts list`, `show` and `calibration`, read from the service's database."""

from __future__ import annotations

import json as jsonlib
from collections import Counter
from statistics import fmean
from typing import Any

import msgspec
from rich.table import Table

from app.cli import terminal
from app.cli.terminal import plain
from app.clock import SystemClock
from app.settings import Settings
from app.store.store import open_store
from app.store.values import Attempt, PullRequestResult

BANDS = (0.0, 0.4, 0.6, 0.7, 0.8, 0.9)
"""Lower bounds of the confidence bands; each band ends where the next one starts, the last at 1."""
_SAME_FIELDS = (  # of an attempt and of its JSON
    *("head_sha", "head_branch", "number", "trigger", "status", "outcome", "reason", "next_step"),
    *("forked_from", "from_iteration", "model", "confidence", "tries"),
)
_LONGEST = 60  # characters of a name in a table


async def list_attempts(settings: Settings, *, repository: str | None, limit: int, json: bool) -> None:
    """Print attempts, newest first."""
    async with open_store(settings, SystemClock(), migrate=False) as store:
        attempts = await store.attempts(repository=repository, limit=limit)
    if json:
        _print_json([_as_json(attempt) for attempt in attempts])
        return
    if not attempts:
        print("No attempts yet.")  # noqa: T201 - the command's answer
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "repository", "commit", "branch", "outcome", "started by", "created", "pull request"):
        table.add_column(column, no_wrap=column in ("id", "commit", "outcome"))
    for attempt in attempts:
        table.add_row(
            attempt.id[:12],
            plain(attempt.repository.full_name),
            (attempt.head_sha or "?")[:10],
            plain(_cut(attempt.head_branch or "?")),
            attempt.outcome or attempt.status,
            plain(_cut(attempt.requests[0].title if attempt.requests else "")),
            terminal.moment(attempt.created_at),
            attempt.pull_request.url if attempt.pull_request else "",
        )
    terminal.console().print(table)


async def show_attempt(settings: Settings, attempt_id: str, *, json: bool) -> bool:
    """Print one attempt with its timeline; False unless exactly one id starts with `attempt_id`."""
    async with open_store(settings, SystemClock(), migrate=False) as store:
        found = await store.find_attempts(attempt_id)
        if len(found) != 1:
            return False
        (attempt,) = found
        timeline = await store.timeline(attempt.id)
    if json:
        events = [
            {"sequence": stored.sequence, "at": stored.at.isoformat(), **msgspec.to_builtins(stored.event)}
            for stored in timeline
        ]
        _print_json({**_as_json(attempt), "timeline": events})
        return True
    console = terminal.console()
    for name, value in _as_json(attempt).items():
        if value not in (None, "") and name != "diff":
            console.print(plain(f"{name:>14}  {value}"))
    if attempt.question is not None:
        if attempt.question.diff:
            console.print(plain(f"\n{attempt.question.diff}"))
        short_id = attempt.id[:12]
        console.print(f"\nTo answer: selfheal attempts approve {short_id}, or selfheal attempts reject {short_id} --why TEXT")
    console.print()
    for stored in timeline:
        if stored.event.text:
            console.print(plain(f"{terminal.moment(stored.at, seconds=True)}  {stored.event.text}"))
    return True


async def calibration(settings: Settings, *, repository: str | None, json: bool) -> None:
    """Print, for each confidence band, the share of pull requests that was merged."""
    async with open_store(settings, SystemClock(), migrate=False) as store:
        bands = _bands(await store.pull_request_results(repository=repository))
    if json:
        _print_json(bands)
        return
    if not any(band["count"] for band in bands):
        print("No pull requests yet.")  # noqa: T201 - the command's answer
        return
    table = Table(box=None, pad_edge=False)
    for column in ("confidence", "pull requests", "mean", "merged", "closed", "open", "share merged"):
        table.add_column(column, no_wrap=True)
    for band in bands:
        mean, share = ("" if value is None else f"{value:.0%}" for value in (band["mean"], band["share_merged"]))
        counts = (str(band[name]) for name in ("merged", "closed", "open"))
        table.add_row(f"{band['from']:.0%} to {band['to']:.0%}", str(band["count"]), mean, *counts, share)
    terminal.console().print(table)


def _bands(results: list[PullRequestResult]) -> list[dict[str, Any]]:
    """A reliability table: pull requests by confidence. The share merged is of those that were merged or closed."""
    bands = []
    for least, most in zip(BANDS, (*BANDS[1:], 1.0), strict=True):
        inside = [result for result in results if least <= result.confidence < most or (most == 1.0 == result.confidence)]
        states = Counter(result.state for result in inside)
        decided = states["merged"] + states["closed"]
        bands.append(
            {
                "from": least,
                "to": most,
                "count": len(inside),
                "mean": fmean(result.confidence for result in inside) if inside else None,
                **{state: states[state] for state in ("merged", "closed", "open")},
                "share_merged": states["merged"] / decided if decided else None,
            }
        )
    return bands


def _as_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "repository": attempt.repository.full_name,
        **{name: getattr(attempt, name) for name in _SAME_FIELDS},
        "question": attempt.question.text if attempt.question else None,
        "diff": attempt.question.diff if attempt.question else None,
        "requests": [request.title for request in attempt.requests],
        "pull_request": attempt.pull_request.url if attempt.pull_request else None,
        "tokens": attempt.usage.tokens_in + attempt.usage.tokens_out,
        "cost": attempt.usage.cost,
        "created_at": attempt.created_at.isoformat(),
        "ended_at": attempt.ended_at.isoformat() if attempt.ended_at else None,
    }


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _print_json(data: object) -> None:
    print(jsonlib.dumps(data, indent=2))  # noqa: T201 - the command's answer
