"""Code from a specification over HTTP: a real process behind a real socket."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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


@asynccontextmanager
async def serving(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The address of the pages of a web process."""
    from app.service.web import serve

    said: list[str] = []
    monkeypatch.setattr("app.service.web._pages_listen", lambda url, _: said.append(url))
    stop = asyncio.Event()
    task = asyncio.create_task(serve(settings, stop, lambda _: None))
    await until(lambda: bool(said) or task.done())
    if task.done():
        task.result()
    try:
        yield said[0]
    finally:
        stop.set()
        await asyncio.wait_for(task, 60)


@pytest.fixture
async def pages(settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[str]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with serving(scripted(settings, redis_url), monkeypatch) as url:
        yield url


@pytest.mark.long
async def test_code_is_written_and_its_events_are_streamed_and_resumed(pages: str, tmp_path: Path) -> None:
    async with httpx.AsyncClient(base_url=pages, timeout=200) as client:
        chosen = {"form": "function", "clean_doc": True, "show_tests": False, "strategies": 2, "temperature": 0.5}
        body = {"specification": WORDS, "name": "merge_intervals", "candidates": 2, "memory": True, **chosen}
        answer = await client.post("/api/v1/solve", json=body)
        assert answer.status_code == 202, answer.text
        told = answer.json()
        assert told["status"] == "running"
        text = (await client.get(told["events"])).text
        assert "event: step_started" in text
        last = [line for line in text.splitlines() if line.startswith("data: ")][-1]
        result = json.loads(last.removeprefix("data: "))
        assert (result["status"], result["result"]["name"]) == ("solved", "merge_intervals")
        code = result["result"]["files"]["solution.py"]
        assert code.startswith("def merge_intervals(")
        assert "sorted(intervals)" in code
        assert ">>>" not in code
        assert result["result"]["tests"] == {}
        recorded = json.loads((tmp_path / f"data/selfheal/runs/{result['run']}/run.json").read_bytes())["options"]
        assert {name: recorded[name] for name in chosen} == chosen
        assert (recorded["candidates"], recorded["memory"]) == (2, True)
        assert (await client.get(answer.headers["location"])).json() == result
        count = text.count("\nid: ")
        resumed = (await client.get(told["events"], headers={"last-event-id": str(count - 1)})).text
        assert resumed.count("\nid: ") == 1


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
        assert wrong.json()["detail"] == "modell: unknown parameter"
        many = await client.post("/api/v1/solve", json={**body, "candidates": 17})
        assert (many.status_code, "less than or equal to 16" in many.json()["detail"]) == (422, True)
        assert (await client.post("/api/v1/solve", json={"specification": ""})).status_code == 422
        assert (await client.get("/api/v1/solve/nosuch")).status_code == 404
        told = {"[]": "the body must be one JSON object", "{1": "the body is no JSON, at character 1: Expecting property name"}
        told |= {'{"specification": 3}': "specification: Input should be a valid string"}
        told |= {'{"name": "add"}': "specification: it is missing"}
        for sent, said in told.items():
            wrong = await client.post("/api/v1/solve", content=sent, headers={"content-type": "application/json"})
            assert wrong.json()["detail"].startswith(said), wrong.text


async def test_openapi_describes_each_answer(pages: str) -> None:
    async with httpx.AsyncClient(base_url=pages) as client:
        described = (await client.get("/api/v1/openapi.json")).json()
    answers = {
        (path.removeprefix("/api/v1/solve"), method): set(each["responses"])
        for path, methods in described["paths"].items()
        if path.startswith("/api/v1/solve")
        for method, each in methods.items()
    }
    assert answers == {
        ("", "post"): {"200", "202", "403", "413", "415", "422", "429"},
        ("/{solution_id}", "get"): {"200", "403", "404", "422"},
        ("/{solution_id}", "delete"): {"204", "403", "404", "422"},
        ("/{solution_id}/events", "get"): {"200", "403", "404", "422"},
    }
    posted = described["paths"]["/api/v1/solve"]["post"]
    assert posted["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/SolveIn"}
    assert list(posted["responses"]["200"]["content"]) == ["text/event-stream"]
    assert described["components"]["schemas"]["SolveIn"]["properties"]["candidates"]["maximum"] == 16


async def test_the_folders_of_a_killed_process_are_removed_at_the_next_start(
    settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", "from app.service import solving; print(solving._folder()[0], flush=True); input()"),
        env={**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[2]), "TMPDIR": str(tmp_path)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert killed.stdout is not None
    left = Path((await killed.stdout.readline()).decode().strip())
    mine, lock = module._folder()
    (left / "specification.txt").write_text(WORDS)
    await asyncio.to_thread(module.sweep)
    assert left.is_dir()  # its process lives
    killed.kill()
    await killed.wait()
    async with serving(scripted(settings, redis_url), monkeypatch):
        assert not left.exists()
        assert mine.is_dir()
    os.close(lock)


async def test_what_no_code_can_satisfy_is_refused_before_anything_starts(pages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RUNNING", 0)
    refused = {
        "does not parse": {"signature": "add(a"},
        "two examples contradict each other": {"doctests": ">>> add(1)\n1\n>>> add(1)\n2"},
        "the tests are not Python": {"tests": "def test_a(:"},
        "nested too deeply": {"doctests": ">>> " + "-" * 100_000 + "1\n1"},
    }
    async with httpx.AsyncClient(base_url=pages) as client:
        for said, given in refused.items():
            answer = await client.post("/api/v1/solve", json={"specification": "Add.", **given})
            assert (answer.status_code, said in answer.json()["detail"]) == (422, True), answer.text


async def test_too_many_are_refused_and_what_runs_can_be_cancelled(pages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with httpx.AsyncClient(base_url=pages, timeout=60) as client:

        async def ended(path: str) -> dict[str, object]:
            for _ in range(300):
                told: dict[str, object] = (await client.get(path)).json()
                if told["status"] != "running":
                    return told
                await asyncio.sleep(0.1)
            raise AssertionError("it never ended")

        monkeypatch.setattr(module, "MOST_RUNNING", 1)
        other = await client.post("/api/v1/solve", json={"specification": WORDS, "name": "merge_intervals"})
        crowded = await client.post("/api/v1/solve", json={"specification": WORDS, "name": "merge_intervals"})
        assert crowded.status_code == 429
        assert crowded.headers["retry-after"]
        assert (await client.delete(other.headers["location"])).status_code == 204
        cancelled = await ended(other.headers["location"])
        assert cancelled["status"] == "cancelled"


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
