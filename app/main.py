"""The web process: the app, its lifespan, and serving it. Imports nothing that heals: it starts at once and stays small."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TypedDict

import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.clock import SystemClock
from app.health import Health
from app.intake import StoreIntake
from app.metrics import Metrics, scraped
from app.queue import Queue
from app.redis import open_redis
from app.settings import PREFIX, Settings, SettingsError
from app.store.store import Store, open_store
from webhooks.intake import Intake
from webhooks.receive import Receiver


class State(TypedDict):
    """What lives as long as the app; requests see it as `request.state`."""

    store: Store
    intake: Intake
    health: Health
    metrics: Metrics


def create_app(settings: Settings) -> FastAPI:
    """The web app. Raises `SettingsError` when there is no webhook secret: unsigned webhooks are never taken."""
    if settings.github_webhook_secret is None or not settings.github_webhook_secret.get_secret_value():
        raise SettingsError(f"{PREFIX}GITHUB_WEBHOOK_SECRET: must be set; webhooks without a signature are not accepted")
    secrets = [settings.github_webhook_secret, settings.github_webhook_secret_previous]
    receiver = Receiver(
        secrets=tuple(secret.get_secret_value().encode() for secret in secrets if secret and secret.get_secret_value()),
        own_app_id=settings.github_app_id,
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        async with open_store(settings, SystemClock()) as store, open_redis(settings) as redis_url:
            queue = Queue.to(redis_url, settings)
            try:
                yield State(
                    store=store,
                    intake=StoreIntake(store, queue, traced=settings.otlp_endpoint is not None),
                    health=Health(store.database, redis_url),
                    metrics=Metrics(store.figures),
                )
            finally:
                await queue.close()

    app = FastAPI(title="Selfheal", lifespan=lifespan, openapi_url=None)
    app.add_api_route("/healthz", _healthy, methods=["GET"])
    app.add_api_route("/readyz", _ready, methods=["GET"])
    app.add_api_route("/metrics", scraped, methods=["GET"])
    app.add_api_route("/webhooks/github", _timed(receiver.receive), methods=["POST"])
    return app


async def _healthy() -> dict[str, str]:
    """This process is alive; nothing else is asked, so that a database that is away has nobody restarted."""
    return {"status": "ok"}


async def _ready(request: Request) -> JSONResponse:
    health: Health = request.state.health
    parts = await health.parts()
    is_ready = all(part.ok for part in parts.values())
    told = {name: {"ok": part.ok, "reason": part.reason} for name, part in parts.items()}
    return JSONResponse({"status": "ready" if is_ready else "not ready", "parts": told}, 200 if is_ready else 503)


def _timed(receive: Callable[[Request], Awaitable[JSONResponse]]) -> Callable[[Request], Awaitable[JSONResponse]]:
    async def timed(request: Request) -> JSONResponse:
        began = time.perf_counter()
        answer = await receive(request)
        metrics: Metrics = request.state.metrics
        metrics.webhook(answer.status_code, time.perf_counter() - began)
        return answer

    return timed


class _Server(uvicorn.Server):
    """Tells when it answers, and leaves signals to our process: uvicorn would raise them again when it is done, before we
    could stop what we started."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()


def _with(app: FastAPI, state: Mapping[str, object]) -> ASGIApp:
    """The app, its requests seeing the state of a lifespan that is run by ourselves."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = dict(state)
        await app(scope, receive, send)

    return call


async def serve(settings: Settings, stop: asyncio.Event, on_listening: Callable[[str], None]) -> None:
    """Serve until `stop` is set. `on_listening` is told the URL, with the real port, once requests are answered.

    Raises `SettingsError` (no secret, address not to be had), `StoreError`, `RedisMissing`.
    """
    app = create_app(settings)
    try:
        listener = socket.create_server(
            (settings.host, settings.port), family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        raise SettingsError(
            f"{PREFIX}HOST, {PREFIX}PORT: cannot listen on {settings.host}:{settings.port}: {error.strerror}"
        ) from error
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{listener.getsockname()[1]}"
    with listener:
        # The lifespan is run here, not by uvicorn: it would turn our errors into a log line and an exit.
        async with app.router.lifespan_context(app) as state:
            config = uvicorn.Config(
                _with(app, state or {}), lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=10
            )
            server = _Server(config, on_started=lambda: on_listening(url))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                server.should_exit = True
                stopping.cancel()
                await asyncio.wait({serving, stopping})
    serving.result()
