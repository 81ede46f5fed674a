"""The HTML pages: the list of attempts, and one attempt with its timeline.

They are rendered on the server and work without scripts; htmx keeps them up to date.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import structlog
from fastapi import APIRouter, FastAPI, Query, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from agent.contract.outcome import Outcome
from app.clock import Clock
from app.dashboard import api
from app.dashboard.access import HostGuard
from app.dashboard.diffs import affordable
from app.dashboard.feed import Feed, Update, extended_summary
from app.dashboard.filters import STATUSES, BadQuery, Text, cursor_of, find_attempt, parse_query, reject_unknown, store_of
from app.dashboard.rendering import Renderer
from app.dashboard.safe_text import Links, Sanitizer, run_in_thread
from app.dashboard.status import AttemptSummary, quota_text, status_text
from app.dashboard.stream import Position, message, position_of, stream
from app.observability.metrics import scraped
from app.observability.traces import UNTRACED
from app.settings import Settings
from app.store.database.retries import is_transient
from app.store.values import Attempt

ROWS = 30
MOST_EVENTS = 1_000  # of one timeline on a page; the API returns all
_log = structlog.get_logger(__name__)
_STATIC = Path(__file__).parent / "static"


def create_pages(settings: Settings, *more: APIRouter) -> ASGIApp:
    """Pages, API and metrics, and `more` routes of the API. Requests need `store`, `feed` and `metrics` in their state."""
    sanitizer = Sanitizer(settings.secrets)
    renderer = Renderer(sanitizer, Links(settings.github_api_url))
    app = FastAPI(
        title="Selfheal",
        description="Selfheal's attempts and their timelines (read-only), and code from specifications, for programs on this "
        "machine.",
        version="1",
        openapi_url=f"{api.PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        telemetry=UNTRACED,
    )
    for routes in (api.router(sanitizer), *more):
        app.include_router(routes)
    api.problems(app)
    app.add_api_route("/metrics", scraped, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    _Pages(renderer).add_to(app)
    return HostGuard(app, settings.pages_host, settings.pages_names)


class _Pages:
    """The routes of the pages."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def add_to(self, app: FastAPI) -> None:
        routes: dict[str, Callable[..., Any]] = {
            "/": self.attempts,
            "/attempts/{attempt_id}": self.attempt,
            "/attempts/{attempt_id}/stream": self.stream,
        }
        for path, route in routes.items():
            methods = ["GET"] if route == self.stream else ["GET", "HEAD"]  # a stream has no length
            app.add_api_route(path, route, methods=methods, include_in_schema=False, response_class=HTMLResponse)
        app.add_exception_handler(HTTPException, self.failed)  # type: ignore[arg-type]
        for error in (OSError, SQLAlchemyError):
            app.add_exception_handler(error, self.database_unavailable)

    async def attempts(
        self,
        request: Request,
        repository: Text = "",
        state: Text = "",
        trigger: Text = "",
        before: Text = "",
        seen: Text = "",
    ) -> Response:
        """The list of attempts. For htmx, only the rows, or no content if `seen` is their current version."""
        try:
            reject_unknown(sorted(set(request.query_params) - {"seen"}))
            query, problem = parse_query(repository, state, trigger, before), ""
        except BadQuery as error:
            query, problem = parse_query("", "", "", ""), error.detail
        found = await store_of(request).page_of_attempts(query, ROWS + 1)
        older = urlencode({**query.filters, "before": cursor_of(found[ROWS - 1])}) if len(found) > ROWS else None
        values = {
            "attempts": found[:ROWS],
            "older": older,
            "query": query,
            "here": urlencode({**query.filters, **({"before": before} if query.before else {})}),
            "problem": problem,
            "now": store_of(request).clock.now(),
        }
        rows = await self._rendered("rows.html", **values)
        version = hashlib.sha256(rows.encode()).hexdigest()[:16]
        if request.headers.get("hx-request") == "true" and request.headers.get("hx-target") == "attempts":
            if seen == version:
                return Response(status_code=204)
            return HTMLResponse(await self._rendered("list.html", rows=rows, version=version, **values))
        states = (*STATUSES, *Outcome)
        uses = [quota_text(use) for use in await store_of(request).quotas_used()]
        page = await self._rendered("attempts.html", rows=rows, version=version, states=states, uses=uses, **values)
        return HTMLResponse(page, 422 if problem else 200)

    async def attempt(self, request: Request, attempt_id: str) -> Response:
        """One attempt; a prefix of an id redirects to the full id."""
        attempt = await find_attempt(request, attempt_id)
        if attempt.id != attempt_id:
            return RedirectResponse(f"/attempts/{attempt.id}", 307)
        summary, timeline = await extended_summary(store_of(request), attempt.id, AttemptSummary(), MOST_EVENTS)
        values = _values(attempt, summary, store_of(request).clock)
        left_out = summary.events - len(timeline)
        return HTMLResponse(await self._rendered("attempt.html", timeline=timeline, left_out=left_out, **values))

    async def stream(
        self,
        request: Request,
        attempt_id: str,
        after: Annotated[int, Query(ge=0, le=2**53)] = 0,
        since: Annotated[int, Query(ge=0, le=2**53)] = 2**53,
    ) -> Response:
        """Fragments that update an attempt's page: changes after event `after`, for a page with the state at event `since`."""
        attempt = await find_attempt(request, attempt_id)
        feed: Feed = request.state.feed
        clock = store_of(request).clock
        return await stream(feed, attempt.id, position_of(request, after, since), lambda update: self._fragments(update, clock))

    async def _fragments(self, update: Update, clock: Clock) -> bytes:
        """One message: new lines of the timeline and the changed panels. Rendered once for all followers at that position."""
        snapshot = update.snapshot
        if snapshot is None:
            html = await self._rendered("lines.html", timeline=update.events)
            return message(html, event="news", id_=Position(update.events[-1].sequence, update.since))

        def make() -> bytes:
            values = _values(snapshot.attempt, snapshot.summary, clock)
            html = self._renderer.page("update.html", timeline=update.events, since=update.since, **values)
            return message(html, event="news", id_=Position(snapshot.events, snapshot.events))

        return await snapshot.once(f"page {update.since} {update.events[0].sequence if update.events else ''}", make)

    async def _rendered(self, name: str, **values: Any) -> str:
        """Render in a thread, as large pages take a while."""
        return await run_in_thread(lambda: self._renderer.page(name, **values))

    async def database_unavailable(self, request: Request, error: Exception) -> Response:
        if not is_transient(error):
            raise error
        _log.warning("a page cannot read the database", path=request.url.path, error=f"{error}".partition("\n")[0])
        detail = "The database is not responding. Try again in a moment. Running attempts are not affected."
        return await self.failed(request, HTTPException(503, detail, {"retry-after": "5"}))

    async def failed(self, request: Request, error: HTTPException) -> Response:
        if request.url.path.startswith(api.PREFIX):
            return await api.as_problem(request, error)
        html = self._renderer.page("problem.html", status=error.status_code, detail=str(error.detail))
        return HTMLResponse(html, error.status_code, headers=error.headers)


def _values(attempt: Attempt, summary: AttemptSummary, clock: Clock) -> Mapping[str, Any]:
    """The values for all templates of an attempt's page."""
    best_first = sorted(summary.changes, key=lambda change: (change.state in ("chosen", "proven"), change.number), reverse=True)
    return {
        "attempt": attempt,
        "summary": summary,
        "status_text": status_text(attempt, summary),
        "now": clock.now(),
        "shown": affordable((change.number, change.diff) for change in best_first),
    }
