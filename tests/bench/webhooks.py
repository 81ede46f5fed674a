"""How many deliveries the real route takes, beside a route that does nothing and the usual one.

All are whole processes on real sockets and answer the same requests: failed workflow runs as GitHub sends them (20 KB), each of
another commit, so that each makes an attempt. In the end the web process is killed outright, and every delivery that it
answered with 202 must be in the database.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import signal
import sqlite3
import statistics
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from app.queue.redis import embedded
from tests import data
from tests.bench import memory
from tests.bench.load import Answers, saturate, steady
from tests.bench.routes import SECRET
from tests.bench.table import Figure, Say, spread
from tests.standins.github import GitHub
from tests.story.service import free_port, running

CONNECTIONS = 64
ROUNDS = 3
SECONDS = 2.5  # of one round of one route
WARM_SECONDS = 1.0  # of each route before the rounds, which are not counted
ROOT = Path(__file__).resolve().parents[2]


class Lost(Exception):
    """A delivery was answered with 202 and is not in the database."""


class Failures:
    """Requests that each deliver a failed run of another commit."""

    def __init__(self, secret: bytes) -> None:
        payload = next(
            example
            for event in data.load(data.WEBHOOK_EXAMPLES)
            if event["name"] == "workflow_run"
            for example in event["examples"]
            if example["action"] == "completed" and example["workflow_run"]["conclusion"] == "success"
        )
        run = payload["workflow_run"]
        run |= {"conclusion": "failure", "head_sha": "SHA"}
        run["head_repository"] = {**run["repository"]}
        payload["installation"] = {"id": 11, "node_id": "MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9uMTE="}
        self._before, self._after = json.dumps(payload).encode().split(b'"SHA"')
        self._secret = secret

    def payload(self) -> tuple[bytes, dict[str, str]]:
        """Body and headers of the next one."""
        body = b'%b"%040x"%b' % (self._before, uuid.uuid4().int, self._after)
        return body, {
            "Content-Type": "application/json",
            "X-GitHub-Event": "workflow_run",
            "X-GitHub-Delivery": str(uuid.uuid4()),
            "X-Hub-Signature-256": "sha256=" + hmac.new(self._secret, body, hashlib.sha256).hexdigest(),
        }

    def __call__(self) -> tuple[bytes, str]:
        body, headers = self.payload()
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(["POST /webhooks/github HTTP/1.1", "Host: selfheal", *lines, f"Content-Length: {len(body)}", "", ""])
        return head.encode() + body, headers["X-GitHub-Delivery"]


async def measure(folder: Path, say: Say) -> list[Figure]:
    """Three routes in turns. Raises `Lost`, `tests.data.DataMissing`."""
    async with (
        GitHub(judged=False) as github,
        embedded(folder / "redis") as redis_url,
        _route("noop") as (noop, noop_pid),
        _route("usual", redis_url) as (usual, usual_pid),
        running(github, folder / "service", workers=0) as service,
    ):
        ours, theirs = Failures(github.webhook_secret.encode()), Failures(SECRET)
        routes = {
            "no-op": (noop, theirs, noop_pid),
            "usual": (usual, theirs, usual_pid),
            "selfheal": (service.port, ours, service.web.pid),
        }
        rates: dict[str, list[float]] = {name: [] for name in routes}
        burnt: dict[str, list[float]] = {name: [] for name in routes}  # CPU of one delivery, ms
        taken: list[str] = []
        for name, (port, requests, _) in routes.items():  # githubkit loads its models of an event when the first one comes
            warm = _all_taken(name, await saturate("127.0.0.1", port, requests, CONNECTIONS, WARM_SECONDS))
            taken += warm.taken if name == "selfheal" else []
        for turn in range(ROUNDS):
            for name, (port, requests, pid) in routes.items():
                before = memory.cpu_seconds(pid)
                answers = _all_taken(name, await saturate("127.0.0.1", port, requests, CONNECTIONS, SECONDS))
                rates[name].append(answers.rate)
                burnt[name].append((memory.cpu_seconds(pid) - before) * 1000 / len(answers.taken))
                if name == "selfheal":
                    taken += answers.taken
                say(f"round {turn + 1} of {ROUNDS}: {name} {answers.rate:.0f}/s, {burnt[name][-1]:.2f} ms of CPU each")
        half = statistics.median(rates["selfheal"]) / 2
        calm = _all_taken("selfheal", await steady("127.0.0.1", service.port, ours, CONNECTIONS, 4.0, half))
        taken += calm.taken
        await service.kill_web()
        lost = await asyncio.to_thread(_missing, service.folder / "data" / "selfheal.db", taken)
    if lost:
        raise Lost(f"{lost} of {len(taken)} acknowledged deliveries are not in the database")
    against = [ours / usual for ours, usual in zip(rates["selfheal"], rates["usual"], strict=True)]
    cheaper = [usual / ours for ours, usual in zip(burnt["selfheal"], burnt["usual"], strict=True)]
    bare = [ours / noop for ours, noop in zip(rates["selfheal"], rates["no-op"], strict=True)]
    return [
        Figure("webhooks: a no-op FastAPI route", spread(rates["no-op"], "/s", 0)),
        Figure("webhooks: FastAPI, githubkit, enqueue_job", spread(rates["usual"], "/s", 0)),
        Figure("webhooks: Selfheal, committed", spread(rates["selfheal"], "/s", 0), note=f"{len(taken)} taken, none lost"),
        Figure("  times the usual route", spread(against, "×", 1), "≥ 5 ×", statistics.median(against) >= 5),
        Figure("  times the no-op route", spread(bare, "×", 2)),
        Figure("  CPU of one: no-op, usual, Selfheal", ", ".join(spread(burnt[name], "ms", 2) for name in routes)),
        Figure(
            "  CPU: times less than the usual route", spread(cheaper, "×", 1), note="says more than rates on a busy machine"
        ),
        Figure("  p50 at half of that load", f"{calm.percentile(0.5) * 1000:.1f} ms", note=f"{half:.0f}/s for 4 s"),
        Figure("  p99 at half of that load", f"{calm.percentile(0.99) * 1000:.1f} ms"),
    ]


def _all_taken(name: str, answers: Answers) -> Answers:
    if answers.refused or not answers.taken:
        raise RuntimeError(f"{name} refused deliveries, by status: {answers.refused}")
    return answers


def _missing(database: Path, guids: list[str]) -> int:
    connection = sqlite3.connect(database)
    try:
        known = {guid for (guid,) in connection.execute("SELECT guid FROM deliveries WHERE decision = 'request'")}
    finally:
        connection.close()
    return len(set(guids) - known)


@asynccontextmanager
async def _route(kind: str, *arguments: str) -> AsyncIterator[tuple[int, int]]:
    """A route of `tests.bench.routes` in its own process; its port and process id."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.routes", str(port), kind, *arguments, cwd=ROOT
    )
    try:
        async with httpx.AsyncClient() as client, asyncio.timeout(60):
            while True:
                try:
                    await client.get(f"http://127.0.0.1:{port}/")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
