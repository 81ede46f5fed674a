"""Code from a specification over HTTP: a real process behind a real socket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from app.service import solving as module
from app.service.solving import environment
from app.settings import Settings, load
from tests.app.waiting import until

# The database has no say here.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
WORDS = "Merge overlapping or touching intervals of integers; the result is sorted."


def scripted(settings: Settings, redis_url: str, **more: object) -> Settings:
    changed = {"model": "scripted", "redis_url": load(redis_url=redis_url).redis_url, "pages_port": 0, **more}
    found = settings.model_copy(update=changed)
    found.model_fields_set.update(changed)
    return found


@pytest.fixture
async def pages(settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    """The address of the pages of a web process."""
    from app.service.web import serve

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    said: list[str] = []
    monkeypatch.setattr("app.service.web._pages_listen", lambda url, _: said.append(url))
    stop = asyncio.Event()
    task = asyncio.create_task(serve(scripted(settings, redis_url), stop, lambda _: None))
    await until(lambda: bool(said) or task.done())
    if task.done():
        task.result()
    try:
        yield said[0]
    finally:
        stop.set()
        await asyncio.wait_for(task, 60)


@pytest.mark.long
async def test_code_is_written_and_its_events_are_streamed_and_resumed(pages: str) -> None:
    async with httpx.AsyncClient(base_url=pages, timeout=200) as client:
        answer = await client.post("/api/v1/solve", json={"specification": WORDS, "name": "merge_intervals"})
        assert answer.status_code == 202, answer.text
        told = answer.json()
        assert told["status"] == "running"
        text = (await client.get(told["events"])).text
        assert "event: step_started" in text
        last = [line for line in text.splitlines() if line.startswith("data: ")][-1]
        result = json.loads(last.removeprefix("data: "))
        assert (result["status"], result["result"]["name"]) == ("solved", "merge_intervals")
        assert "sorted(intervals)" in result["result"]["files"]["solution.py"]
        assert (await client.get(answer.headers["location"])).json() == result
        count = text.count("\nid: ")
        resumed = (await client.get(told["events"], headers={"last-event-id": str(count - 1)})).text
        assert resumed.count("\nid: ") == 1
        listed = (await client.get("/api/v1/openapi.json")).json()["paths"]
        assert {"/api/v1/solve", "/api/v1/solve/{solution_id}/events"} <= set(listed)


async def test_only_this_machine_may_ask_and_only_with_json(pages: str) -> None:
    body = {"specification": WORDS, "name": "merge_intervals"}
    async with httpx.AsyncClient(base_url=pages) as client:
        for headers in ({"x-forwarded-for": "203.0.113.9"}, {"forwarded": "for=203.0.113.9"}, {"x-real-ip": "127.0.0.1"}):
            assert (await client.post("/api/v1/solve", json=body, headers=headers)).status_code == 403
        form = await client.post("/api/v1/solve", content=json.dumps(body), headers={"content-type": "text/plain"})
        assert form.status_code == 415
        large = await client.post("/api/v1/solve", json={**body, "tests": "#" * 2_000_000})
        assert large.status_code == 413

        async def endless():  # type: ignore[no-untyped-def]
            yield b'{"specification": "'

        chunked = await client.post("/api/v1/solve", content=endless(), headers={"content-type": "application/json"})
        assert chunked.status_code == 413
        rebound = await client.post("/api/v1/solve", json=body, headers={"host": "evil.example"})
        assert rebound.status_code == 421
        wrong = await client.post("/api/v1/solve", json={**body, "modell": "x"})
        assert wrong.status_code == 422
        assert "modell" in wrong.json()["detail"]
        assert (await client.post("/api/v1/solve", json={"specification": ""})).status_code == 422
        assert (await client.get("/api/v1/solve/nosuch")).status_code == 404


async def test_mistakes_are_told_too_many_are_refused_and_what_runs_can_be_cancelled(
    pages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with httpx.AsyncClient(base_url=pages, timeout=60) as client:

        async def ended(path: str) -> dict[str, object]:
            for _ in range(300):
                told: dict[str, object] = (await client.get(path)).json()
                if told["status"] != "running":
                    return told
                await asyncio.sleep(0.1)
            raise AssertionError("it never ended")

        wrong = await client.post("/api/v1/solve", json={"specification": "Add.", "signature": "add(a"})
        monkeypatch.setattr(module, "MOST_RUNNING", 2)
        other = await client.post("/api/v1/solve", json={"specification": WORDS, "name": "merge_intervals"})
        crowded = await client.post("/api/v1/solve", json={"specification": WORDS, "name": "merge_intervals"})
        assert crowded.status_code == 429
        assert crowded.headers["retry-after"]
        assert (await client.delete(other.headers["location"])).status_code == 204
        cancelled = await ended(other.headers["location"])
        assert cancelled["status"] == "cancelled"
        told = await ended(wrong.headers["location"])
        assert told["status"] == "failed"
        assert "does not parse" in str(told["error"])


def test_the_child_gets_the_model_and_no_key_of_github(settings: Settings) -> None:
    changed = {"model": "openai/x", "model_api_key": load(model_api_key="sk-model").model_api_key, "trust_code": True}
    known = settings.model_copy(update=changed)
    known.model_fields_set.update(changed)
    inherited = {"PATH": "/bin", "SELFHEAL_GITHUB_PRIVATE_KEY": "secret", "selfheal_github_webhook_secret": "secret"}
    found = environment(known, inherited)
    assert found["SELFHEAL_MODEL"] == "openai/x"
    assert found["SELFHEAL_MODEL_API_KEY"] == "sk-model"
    assert found["SELFHEAL_TRUST_CODE"] == "true"
    assert found["PATH"] == "/bin"
    assert not [name for name in found if "GITHUB" in name.upper()]
