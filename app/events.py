"""The timeline of an attempt as it is kept: which of the engine's events are stored, and how they are written and read.

Knows no database; `app/store` keeps what this room encodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from agent.events import AnyEvent, Ended

_LARGE = 200_000  # bytes of an event
_LONGEST = 20_000  # characters of one text of a large event
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


@dataclass(frozen=True, slots=True)
class Stored:
    """One entry of a timeline. `sequence` counts from 1 without gaps within an attempt."""

    sequence: int
    at: datetime
    event: AnyEvent


def is_kept(event: AnyEvent) -> bool:
    """The end is written once, by the one who ends the attempt."""
    return not isinstance(event, Ended)


def encode(event: AnyEvent) -> str:
    """The event as JSON, of a size that everybody can read.

    Its texts are bounded where they are made; one that is not is cut here. U+0000 is dropped: PostgreSQL's text cannot hold it.
    """
    body = msgspec.json.encode(event)
    if len(body) > _LARGE:
        body = msgspec.json.encode(_cut(msgspec.to_builtins(event)))
    return body.decode().replace("\\u0000", "")


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]}… ({len(value):,} characters; the rest was not kept)"
    if isinstance(value, list):
        return [_cut(each) for each in value]
    return {name: _cut(each) for name, each in value.items()} if isinstance(value, dict) else value


def decode(body: str) -> AnyEvent:
    return _decoder.decode(body)
