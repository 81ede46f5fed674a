from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import httpx
import pytest

from agent.contract.events import Reproduced, StepStarted
from agent.contract.outcome import Outcome
from app.dashboard import feed as room
from app.dashboard import stream as streaming
from tests.app.dashboard.conftest import Site
from tests.app.dashboard.events import begun, green, proposed
from tests.app.requests import cancel, run_of, taken
from tests.app.waiting import until


async def stream(site: Site, path: str, **headers: str) -> list[dict[str, str]]:
    """The messages of a stream, to its end."""
    messages: list[dict[str, str]] = []
    async with site.client.stream("GET", path, headers={"accept": "text/event-stream", **headers}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        current: dict[str, str] = {}
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if line:
                current[name.rstrip(":")] = value
            else:
                messages.append(current)
                current = {}
    return [message for message in messages if "data" in message]


async def ended(site: Site, count: int = 3) -> str:
    attempt_id = await site.attempt(None, *(StepStarted(text=f"step {number}", step="x") for number in range(1, count + 1)))
    await site.tell(attempt_id, then=lambda lease: lease.end(Outcome.GAVE_UP, "enough"))
    return attempt_id


async def test_attempts_come_in_pages_with_opaque_cursors(site: Site) -> None:
    ids = [await taken(site.store, run_of(f"{number:040x}")) for number in range(7)]
    seen: list[str] = []
    before = ""
    while True:
        page = (await site.client.get("/api/v1/attempts", params={"limit": 3, "before": before})).json()
        seen += [attempt["id"] for attempt in page["attempts"]]
        if page["next"] is None:
            break
        before = page["next"]
    assert seen == ids[::-1]


async def test_an_attempt_is_told_with_its_end(site: Site) -> None:
    attempt_id = await ended(site)
    told = (await site.client.get(f"/api/v1/attempts/{attempt_id}")).json()
    assert (told["status"], told["outcome"], told["reason"], told["trigger"]) == ("ended", "gave_up", "enough", "automatic")
    (only,) = (await site.client.get("/api/v1/attempts?state=gave_up")).json()["attempts"]
    assert only == told


async def test_a_timeline_is_told_in_pages(site: Site) -> None:
    attempt_id = await site.attempt(None, *begun(), proposed(), *green())
    first = (await site.client.get(f"/api/v1/attempts/{attempt_id}/events?limit=4")).json()
    assert [event["kind"] for event in first["events"]] == ["step_started", "reproduced", "remembered", "proposed"]
    rest = (await site.client.get(f"/api/v1/attempts/{attempt_id}/events?after={first['next']}")).json()
    assert (rest["events"][0]["sequence"], rest["next"]) == (5, None)
    proven = next(event for event in rest["events"] if event["kind"] == "proven")
    assert proven["evidence"][0]["with_green"] == 22


async def test_a_stream_goes_on_where_its_reader_was(site: Site) -> None:
    path = f"/api/v1/attempts/{await ended(site)}/events"
    assert [message.get("id") for message in await stream(site, path)] == ["1", "2", "3", "4", None]
    assert (await stream(site, path))[-1]["event"] == "end"
    assert [message.get("id") for message in await stream(site, f"{path}?after=2")] == ["3", "4", None]
    resumed = await stream(site, f"{path}?after=1", **{"last-event-id": "3"})
    assert [message.get("id") for message in resumed] == ["4", None]
    assert json.loads(resumed[0]["data"])["kind"] == "ended"
    assert len(await stream(site, path, **{"last-event-id": "x" * 50})) == 5


async def test_a_reader_who_has_all_of_an_ended_attempt_is_told_not_to_come_again(site: Site) -> None:
    path = f"/api/v1/attempts/{await ended(site)}/events"
    asks = {"accept": "text/event-stream"}
    assert (await site.client.get(path, headers={**asks, "last-event-id": "4"})).status_code == 204
    assert (await site.client.get(f"{path}?after=4", headers=asks)).status_code == 204
    assert len(await stream(site, path, **{"last-event-id": "3"})) == 2
    going_on = f"/api/v1/attempts/{await site.attempt(run_of('b' * 40), *begun())}/events?after=3"
    async with site.client.stream("GET", going_on, headers=asks) as answer:
        assert answer.status_code == 200


@pytest.mark.long
async def test_a_page_of_large_events_is_shorter_and_goes_on(site: Site) -> None:
    lines = "\n".join(["y" * 1000] * 20)
    much = Reproduced(text="much", red=[lines] * 9, red_count=9, green_count=0, seconds=1.0)
    attempt_id = await site.attempt(None, *[much] * 12)
    seen: list[int] = []
    after: int | None = 0
    while after is not None:
        answer = await site.client.get(f"/api/v1/attempts/{attempt_id}/events?after={after}&limit=1000")
        assert len(answer.content) < 1_300_000
        page = answer.json()
        seen += [event["sequence"] for event in page["events"]]
        after = page["next"]
    assert seen == list(range(1, 13))


async def test_a_stream_tells_what_happens_while_it_is_open(site: Site) -> None:
    attempt_id = await site.attempt()
    reading = asyncio.create_task(stream(site, f"/api/v1/attempts/{attempt_id}/events"))
    await asyncio.sleep(0.5)
    await site.tell(attempt_id, StepStarted(text="one\ntwo\r\nthree\rfour", step="x"))
    await site.tell(attempt_id, then=lambda lease: lease.end(Outcome.HEALED, "done"))
    async with asyncio.timeout(60):
        messages = await reading
    assert [message.get("id") for message in messages] == ["1", "2", None]


async def test_too_many_streams_are_told_when_to_come_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_FOLLOWERS", 0)
    attempt_id = await ended(site)
    for path in (f"/api/v1/attempts/{attempt_id}/events", f"/attempts/{attempt_id}/stream"):
        answer = await site.client.get(path, headers={"accept": "text/event-stream"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")


@pytest.mark.parametrize(
    ("path", "status", "named"),
    [
        ("/attempts/" + "0" * 32, 404, "There is no attempt"),
        ("/attempts/%E2%80%AE%1b", 404, "There is no attempt"),
        ("/attempts/nope/events", 404, "There is no attempt"),
        ("/attempts?before=zzz", 422, "before"),
        ("/attempts?before=MDAwMS0wMS0wMVQwMDowMDowMCsxNDowMCBh", 422, "before"),
        ("/attempts?state=happy", 422, "state"),
        ("/attempts?outcome=healed", 422, "outcome: unknown parameter"),
        ("/attempts?limit=9999", 422, "limit"),
        ("/attempts?repository=" + "x" * 501, 422, "repository"),
        ("/nowhere", 404, "Not Found"),
    ],
)
async def test_wrong_requests_are_problems_that_name_what_is_wrong(site: Site, path: str, status: int, named: str) -> None:
    answer = await site.client.get("/api/v1" + path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status
    assert named in answer.json()["detail"]


async def test_hostile_text_cannot_steer_a_terminal_and_is_bounded(site: Site) -> None:
    attempt_id = await site.attempt(None, StepStarted(text="\x1b[2J\u202e\x9b" + "z" * 10_000_000, step="x"))
    for headers in ({}, {"accept": "text/event-stream"}):
        if headers:
            await site.tell(attempt_id, then=lambda lease: lease.end(Outcome.GAVE_UP, "x"))
        answer = await site.client.get(f"/api/v1/attempts/{attempt_id}/events", headers=headers)
        assert len(answer.content) < 20_000
        assert answer.content.isascii()
        assert b"\x1b" not in answer.content


async def test_openapi_describes_what_is_there(site: Site) -> None:
    described: dict[str, Any] = (await site.client.get("/api/v1/openapi.json")).json()
    assert set(described["paths"]) == {
        "/api/v1/attempts",
        "/api/v1/attempts/{attempt_id}",
        "/api/v1/attempts/{attempt_id}/events",
    }
    events = described["paths"]["/api/v1/attempts/{attempt_id}/events"]["get"]["responses"]
    assert {"application/json", "text/event-stream"} <= set(events["200"]["content"])
    assert set(events) >= {"200", "404", "503"}


@pytest.mark.parametrize("streams", [100, pytest.param(1000, marks=pytest.mark.long)])
async def test_many_open_streams_are_served(site: Site, streams: int) -> None:
    """On real sockets; each gets what happens, and the pages answer all the while."""
    attempt_id = await site.attempt()
    limits = httpx.Limits(max_connections=1100, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=site.url, timeout=120, limits=limits) as client:

        async def follow() -> int:
            headers = {"accept": "text/event-stream"}
            async with client.stream("GET", f"/api/v1/attempts/{attempt_id}/events", headers=headers) as answer:
                return sum([line.startswith("data: {") async for line in answer.aiter_lines()])

        following = [asyncio.create_task(follow()) for _ in range(streams)]
        await until(lambda: site.feed.followers == streams, 120)
        assert (await site.client.get("/")).status_code == 200
        # Without a lease, whose heartbeats so many readers in this very process would delay.
        await cancel(site.store, attempt_id, Outcome.SUPERSEDED, "enough")
        async with asyncio.timeout(120):
            assert set(await asyncio.gather(*following)) == {1}
    await until(lambda: site.feed.followers == 0)


@pytest.mark.long
async def test_a_reader_who_takes_nothing_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "PATIENCE", 0.5)
    lines = "\n".join(["y" * 1000] * 20)
    much = Reproduced(text="much", red=[lines] * 50, red_count=50, green_count=0, seconds=1.0)
    attempt_id = await site.attempt(None, *[much] * 12)
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", int(site.url.rpartition(":")[2])))
        accept = "Host: localhost\r\nAccept: text/event-stream\r\n\r\n"
        reader.sendall(f"GET /api/v1/attempts/{attempt_id}/events HTTP/1.1\r\n{accept}".encode())
        await until(lambda: site.feed.followers == 1)
        await until(lambda: site.feed.followers == 0)
    assert (await site.client.get("/")).status_code == 200
