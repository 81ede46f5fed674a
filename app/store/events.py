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

from agent.contract.events import Answered, AnyEvent, Ended
from app.store.text import storable

_LARGE = 200_000  # bytes of an event
_LONGEST = 20_000  # characters of one text of a large event
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


class Unknown(msgspec.Struct, frozen=True):
    """An event of a worker that is newer than this process, or much older: what all events have in common."""

    kind: str
    text: str = ""


_common: msgspec.json.Decoder[Unknown] = msgspec.json.Decoder(Unknown)


@dataclass(frozen=True, slots=True)
class Stored:
    """One entry of a timeline. `sequence` counts from 1 without gaps within an attempt."""

    sequence: int
    at: datetime
    event: AnyEvent | Unknown


def is_kept(event: AnyEvent) -> bool:
    """The end is written once, by the one who ends the attempt; an answer once, when it is given (`app.store.steering`)."""
    return not isinstance(event, Ended | Answered)


def encode(event: AnyEvent) -> str:
    """The event as JSON, of a size that everybody can read: texts are bounded where they are made; one that is not is cut."""
    packed = as_json(event)
    return packed if len(packed) <= _LARGE else as_json(_cut(msgspec.to_builtins(event)))


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


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]}… ({len(value):,} characters; the rest was not kept)"
    if isinstance(value, list):
        return [_cut(each) for each in value]
    return {name: _cut(each) for name, each in value.items()} if isinstance(value, dict) else value


def decode(body: str) -> AnyEvent | Unknown:
    """What was encoded, also by a process of another version: web and workers are not replaced in the same moment."""
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError:
        return _common.decode(body)
