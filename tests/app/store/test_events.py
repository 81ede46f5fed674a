from __future__ import annotations

import json

import pytest

from agent.contract.events import Proposed, Reproduced, StepStarted
from app.store.events import UnknownEvent, decode, encode


def test_an_event_comes_back_as_it_was() -> None:
    event = Proposed(text="ünï\u202e", rung="patterns", title="t", diff="x" * 20_000, iteration=2)
    assert decode(encode(event)) == event


def test_an_endless_text_is_cut_with_a_note_and_the_rest_stays() -> None:
    ids = ["short", "y" * 10_000_000]
    event = Reproduced(text="z" * 10_000_000, red=ids, red_count=2, green_count=1, seconds=1.5)
    kept = decode(encode(event))
    assert isinstance(kept, Reproduced)
    assert kept.text.endswith("… (10,000,000 characters; cut)")
    assert (kept.red[0], len(kept.red[1]) < 30_000, kept.seconds) == ("short", True, 1.5)
    assert len(encode(event)) < 100_000


def test_what_postgresql_cannot_hold_is_dropped() -> None:
    kept = decode(encode(StepStarted(text="a\0b", step="x")))
    assert kept.text == "ab"


@pytest.mark.parametrize(
    "body",
    ['{"kind":"dreamt","text":"a dream","depth":3}', '{"kind":"dreamt"}', '{"kind":"proven","text":"a dream","passed":"so"}'],
)
def test_an_event_of_another_version_keeps_its_kind_and_its_text(body: str) -> None:
    known = json.loads(body)
    assert decode(body) == UnknownEvent(known["kind"], known.get("text", ""))
