from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from app.service.run import dev
from app.service.web import create_webhooks, serve
from app.service.worker import Jobs
from app.settings import Settings, SettingsError, load
from app.store.store import Store
from tests.app.queue.test_redis import alive, server_pid
from tests.app.waiting import until
from tests.webhooks.test_triggers import RUN


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[str]:
    stop = asyncio.Event()
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(settings, stop, url.set_result))
    await asyncio.wait({task, url}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield await url
    finally:
        stop.set()
        await asyncio.wait_for(task, 20)


async def send(client: httpx.AsyncClient, url: str, guid: str | None = None, payload: dict[str, Any] = RUN) -> httpx.Response:
    body = json.dumps(payload).encode()
    headers = {
        "X-Hub-Signature-256": "sha256=" + hmac.new(b"hush", body, hashlib.sha256).hexdigest(),
        "X-GitHub-Event": "workflow_run",
        "X-GitHub-Delivery": guid or str(uuid.uuid4()),
        "Content-Type": "application/json",
    }
    return await client.post(url + "/webhooks/github", content=body, headers=headers)


async def test_a_signed_webhook_becomes_a_queued_attempt(settings: Settings, store: Store, redis_url: str) -> None:
    settings = settings.model_copy(update={"redis_url": load(redis_url=redis_url).redis_url})
    async with serving(settings) as url, httpx.AsyncClient() as client:
        assert (await client.get(url + "/healthz")).json() == {"status": "ok"}
        answer = await send(client, url)
        assert answer.status_code == 202
        attempt = await store.attempt(answer.json()["attempt"])
        assert attempt is not None
        assert (attempt.status, attempt.repository.full_name) == ("queued", "octo/calculator")
        assert (await client.get(url + "/docs")).status_code == 404
        assert (await client.get(url + "/webhooks/github")).status_code == 405


async def test_a_failure_on_a_branch_with_the_set_prefix_starts_nothing(settings: Settings, store: Store) -> None:
    ours = RUN | {"workflow_run": RUN["workflow_run"] | {"head_branch": "bot/trunk-1"}}
    async with serving(settings.model_copy(update={"branch_prefix": "bot/"})) as url, httpx.AsyncClient() as client:
        answer = await send(client, url, payload=ours)
    assert answer.json() == {"decision": "ignored", "reason": "the branch belongs to Selfheal"}
    assert await store.attempts() == []


async def test_fifty_deliveries_over_http_make_one_attempt_of_their_head(
    settings: Settings, store: Store, redis_url: str
) -> None:
    settings = settings.model_copy(update={"redis_url": load(redis_url=redis_url).redis_url})
    guids = [str(uuid.uuid4()) for _ in range(25)] * 2
    async with serving(settings) as url, httpx.AsyncClient(timeout=30) as client:
        answers = await asyncio.gather(*(send(client, url, guid) for guid in guids))
    assert {answer.status_code for answer in answers} == {202}
    assert sum(answer.json()["decision"] == "duplicate" for answer in answers) == 25
    (attempt,) = await store.attempts()
    assert len(attempt.requests) == 25


async def test_without_redis_a_webhook_is_answered_all_the_same(settings: Settings, store: Store) -> None:
    settings = settings.model_copy(update={"redis_url": load(redis_url="redis://127.0.0.1:1").redis_url})
    async with serving(settings) as url, httpx.AsyncClient(timeout=30) as client:
        began = time.monotonic()
        answer = await send(client, url)
        assert (answer.status_code, time.monotonic() - began < 5) == (202, True)
    assert await store.due() == [answer.json()["attempt"]]


@pytest.mark.parametrize("secret", [None, ""])
def test_there_are_no_webhooks_without_a_secret(secret: str | None, tmp_path: Path) -> None:
    settings = load(data_dir=tmp_path, github_webhook_secret=secret)
    with pytest.raises(SettingsError, match="SELFHEAL_GITHUB_WEBHOOK_SECRET"):
        create_webhooks(settings)


async def test_a_port_that_is_taken_is_named(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"SELFHEAL_PORT: cannot listen on 127.0.0.1:{port}"):
            await serve(settings.model_copy(update={"port": port}), asyncio.Event(), lambda _: None)


@pytest.mark.parametrize("setting", ["port", "pages_port"])
async def test_dev_begins_no_work_where_a_port_is_taken(settings: Settings, setting: str) -> None:
    begun: list[str] = []

    def open_jobs(*_: object) -> contextlib.AbstractAsyncContextManager[Jobs]:
        begun.append("work")
        raise AssertionError("nothing is opened for work")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = settings.model_copy(update={setting: taken.getsockname()[1]})
        with pytest.raises(SettingsError, match="cannot listen on"):
            await asyncio.wait_for(dev(settings, open_jobs, asyncio.Event(), lambda _: None), 60)
    assert begun == []
    assert not settings.data_dir.exists(), "no database either"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "selfheal.example"])
async def test_pages_that_anybody_could_read_are_refused_unless_said_in_so_many_words(settings: Settings, host: str) -> None:
    with pytest.raises(SettingsError, match=r"SELFHEAL_PAGES_HOST: .* set SELFHEAL_PAGES_WITHOUT_SIGN_IN=true"):
        await serve(settings.model_copy(update={"pages_host": host}), asyncio.Event(), lambda _: None)


