"""The timeline of an attempt as it is kept: which of the engine's events are stored, and how they are written and read.

Knows no database; `app/store` keeps what this room encodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from agent.events import AnyEvent, Ended
from app.text import storable

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
    return as_json(event)


def as_json(value: object) -> str:
    """What msgspec packs, as JSON without U+0000 and halves of surrogate pairs: they cannot be kept and shown everywhere."""
    with suppress(UnicodeEncodeError):
        packed = msgspec.json.encode(value).decode()
        if "\\u0000" not in packed:
            return packed
    return msgspec.json.encode(_whole(msgspec.to_builtins(value))).decode()


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {_whole(name): _whole(each) for name, each in value.items()}
    return [_whole(each) for each in value] if isinstance(value, list | tuple) else value


def decode(body: str) -> AnyEvent:
    return _decoder.decode(body)
