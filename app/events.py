"""The timeline of an attempt as it is kept: which of the engine's events are stored, and how they are written and read.

Knows no database; `app/store` keeps what this room encodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from agent.events import AnyEvent, Ended

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
    """The event as JSON. U+0000 is dropped: PostgreSQL's text cannot hold it."""
    return msgspec.json.encode(event).decode().replace("\\u0000", "")


def decode(body: str) -> AnyEvent:
    return _decoder.decode(body)
