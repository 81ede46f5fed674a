"""A whole story, watched from outside: ids in the logs, figures, one trace; and no secret in anything that leaves it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.contract.outcome import Outcome
from app.queue.redis import RedisMissing, server_binary
from tests.standins.collector import Collector, attributes, collecting
from tests.standins.model import Asked, Reply, ScriptedModel
from tests.story.story import FAST, Story, told, until
from tests.story.test_healing import BROKEN, CALCULATOR

CANARIES = {
    "SELFHEAL_GITHUB_WEBHOOK_SECRET_PREVIOUS": "previous-canary-1",
    "SELFHEAL_MODEL_API_KEY": "model-canary-2",
    "SELFHEAL_E2B_API_KEY": "e2b-canary-3",
    "ANTHROPIC_API_KEY": "anthropic-canary-4",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-key=collector-canary-5",
    "NO_SUCH_PROXY": "http://me:proxy-canary-6@proxy:3128",
}
REDIS_PASSWORD = "redis-canary-7"


@asynccontextmanager
async def redis_with_password(folder: Path) -> AsyncIterator[str]:
    try:
        binary = server_binary()
    except RedisMissing as missing:
        pytest.skip(str(missing))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--requirepass", REDIS_PASSWORD,
        cwd=folder, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"redis://:{REDIS_PASSWORD}@127.0.0.1:{port}/0"
    finally:
        server.terminate()
        await server.wait()


def tells_the_key(asked: Asked) -> Reply:
    """A provider that is as careless as some are."""
    return Reply(f"Incorrect API key provided: {asked.authorization}", status=401, code="invalid_api_key")


@pytest.mark.long
async def test_a_story_is_seen_from_outside_and_gives_no_secret_away(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    with collecting() as collector:
        async with redis_with_password(tmp_path / "redis") as redis, ScriptedModel(tells_the_key) as model:
            variables = {
                **FAST,
                **CANARIES,
                "SELFHEAL_REDIS_URL": redis,
                "SELFHEAL_SANDBOX": "local",
                "SELFHEAL_MODEL": "openai/careless",
                "SELFHEAL_MODEL_API_BASE": model.openai_url,
                "SELFHEAL_LOG_LEVEL": "debug",
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            }
            async with told(tmp_path / "service", variables) as story:
                await story.repository("acme/watched", CALCULATOR)
                await story.push("acme/watched", BROKEN)
                attempt = await story.ended("acme/watched")
                assert attempt.outcome is Outcome.HEALED, attempt.reason
                assert model.asked, "else the canary of its key was never in danger"
                delivery = await story.store.origin(attempt.id)
                assert delivery is not None
                async with httpx.AsyncClient(timeout=30) as client:
                    metrics = (await client.get(story.service.pages + "/metrics")).text
                    ready = await client.get(story.service.url + "/readyz")
                assert ready.status_code == 200, ready.text
                await _health_of_the_worker(story)
                await story.service.stop()  # spans are sent and logs written to their end
                await until(lambda: bool(collector.named("selfheal.attempt")), "no span arrived", seconds=10)
                _ids_are_in_the_logs(story, attempt.id, delivery)
                _figures_tell_the_story(metrics)
                _one_trace(collector, attempt.id, delivery)
                never = _secrets(story, collector)
                said = {
                    "web's log": story.service.log("serve").encode(),
                    "worker's log": story.service.log("worker").encode(),
                    "metrics": metrics.encode(),
                    "readiness": ready.content,
                    "GitHub": b"\n".join(story.github.api.bodies),
                    "collector": b"\n".join(collector.raw),
                    "database": b"".join(path.read_bytes() for path in (story.service.folder / "data").glob("*.db*")),
                    "models": "\n".join(asked.prompt for asked in model.asked).encode(),
                }
    assert all(said.values())
    found = [(where, secret[:12]) for where, text in said.items() for secret in never if secret.encode() in text]
    assert found == []


def _secrets(story: Story, collector: Collector) -> list[str]:
    """Everything that must not be seen: what is set, the key's lines, and the tokens that were minted."""
    assert {headers["x-key"] for headers in collector.headers} == {"collector-canary-5"}
    minted = list(story.github.tokens.known)
    assert any(token.startswith("ghs_") for token in minted)
    key = [line for line in story.github.private_key.splitlines() if len(line) > 40]
    words = [value.partition("=")[2] or value for value in CANARIES.values() if "proxy" not in value]
    return [*words, "proxy-canary-6", REDIS_PASSWORD, story.github.webhook_secret, *minted, *key]


def _ids_are_in_the_logs(story: Story, attempt: str, delivery: str) -> None:
    for name in ("serve", "worker"):
        lines = [json.loads(line) for line in story.service.log(name).splitlines()]
        mine = [line for line in lines if line.get("attempt") == attempt]
        assert mine, f"{name} says nothing of the attempt"
    worker = [json.loads(line) for line in story.service.log("worker").splitlines()]
    of_attempt = [line for line in worker if line.get("attempt") == attempt]
    assert delivery in {line.get("delivery") for line in of_attempt}
    said = [line["event"] for line in of_attempt if line.get("delivery") == delivery]
    assert (said[0], said[-1]) == ("attempt claimed", "attempt left"), "the log alone tells when it began and how it ended"


def _figures_tell_the_story(metrics: str) -> None:
    told = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
    }
    assert told["selfheal_attempts_ended_total", "healed"] == 1
    assert told["selfheal_deliveries_total", "request"] >= 1
    assert told["selfheal_sandbox_starts_total", "local", "opened"] == 1
    assert told["selfheal_model_calls_total", "failed", "openai/careless"] >= 1
    assert told["selfheal_step_duration_seconds_count", "reproduce"] == 1
    assert told["selfheal_pull_requests", "open"] == 1
    assert told["selfheal_leases", "held"] == 0
    assert "acme" not in metrics


def _one_trace(collector: Collector, attempt: str, delivery: str) -> None:
    spans = {span.name: span for span in collector.spans if span.trace_id.hex() == attempt}
    assert {"delivery", "attempt", "gather", "sandbox", "prepare", "reproduce", "prove", "publish"} <= {
        name.removeprefix("selfheal.") for name in spans
    }
    ours = [span for span in collector.named("selfheal.delivery") if attributes(span)["selfheal.delivery"] == delivery]
    assert [span.span_id for span in ours] == [spans["selfheal.attempt"].parent_span_id]
    assert attributes(spans["selfheal.attempt"])["selfheal.outcome"] == "healed"
    by_id = {span.span_id: span for span in collector.spans}
    for name in ("gather", "sandbox", "reproduce", "publish"):
        assert by_id[spans[f"selfheal.{name}"].parent_span_id].name == "selfheal.attempt"
    assert any(span.name == "chat openai/careless" and span.trace_id.hex() == attempt for span in collector.spans)


async def _health_of_the_worker(story: Story) -> None:
    environment = {**os.environ, **story.service.variables}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app", "health", env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, out.decode()
