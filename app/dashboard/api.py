"""`/api/v1`: attempts and their timelines as JSON, described by OpenAPI, in pages with opaque cursors.

Texts are bounded and without this installation's secrets; what a terminal might obey is escaped as JSON allows.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.responses import Response

from agent.contract.outcome import Outcome
from app.dashboard.beside import beside
from app.dashboard.feed import PAGE, Feed, News
from app.dashboard.filters import BadQuery, asked, cursor_of
from app.dashboard.lookup import known, store_of
from app.dashboard.safe_text import Shower
from app.dashboard.stream import Seen, message, place, stream
from app.store.events import Stored
from app.store.store import Store
from app.store.values import Attempt, Status, Trigger

PREFIX = "/api/v1"
MOST_BYTES = 1_000_000  # of one page of events


class ListQuery(BaseModel, extra="forbid"):
    """Which attempts; a name that is none of these is refused, for it would filter nothing."""

    repository: str = Field("", max_length=500, description="A part of a full name.")
    state: str = Field("", max_length=500, description="A status or an outcome.")
    trigger: str = Field("", max_length=500)
    before: str = Field("", max_length=500, description="`next` of the page before.")
    limit: int = Field(50, ge=1, le=200)


class EventsQuery(BaseModel, extra="forbid"):
    after: int = Field(0, ge=0, le=2**53, description="The `sequence` of the last event that is known.")
    limit: int = Field(200, ge=1, le=1000)


class PullRequestOut(BaseModel):
    number: int
    url: str
    state: str = Field(description="open, closed or merged")


class AttemptOut(BaseModel):
    """One try to heal one commit of one repository."""

    id: str
    repository: str
    head_sha: str | None
    head_branch: str | None
    number: int | None = Field(description="Which attempt of its commit it is, from 1.")
    trigger: Trigger
    started_by: list[str] = Field(description="What asked for it: names of workflows, a command with its author.")
    status: Status
    outcome: Outcome | None = Field(description="How it ended; null before that.")
    reason: str | None
    next_step: str | None
    question: str | None = Field(description="What a person is asked while it waits.")
    pull_request: PullRequestOut | None
    confidence: float | None = Field(description="Of its repair, 0 to 1.")
    tokens_in: int
    tokens_out: int
    model_calls: int
    cost: float | None = Field(description="US dollars; null where no price is known.")
    tries: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class AttemptsOut(BaseModel):
    attempts: list[AttemptOut] = Field(description="Newest first.")
    next: str | None = Field(description="The `before` of the next page; null where there is none.")


class EventOut(BaseModel, extra="allow"):
    """One event of the timeline; further fields depend on its kind."""

    sequence: int = Field(description="From 1 without gaps.")
    at: datetime
    kind: str
    text: str = Field(description="One line for people, or empty.")


class EventsOut(BaseModel):
    events: list[EventOut]
    next: int | None = Field(description="The `after` of the next page; null where there is none yet.")


class Problem(BaseModel):
    """What is wrong with a request (RFC 9457)."""

    title: str
    status: int
    detail: str


class Answer(JSONResponse):
    """JSON in ASCII: nothing in it can steer the terminal that shows it."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode()


_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "content": {"application/problem+json": {}}} for code in (404, 422)
}


def router(shower: Shower) -> APIRouter:
    """The routes; they find `store` and `feed` in the request's state."""
    routes = APIRouter(prefix=PREFIX, default_response_class=Answer)

    @routes.get("/attempts", responses={422: _PROBLEMS[422]})
    async def list_attempts(request: Request, query: Annotated[ListQuery, Query()]) -> AttemptsOut:
        """Attempts, newest first."""
        wanted = asked(query.repository, query.state, query.trigger, query.before)
        attempts = await store_of(request).page_of_attempts(wanted.wanted, wanted.before, query.limit + 1)
        more = len(attempts) > query.limit
        shown = attempts[: query.limit]
        told = await beside(lambda: [_attempt(each, shower) for each in shown])
        return AttemptsOut(attempts=told, next=cursor_of(shown[-1]) if more else None)

    @routes.get("/attempts/{attempt_id}", responses={404: _PROBLEMS[404]})
    async def show_attempt(request: Request, attempt_id: str) -> AttemptOut:
        """One attempt, by its id or a beginning of it of 8 digits or more that no other has."""
        return _attempt(await known(request, attempt_id), shower)

    @routes.get(
        "/attempts/{attempt_id}/events",
        response_model=EventsOut,
        responses={
            **_PROBLEMS,
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
            503: {"description": "As many streams are open as may be; `Retry-After` says when to come again."},
        },
    )
    async def list_events(
        request: Request,
        attempt_id: str,
        query: Annotated[EventsQuery, Query()],
    ) -> Response:
        """The timeline beyond the event `after`; as a stream that goes on until the attempt has ended, where
        `Accept: text/event-stream` asks for that. A stream begins anew where `Last-Event-ID` says."""
        attempt = await known(request, attempt_id)
        if "text/event-stream" in request.headers.get("accept", ""):
            feed: Feed = request.state.feed
            seen = place(request, query.after)
            if attempt.status == "ended" and seen.after >= await _newest(store_of(request), attempt.id):
                return Response(status_code=204)  # by which a browser knows that it need not come again
            return await stream(feed, attempt.id, seen, lambda news: _messages(news, shower))
        return Answer(await _page(store_of(request), attempt.id, query.after, query.limit, shower))

    return routes