async def test_pages_beyond_this_machine_are_served_where_that_is_said(settings: Settings, redis_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said = {"pages_host": "0.0.0.0", "pages_port": port, "pages_without_sign_in": True}
    settings = settings.model_copy(update={**said, "redis_url": load(redis_url=redis_url).redis_url})
    with structlog.testing.capture_logs() as logged:
        async with serving(settings), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/")).status_code == 200
            assert (await client.get("/", headers={"host": "10.1.2.3:8001"})).status_code == 200
            assert (await client.get("/", headers={"host": "rebound.example"})).status_code == 421
    [listening] = [line for line in logged if line["event"] == "pages listening"]
    assert "anyone who can reach this address can read everything" in listening["sign_in"]


async def test_pages_on_every_address_answer_by_both_protocols(settings: Settings, redis_url: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said = {"pages_host": "::", "pages_port": port, "pages_without_sign_in": True}
    settings = settings.model_copy(update={**said, "redis_url": load(redis_url=redis_url).redis_url})
    async with serving(settings), httpx.AsyncClient() as client:
        for address in ("127.0.0.1", "[::1]"):
            assert (await client.get(f"http://{address}:{port}/metrics")).status_code == 200, address


@pytest.mark.long
async def test_the_web_process_never_loads_what_heals(tmp_path: Path) -> None:
    """Not at the start, and not for a webhook, a page, its metrics or its readiness either."""
    program = f"""
import asyncio, sys
from app.service.run import stop_on_signals
from app.service.web import serve
from app.settings import load
async def main():
    settings = load(data_dir={str(tmp_path / "data")!r}, github_webhook_secret="hush", port=0, pages_port=int(sys.argv[1]))
    with stop_on_signals() as stop:
        await serve(settings, stop, lambda url: print(url, flush=True))
asyncio.run(main())
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
"""
    with socket.create_server(("127.0.0.1", 0)) as free:
        pages = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(pages), stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        url = (await asyncio.wait_for(_line_with(process.stdout, "http"), 60)).strip()
        async with httpx.AsyncClient(timeout=30) as client:
            attempt = (await send(client, url)).json()["attempt"]
            asked = [f"http://127.0.0.1:{pages}/{path}" for path in ("", f"attempts/{attempt}", "api/v1/attempts", "metrics")]
            for page in (*asked, url + "/readyz", url + "/healthz"):
                assert (await client.get(page)).status_code == 200, page
        process.terminate()
        out, _ = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    loaded = set(out.decode().splitlines()[-1].split())
    assert {"app", "webhooks", "fastapi", "sqlalchemy"} <= loaded
    heavy = {
        "litellm",
        "langgraph",
        "mlflow",
        "e2b",
        "e2b_code_interpreter",
        "githubkit",
        "playwright",
        "opentelemetry.sdk",
        "aiodocker",
    }
    assert not heavy & loaded


async def _line_with(stream: asyncio.StreamReader, text: str) -> str:
    while line := (await stream.readline()).decode():
        if line.startswith(text):
            return line
    raise AssertionError("the process ended")


@pytest.mark.long
async def test_dev_runs_web_and_worker_together_and_leaves_nothing_behind(tmp_path: Path) -> None:
    program = f"""
import asyncio
from pathlib import Path
from typing import Any
from app.service.run import dev, stop_on_signals
from app.settings import load
from tests.app.service.crew import open_jobs_for
async def main():
    settings = load(data_dir={str(tmp_path / "data")!r}, github_webhook_secret="hush", port=0, pages_port=0)
    with stop_on_signals() as stop:
        await dev(settings, open_jobs_for("finish", Path({str(tmp_path / "log")!r})), stop, lambda url: print(url, flush=True))
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        url = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        async with httpx.AsyncClient(timeout=30) as client:
            assert (await send(client, url)).status_code == 202
        log = tmp_path / "log"
        await until(lambda: log.exists() and "ended finish" in log.read_text())
        pid = await server_pid(f"unix://{tmp_path / 'data' / 'redis.sock'}")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert not alive(pid)
    assert log.read_text().splitlines()[-1] == "closed"


@pytest.mark.long
async def test_a_web_process_that_stops_does_not_speak_of_work(tmp_path: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")},
        "SELFHEAL_DATA_DIR": str(tmp_path / "data"),
        "SELFHEAL_GITHUB_WEBHOOK_SECRET": "hush",
        "SELFHEAL_PORT": "0",
        "SELFHEAL_PAGES_PORT": "0",
    }
    pipe, joined = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app", "serve", env=environment, stdout=pipe, stderr=joined
    )
    assert process.stdout is not None
    try:
        while b"listening" not in (line := await asyncio.wait_for(process.stdout.readline(), 60)):
            assert line, "it ended"
        process.send_signal(signal.SIGTERM)
        said = await asyncio.wait_for(process.stdout.read(), 60)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert b"stopping; open requests are still answered" in said
    assert b"given back" not in said
