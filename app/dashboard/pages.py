"""The pages for people, rendered here and kept alive by htmx: the list of attempts, and one attempt with its timeline.

Each works without a script: what a script adds is that it stays up to date. Pages only read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import structlog
from fastapi import FastAPI, Query, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from agent.contract.outcome import Outcome
from app.clock import Clock
from app.dashboard import api
from app.dashboard.access import Guard
from app.dashboard.beside import beside
from app.dashboard.diffs import affordable
from app.dashboard.feed import Feed, News, retold
from app.dashboard.filters import STATUSES, BadQuery, asked, cursor_of, only_known
from app.dashboard.lookup import Text, known, store_of
from app.dashboard.rendering import Renderer
from app.dashboard.safe_text import Links, Shower
from app.dashboard.status import standing
from app.dashboard.stream import Seen, message, place, stream
from app.dashboard.summary import Story
from app.observability.metrics import scraped
from app.observability.traces import UNTRACED
from app.settings import Settings
from app.store.database.retries import is_passing
from app.store.values import Attempt

ROWS = 30
MOST_EVENTS = 1_000  # of one timeline on a page; the API has all
_log = structlog.get_logger(__name__)
_STATIC = Path(__file__).parent / "static"


def create_pages(settings: Settings) -> ASGIApp:
    """Pages, API and figures; requests find `store`, `feed` and `metrics` in their state."""
    shower = Shower(settings.secrets)
    renderer = Renderer(shower, Links(settings.github_api_url))
    app = FastAPI(
        title="Selfheal",
        description="What Selfheal did and does: attempts and their timelines. It only reads.",
        version="1",
        openapi_url=f"{api.PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        telemetry=UNTRACED,
    )
    app.include_router(api.router(shower))
    api.problems(app)
    app.add_api_route("/metrics", scraped, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    _Pages(renderer).add_to(app)
    return Guard(app, settings.pages_host, settings.pages_names)


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
            methods = ["GET"] if route == self.stream else ["GET", "HEAD"]  # a stream has no end to tell the length of
            app.add_api_route(path, route, methods=methods, include_in_schema=False, response_class=HTMLResponse)
        app.add_exception_handler(HTTPException, self.failed)  # type: ignore[arg-type]
        for away in (OSError, SQLAlchemyError):
            app.add_exception_handler(away, self.without_database)

    async def attempts(
        self,
        request: Request,
        repository: Text = "",
        state: Text = "",
        trigger: Text = "",
        before: Text = "",
        seen: Text = "",
    ) -> Response:
        """The list; only its rows where htmx asks, and nothing where those are the ones that it has `seen`."""
        try:
            only_known(sorted(set(request.query_params) - {"seen"}))
            query, problem = asked(repository, state, trigger, before), ""
        except BadQuery as error:
            query, problem = asked("", "", "", ""), str(error)
        found = await store_of(request).page_of_attempts(query.wanted, query.before, ROWS + 1)
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
        page = await self._rendered("attempts.html", rows=rows, version=version, states=states, **values)
        return HTMLResponse(page, 422 if problem else 200)

    async def attempt(self, request: Request, attempt_id: str) -> Response:
        """One attempt as it is now; the beginning of an id leads to the whole."""
        attempt = await known(request, attempt_id)
        if attempt.id != attempt_id:
            return RedirectResponse(f"/attempts/{attempt.id}", 307)
        story, timeline = await retold(store_of(request), attempt.id, Story(), MOST_EVENTS)
        values = _values(attempt, story, store_of(request).clock)
        left_out = story.events - len(timeline)
        return HTMLResponse(await self._rendered("attempt.html", timeline=timeline, left_out=left_out, **values))

    async def stream(
        self,
        request: Request,
        attempt_id: str,
        after: Annotated[int, Query(ge=0, le=2**53)] = 0,
        since: Annotated[int, Query(ge=0, le=2**53)] = 2**53,
    ) -> Response:
        """What comes after the event `after`, as pieces of the attempt's page, which knows how it stood at `since`."""
        attempt = await known(request, attempt_id)
        feed: Feed = request.state.feed
        clock = store_of(request).clock
        return await stream(feed, attempt.id, place(request, after, since), lambda news: self._pieces(news, clock))

    async def _pieces(self, news: News, clock: Clock) -> bytes:
        """One message: new lines of the timeline, and what else they change. Made once for all who lack the same."""
        moment = news.moment
        if moment is None:
            html = await self._rendered("lines.html", timeline=news.events)
            return message(html, event="news", id_=Seen(news.events[-1].sequence, news.since))

        def make() -> bytes:
            values = _values(moment.attempt, moment.story, clock)
            html = self._renderer.page("pieces.html", timeline=news.events, since=news.since, **values)
            return message(html, event="news", id_=Seen(moment.events, moment.events))

        return await moment.once(f"page {news.since} {news.events[0].sequence if news.events else ''}", make)

    async def _rendered(self, name: str, **values: Any) -> str:
        """A large page takes a while."""
        return await beside(lambda: self._renderer.page(name, **values))

    async def without_database(self, request: Request, error: Exception) -> Response:
        if not is_passing(error):
            raise error
        _log.warning("a page cannot read the database", path=request.url.path, error=f"{error}".partition("\n")[0])
        said = "The database does not answer just now. Try again in a moment; nothing that runs is lost by that."
        return await self.failed(request, HTTPException(503, said, {"retry-after": "5"}))

    async def failed(self, request: Request, error: HTTPException) -> Response:
        if request.url.path.startswith(api.PREFIX):
            return await api.as_problem(request, error)
        said = self._renderer.page("problem.html", status=error.status_code, detail=str(error.detail))
        return HTMLResponse(said, error.status_code, headers=error.headers)


def _values(attempt: Attempt, story: Story, clock: Clock) -> Mapping[str, Any]:
    """What every piece of an attempt's page is rendered from."""
    by_worth = sorted(story.tried, key=lambda tried: (tried.state in ("chosen", "proven"), tried.number), reverse=True)
    return {
        "attempt": attempt,
        "story": story,
        "standing": standing(attempt, story),
        "now": clock.now(),
        "shown": affordable((tried.number, tried.diff) for tried in by_worth),
    }
