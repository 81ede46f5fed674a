"""Receipts: what was proven about a repair, as JSON.

A receipt stands in the text of the pull request, encoded in a comment so that no bot obeys a word of it, and readable in a
check run on its head. `selfheal verify` reads it to repeat the same proof. It claims, and proves nothing by itself.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

import msgspec

from agent.contract.outcome import CheckEvidence, Repair
from agent.edits.changes import digest
from app.publish.markdown import Quoter

VERSION = 1
_SIZES = ((20, 20), (10, 5), (5, 1), (1, 0))  # checks, and ids of each, tried in turn until the receipt is small enough
_JOBS = 5
_LARGEST = 6_000  # bytes
_HIDDEN = re.compile(r"<!-- selfheal:receipt ([A-Za-z0-9+/=]+) -->")


class FailedJob(msgspec.Struct, frozen=True):
    workflow: str  # path
    name: str  # as GitHub shows it
    step: str = ""  # that failed, as GitHub shows it


class ProvenCheck(msgspec.Struct, frozen=True):
    check: str
    command: str
    failing: tuple[str, ...]  # ids that failed at the base and pass with the repair; the first ones
    failing_count: int
    passing_count: int  # with the repair


class Receipt(msgspec.Struct, frozen=True):
    selfheal: int  # version of this format
    attempt: str
    base: str  # sha of the commit that was repaired
    good: str  # sha of the last good commit; "" if it was not known
    repair: str  # digest of the edits, see `agent.edits.changes.digest`
    rung: str
    confidence: float
    environment: str
    jobs: tuple[FailedJob, ...]
    checks: tuple[ProvenCheck, ...]


def of(repair: Repair, quote: Quoter, *, attempt: str, base: str, good: str, jobs: Sequence[FailedJob]) -> Receipt:
    """The receipt, without secrets in its texts."""
    iterations = repair.log.iterations
    receipt = Receipt(
        selfheal=VERSION,
        attempt=attempt,
        base=base,
        good=quote.clean(good, 64),
        repair=digest(repair.edits),
        rung=quote.clean(iterations[-1].rung, 100) if iterations else "",
        confidence=round(repair.confidence, 3),
        environment=quote.clean(repair.evidence.environment, 300),
        jobs=tuple(FailedJob(*(quote.clean(text, 200) for text in msgspec.structs.astuple(job))) for job in jobs[:_JOBS]),
        checks=(),
    )
    for checks, ids in _SIZES:
        proven = tuple(_proven(check, quote, ids) for check in repair.evidence.checks[:checks])
        receipt = msgspec.structs.replace(receipt, checks=proven)
        if len(msgspec.json.encode(receipt)) <= _LARGEST:
            break
    return receipt


def _proven(check: CheckEvidence, quote: Quoter, ids: int) -> ProvenCheck:
    return ProvenCheck(
        quote.clean(check.check, 100),
        quote.clean(check.command, 400),
        tuple(quoted(id_, quote) for id_ in check.target[:ids]),
        len(check.target),
        check.with_green,
    )


def quoted(id_: str, quote: Quoter) -> str:
    """An id as receipts have it."""
    return quote.clean(id_, 300)


def hidden(receipt: Receipt) -> str:
    """A comment in Markdown."""
    return f"<!-- selfheal:receipt {base64.b64encode(msgspec.json.encode(receipt)).decode()} -->"


def readable(receipt: Receipt) -> str:
    """JSON for people, not yet safe as Markdown."""
    return msgspec.json.format(msgspec.json.encode(receipt).decode(), indent=1)


def read(body: str) -> Receipt | None:
    """The receipt in the text of a pull request, or None."""
    found = _HIDDEN.search(body)
    try:
        receipt = msgspec.json.decode(base64.b64decode(found[1]), type=Receipt) if found is not None else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return receipt if receipt is not None and receipt.selfheal == VERSION else None
