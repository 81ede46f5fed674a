from __future__ import annotations

import base64

import pytest

from agent.contract.outcome import Outcome
from app.dashboard.filters import BadQuery, cursor_of, parse_cursor, parse_query
from app.store.store import Store
from tests.app.requests import RUN, taken


def encoded(place: str) -> str:
    return base64.urlsafe_b64encode(place.encode()).decode()


def test_filters_are_read_and_written_back() -> None:
    query = parse_query(" octo/calc ", "gave_up", "command", "")
    assert (query.repository, query.outcome, query.status) == ("octo/calc", Outcome.GAVE_UP, None)
    assert query.filters == {"repository": "octo/calc", "state": "gave_up", "trigger": "command"}
    assert parse_query("", "", "", "").filters == {}


@pytest.mark.parametrize(
    ("query", "named"),
    [
        (("x" * 201, "", "", ""), "repository"),
        (("", "happy", "", ""), "state: 'happy'"),
        (("", "", "magic", ""), "trigger: 'magic'"),
        (("", "", "", "!!!"), "before: '!!!'"),
        (("", "", "", "MjAyNi0wMS0wMQ"), "before"),
        (("", "", "", "x" * 400), "before"),
        (("", "", "", encoded("0001-01-01T00:00:00+14:00 a")), "before"),
        (("", "", "", encoded("9999-12-31T23:59:59-14:00 a")), "before"),
    ],
)
def test_what_cannot_be_is_named(query: tuple[str, str, str, str], named: str) -> None:
    with pytest.raises(BadQuery, match=named):
        parse_query(*query)


async def test_a_cursor_comes_back_as_the_place_that_it_was_made_of(store: Store) -> None:
    attempt = await store.attempt(await taken(store, RUN))
    assert attempt is not None
    place = parse_cursor(cursor_of(attempt))
    assert (place.created_at, place.id) == (attempt.created_at, attempt.id)
