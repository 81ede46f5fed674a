"""The stored timeline of an attempt: which of the engine's events are kept, and how they are encoded. Knows no database."""

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


class UnknownEvent(msgspec.Struct, frozen=True):
    """An event written by another version of Selfheal: the fields that all events share."""

    kind: str
    text: str = ""


_common: msgspec.json.Decoder[UnknownEvent] = msgspec.json.Decoder(UnknownEvent)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One entry of a timeline. `sequence` counts from 1 without gaps within an attempt."""

    sequence: int
    at: datetime
    event: AnyEvent | UnknownEvent


def is_kept(event: AnyEvent) -> bool:
    """Whether to store the engine's event. `leases.changes` itself writes `Ended` and `Answered`."""
    return not isinstance(event, Ended | Answered)


def encode(event: AnyEvent) -> str:
    """The event as JSON of bounded size; overlong texts are cut."""
    packed = as_json(event)
    return packed if len(packed) <= _LARGE else as_json(_cut(msgspec.to_builtins(event)))


def as_json(value: object) -> str:
    """JSON without U+0000 and lone surrogates, which PostgreSQL cannot store."""
    with suppress(UnicodeEncodeError):
        packed = msgspec.json.encode(value).decode()
        if "\\u0000" not in packed:
            return packed
    return msgspec.json.encode(_storable(msgspec.to_builtins(value))).decode()


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {_storable(name): _storable(each) for name, each in value.items()}
    return [_storable(each) for each in value] if isinstance(value, list | tuple) else value


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]}… ({len(value):,} characters; cut)"
    if isinstance(value, list):
        return [_cut(each) for each in value]
    return {name: _cut(each) for name, each in value.items()} if isinstance(value, dict) else value


def decode(body: str) -> AnyEvent | UnknownEvent:
    """Decode an event, even from another version: web and workers are not upgraded at the same moment."""
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError:
        return _common.decode(body)