def problems(app: FastAPI) -> None:
    """Let wrong requests for JSON be answered as `Problem`s."""

    @app.exception_handler(BadQuery)
    async def bad_query(_: Request, error: BadQuery) -> Response:
        return problem(422, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return problem(422, "; ".join(map(_wrong, error.errors()[:5])))


def _wrong(each: Any) -> str:
    name = ".".join(map(str, each["loc"][1:]))[:100]
    said = "is not a parameter here" if each["type"] == "extra_forbidden" else each["msg"]
    return f"{name}: {said}"


def problem(status: int, detail: str) -> Response:
    titles = {404: "Not found", 405: "Not allowed", 422: "The request cannot be understood"}
    body = {"title": titles.get(status, "It failed"), "status": status, "detail": detail}
    return Answer(body, status, media_type="application/problem+json")


def _attempt(attempt: Attempt, shower: Shower) -> AttemptOut:
    pull = attempt.pull_request
    return AttemptOut(
        id=attempt.id,
        repository=shower.text(attempt.repository.full_name),
        head_sha=attempt.head_sha,
        head_branch=_text(attempt.head_branch, shower),
        number=attempt.number,
        trigger=attempt.trigger,
        started_by=[shower.text(request.title, 500) for request in attempt.requests[:50]],
        status=attempt.status,
        outcome=attempt.outcome,
        reason=_text(attempt.reason, shower),
        next_step=_text(attempt.next_step, shower),
        question=shower.text(attempt.question.text) if attempt.question else None,
        pull_request=PullRequestOut(number=pull.number, url=shower.text(pull.url), state=pull.state) if pull else None,
        confidence=attempt.confidence,
        tokens_in=attempt.usage.tokens_in,
        tokens_out=attempt.usage.tokens_out,
        model_calls=attempt.usage.calls,
        cost=attempt.usage.cost,
        tries=attempt.tries,
        created_at=attempt.created_at,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
    )


def _text(text: str | None, shower: Shower) -> str | None:
    return None if text is None else shower.text(text)


def _event(stored: Stored, shower: Shower) -> dict[str, Any]:
    fields = {name: _bounded(value, shower) for name, value in msgspec.to_builtins(stored.event).items()}
    return {"sequence": stored.sequence, "at": stored.at.isoformat(), **fields}


def _bounded(value: Any, shower: Shower) -> Any:
    if isinstance(value, str):
        return shower.text(value)
    if isinstance(value, list):
        return [_bounded(each, shower) for each in value[:200]]
    if isinstance(value, dict):
        return {name: _bounded(each, shower) for name, each in value.items()}
    return value


async def _newest(store: Store, attempt_id: str) -> int:
    mark = (await store.marks((attempt_id,))).get(attempt_id)
    return mark.events if mark else 0


async def _page(store: Store, attempt_id: str, after: int, limit: int, shower: Shower) -> dict[str, Any]:
    """`EventsOut`: at most `limit` events, and fewer where they are large; one at least, where there is one."""
    shown: list[dict[str, Any]] = []
    size = 0
    while len(shown) < limit and size < MOST_BYTES:
        events = await store.timeline(attempt_id, after, min(PAGE, limit - len(shown)))
        for stored in events:
            shown.append(await beside(partial(_event, stored, shower)))
            after = stored.sequence
            size += len(json.dumps(shown[-1]))
            if size >= MOST_BYTES:
                break
        if not events:
            break
    return {"events": shown, "next": after if shown and after < await _newest(store, attempt_id) else None}


async def _messages(news: News, shower: Shower) -> bytes:
    def make() -> bytes:
        told = ((stored.sequence, json.dumps(_event(stored, shower))) for stored in news.events)
        return b"".join(message(text, id_=Seen(sequence, sequence)) for sequence, text in told)

    if news.moment is None or not news.events:
        return await beside(make)
    return await news.moment.once(f"api {news.events[0].sequence}", make)


async def as_problem(_: Request, error: AnyHTTPException) -> Response:
    answer = problem(error.status_code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer
