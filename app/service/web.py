"""The web process: webhooks on one address, the pages on another, one lifespan for both.

It imports nothing from the engine, so that it starts fast and stays small.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TypedDict

import structlog
import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.models.values import is_loopback
from app.clock import SystemClock
from app.dashboard.feed import Feed, open_feed
from app.dashboard.pages import create_pages
from app.dashboard.safe_text import Sanitizer
from app.observability.metrics import Metrics
from app.observability.traces import UNTRACED
from app.queue.queue import Queue
from app.queue.redis import open_redis
from app.service.health import Health
from app.service.http import Http
from app.service.intake import StoreIntake
from app.service.solving import Solutions, sweep
from app.service.solving import router as solving_routes
from app.settings import PREFIX, Settings, SettingsError
from app.store.store import Store, open_store
from sandbox.folders import leftovers
from webhooks.intake import Intake
from webhooks.receive import Receiver

_OPEN_FILES = 8192  # streams are open files too, and the default limit is 1024

_log = structlog.get_logger()


class AppState(TypedDict):
    """Objects that live as long as the app; available as `request.state`."""

    store: Store  # for pages
    intake: Intake
    health: Health
    metrics: Metrics
    feed: Feed


def create_webhooks(settings: Settings) -> ASGIApp:
    """The webhook route. Raises `SettingsError` without a secret: unsigned webhooks are never accepted."""
    if settings.github_webhook_secret is None or not settings.github_webhook_secret.get_secret_value():
        raise SettingsError(f"{PREFIX}GITHUB_WEBHOOK_SECRET must be set; unsigned webhooks are not accepted")
    secrets = [settings.github_webhook_secret, settings.github_webhook_secret_previous]
    return _Timed(
        Receiver(
            secrets=tuple(secret.get_secret_value().encode() for secret in secrets if secret and secret.get_secret_value()),
            own_app_id=settings.github_app_id,
            branch_prefix=settings.branch_prefix,
        )
    )


def create_app(settings: Settings) -> FastAPI:
    """The health routes of the webhook address, and the lifespan of the process."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[AppState]:
        async with (
            open_store(settings, SystemClock()) as store,
            open_feed(pages_store := store.for_pages()) as feed,
            open_redis(settings) as redis_url,
        ):
            queue = Queue.to(redis_url, settings)
            health = Health(store.database, redis_url)
            await health.parts()  # logs what is missing at the start
            try:
                yield AppState(
                    store=pages_store,
                    intake=StoreIntake(store, queue, traced=settings.otlp_endpoint is not None),
                    health=health,
                    feed=feed,
                    metrics=Metrics(store.figures, health.database_answers, lambda: len(leftovers(settings.sandboxes))),
                )
            finally:
                await queue.close()

    app = FastAPI(title="Selfheal", lifespan=lifespan, openapi_url=None, telemetry=UNTRACED)
    app.add_api_route("/healthz", _healthy, methods=["GET", "HEAD"])
    app.add_api_route("/readyz", _ready, methods=["GET", "HEAD"])
    return app


async def _healthy() -> dict[str, str]:
    """This process is alive. Checks nothing else, so that an unavailable database causes no restarts."""
    return {"status": "ok"}


async def _ready(request: Request) -> JSONResponse:
    health: Health = request.state.health
    parts = await health.parts()
    is_ready = not any(parts.values())
    report = {name: {"ok": not reason, "reason": reason} for name, reason in parts.items()}
    return JSONResponse({"status": "ready" if is_ready else "not ready", "parts": report}, 200 if is_ready else 503)


class _Timed:
    """The webhook route as a plain ASGI app, without a framework's layers, with its duration measured."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        began, status = time.perf_counter(), 500  # the status if it raises
        try:
            answer = await self._receiver.receive(request)
            status = answer.status_code
        finally:
            metrics: Metrics = request.state.metrics
            metrics.webhook(status, time.perf_counter() - began)
        await answer(scope, receive, send)


class _WebServer(uvicorn.Server):
    """Reports when it is ready, and leaves signals to our process: uvicorn would re-raise them before our shutdown."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()


def _with(app: ASGIApp, state: Mapping[str, object]) -> ASGIApp:
    """Wraps the app and adds the state of the lifespan that this module runs."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = dict(state)
        await app(scope, receive, send)

    return call


def _first(route: Route, others: ASGIApp) -> ASGIApp:
    """Routes deliveries by one comparison; a `Router` would cost as much as parsing a payload."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        app = route.handle if scope["path"] == route.path else others
        await app(scope, receive, send)

    return call


async def serve(settings: Settings, stop: asyncio.Event, on_listening: Callable[[str], None]) -> None:
    """Serve until `stop` is set. `on_listening` gets the URL, with the real port, once requests are answered.

    Raises `SettingsError` (no secret, address unavailable, pages exposed without consent), `StoreError`, `RedisMissing`.
    """
    webhooks_route = Route("/webhooks/github", create_webhooks(settings), methods=["POST"])
    app = create_app(settings)
    if not is_loopback(settings.pages_host) and not settings.pages_without_sign_in:
        raise SettingsError(
            f"{PREFIX}PAGES_HOST: {settings.pages_host} is not a loopback address, and the pages have no sign-in; "
            f"use 127.0.0.1, or set {PREFIX}PAGES_WITHOUT_SIGN_IN=true if something else controls access"
        )
    _allow_open_files()
    with (
        _listener(settings.host, settings.port, "") as webhooks,
        _listener(settings.pages_host, settings.pages_port, "PAGES_") as pages,
    ):
        # Not run by uvicorn, which would turn our errors into a log line and an exit.
        async with app.router.lifespan_context(app) as state:
            await asyncio.to_thread(sweep)
            known = state or {}
            feed: Feed = known["feed"]
            solutions = Solutions(settings, Sanitizer(settings.secrets))
            pages_app = create_pages(settings, solving_routes(solutions))
            servers = {
                # No proxy headers: a webhook's scheme and origin do not matter.
                _server(
                    _with(_first(webhooks_route, app), known), lambda: on_listening(_url(webhooks)), proxy_headers=False
                ): webhooks,
                _server(_with(pages_app, known), lambda: _pages_listen(_url(pages), settings)): pages,
            }
            serving = {asyncio.create_task(server.serve(sockets=[listener])) for server, listener in servers.items()}
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({*serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await solutions.close()
                await feed.close()  # the servers would wait for open streams
                for server in servers:
                    server.should_exit = True
                stopping.cancel()
                await asyncio.wait({*serving, stopping})
    for served in serving:
        served.result()


def _server(app: ASGIApp, on_started: Callable[[], None], *, proxy_headers: bool = True) -> _WebServer:
    config = uvicorn.Config(
        app,
        http=Http,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=proxy_headers,
        timeout_graceful_shutdown=10,
    )
    return _WebServer(config, on_started)


def _listener(host: str, port: int, setting: str) -> socket.socket:
    """A listening socket; `::` accepts IPv4 too. Raises `SettingsError`, which names the settings."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    is_both = host == "::" and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, backlog=2048, dualstack_ipv6=is_both)
    except OSError as error:
        names = f"{PREFIX}{setting}HOST, {PREFIX}{setting}PORT"
        raise SettingsError(f"{names}: cannot listen on {host}:{port}: {error.strerror}") from error


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _pages_listen(url: str, settings: Settings) -> None:
    beyond = "" if is_loopback(settings.pages_host) else "; anyone who can reach this address can read everything"
    _log.info("pages listening", url=url, sign_in=f"none{beyond}")


def _allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
