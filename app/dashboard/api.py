"""`/api/v1`: attempts and their timelines as JSON, described by OpenAPI and paged by opaque cursors.

Texts are bounded and contain no secrets of this installation. Control characters are JSON-escaped.
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
from app.dashboard.feed import PAGE, Feed, Update
from app.dashboard.filters import cursor_of, find_attempt, parse_query, store_of
from app.dashboard.safe_text import Sanitizer, run_in_thread
from app.dashboard.stream import Position, message, position_of, stream
from app.store.events import StoredEvent
from app.store.store import Store
from app.store.values import Attempt, Status, Trigger

PREFIX = "/api/v1"
_SAME_FIELDS = (  # of an attempt and of its JSON
    *("id", "head_sha", "number", "trigger", "status", "outcome", "confidence", "tries"),
    *("created_at", "started_at", "ended_at"),
)
MOST_BYTES = 1_000_000  # of one page of events


class ListQuery(BaseModel, extra="forbid"):
    """Filters. Unknown parameters are rejected, as they would have no effect."""

    repository: str = Field("", max_length=500, description="Part of the repository's full name.")
    state: str = Field("", max_length=500, description="A status or an outcome.")
    trigger: str = Field("", max_length=500)
    before: str = Field("", max_length=500, description="`next` from the previous page.")
    limit: int = Field(50, ge=1, le=200)


class EventsQuery(BaseModel, extra="forbid"):
    after: int = Field(0, ge=0, le=2**53, description="The `sequence` of the last event received.")
    limit: int = Field(200, ge=1, le=1000)


class PullRequestOut(BaseModel):
    number: int
    url: str
    state: str = Field(description="open, closed or merged")


class AttemptOut(BaseModel):
    """One attempt to repair one commit of one repository."""

    id: str
    repository: str
    head_sha: str | None
    head_branch: str | None
    number: int | None = Field(description="Number of this attempt among the commit's attempts, from 1.")
    trigger: Trigger
    started_by: list[str] = Field(description="What requested it: workflow names, or a command with its author.")
    status: Status
    outcome: Outcome | None = Field(description="Null until the attempt ends.")
    reason: str | None
    next_step: str | None
    question: str | None = Field(description="The question, while it waits for an answer.")
    pull_request: PullRequestOut | None
    confidence: float | None = Field(description="Confidence in the repair, from 0 to 1.")
    tokens_in: int
    tokens_out: int
    model_calls: int
    cost: float | None = Field(description="US dollars; null if unknown.")
    tries: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class AttemptsOut(BaseModel):
    attempts: list[AttemptOut] = Field(description="Newest first.")
    next: str | None = Field(description="The `before` of the next page; null on the last page.")


class EventOut(BaseModel, extra="allow"):
    """One event of the timeline; further fields depend on its kind."""

    sequence: int = Field(description="Consecutive, from 1.")
    at: datetime
    kind: str
    text: str = Field(description="One line for people, or empty.")


class EventsOut(BaseModel):
    events: list[EventOut]
    next: int | None = Field(description="The `after` of the next page; null if there are no more events yet.")


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    title: str
    status: int
    detail: str


class Answer(JSONResponse):
    """JSON in ASCII, safe to show on a terminal."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode()


def refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    """How OpenAPI describes answers that are a `Problem`."""
    return {code: {"model": Problem, "content": {"application/problem+json": {}}} for code in codes}


def router(sanitizer: Sanitizer) -> APIRouter:
    """The routes; they take `store` and `feed` from the request's state."""
    routes = APIRouter(prefix=PREFIX, default_response_class=Answer)

    @routes.get("/attempts", responses=refusals(422))
    async def list_attempts(request: Request, query: Annotated[ListQuery, Query()]) -> AttemptsOut:
        """Attempts, newest first."""
        wanted = parse_query(query.repository, query.state, query.trigger, query.before)
        attempts = await store_of(request).page_of_attempts(wanted, query.limit + 1)
        more = len(attempts) > query.limit
        shown = attempts[: query.limit]
        found = await run_in_thread(lambda: [_attempt(each, sanitizer) for each in shown])
        return AttemptsOut(attempts=found, next=cursor_of(shown[-1]) if more else None)

    @routes.get("/attempts/{attempt_id}", responses=refusals(404))
    async def show_attempt(request: Request, attempt_id: str) -> AttemptOut:
        """One attempt, by its id or a unique prefix of at least 8 digits."""
        return _attempt(await find_attempt(request, attempt_id), sanitizer)

    @routes.get(
        "/attempts/{attempt_id}/events",
        response_model=EventsOut,
        responses={
            **refusals(404, 422),
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
            503: {"description": "Too many streams are open; `Retry-After` gives the seconds to wait."},
        },
    )
    async def list_events(
        request: Request,
        attempt_id: str,
        query: Annotated[EventsQuery, Query()],
    ) -> Response:
        """Events after the event `after`. With `Accept: text/event-stream`, a stream until the attempt ends, which resumes
        after `Last-Event-ID`."""
        attempt = await find_attempt(request, attempt_id)
        if "text/event-stream" in request.headers.get("accept", ""):
            feed: Feed = request.state.feed
            seen = position_of(request, query.after)
            if attempt.status == "ended" and seen.after >= await _newest(store_of(request), attempt.id):
                return Response(status_code=204)  # tells the browser not to reconnect
            return await stream(feed, attempt.id, seen, lambda update: _messages(update, sanitizer))
        return Answer(await _page(store_of(request), attempt.id, query.after, query.limit, sanitizer))

    return routes


def problems(app: FastAPI) -> None:
    """Answer invalid API requests with a `Problem`."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return problem(422, "; ".join(map(_wrong, error.errors()[:5])))


def _wrong(each: Any) -> str:
    if each["type"] == "json_invalid":
        return f"the body is no JSON, at character {each['loc'][-1]}: {each['ctx']['error']}"
    if not (name := ".".join(map(str, each["loc"][1:]))[:100]):
        return "the body must be one JSON object"
    if each["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return f"{name}: it is missing"
    is_unknown = each["type"] in ("extra_forbidden", "unexpected_keyword_argument")
    return f"{name}: {'unknown parameter' if is_unknown else each['msg']}"


def problem(status: int, detail: str) -> Response:
    titles = {404: "Not found", 405: "Method not allowed", 422: "Invalid request"}
    body = {"title": titles.get(status, "Request failed"), "status": status, "detail": detail}
    return Answer(body, status, media_type="application/problem+json")


def _attempt(attempt: Attempt, sanitizer: Sanitizer) -> AttemptOut:
    pull = attempt.pull_request
    return AttemptOut(
        **{name: getattr(attempt, name) for name in _SAME_FIELDS},
        repository=sanitizer.text(attempt.repository.full_name),
        head_branch=_text(attempt.head_branch, sanitizer),
        started_by=[sanitizer.text(request.title, 500) for request in attempt.requests[:50]],
        reason=_text(attempt.reason, sanitizer),
        next_step=_text(attempt.next_step, sanitizer),
        question=sanitizer.text(attempt.question.text) if attempt.question else None,
        pull_request=PullRequestOut(number=pull.number, url=sanitizer.text(pull.url), state=pull.state) if pull else None,
        tokens_in=attempt.usage.tokens_in,
        tokens_out=attempt.usage.tokens_out,
        model_calls=attempt.usage.calls,
        cost=attempt.usage.cost,
    )


def _text(text: str | None, sanitizer: Sanitizer) -> str | None:
    return None if text is None else sanitizer.text(text)


def _event(stored: StoredEvent, sanitizer: Sanitizer) -> dict[str, Any]:
    fields = {name: _bounded(value, sanitizer) for name, value in msgspec.to_builtins(stored.event).items()}
    return {"sequence": stored.sequence, "at": stored.at.isoformat(), **fields}


def _bounded(value: Any, sanitizer: Sanitizer) -> Any:
    if isinstance(value, str):
        return sanitizer.text(value)
    if isinstance(value, list):
        return [_bounded(each, sanitizer) for each in value[:200]]
    if isinstance(value, dict):
        return {name: _bounded(each, sanitizer) for name, each in value.items()}
    return value


async def _newest(store: Store, attempt_id: str) -> int:
    mark = (await store.versions((attempt_id,))).get(attempt_id)
    return mark.events if mark else 0


async def _page(store: Store, attempt_id: str, after: int, limit: int, sanitizer: Sanitizer) -> dict[str, Any]:
    """`EventsOut` with at most `limit` events; fewer if they are large, but at least one if any is left."""
    shown: list[dict[str, Any]] = []
    size = 0
    while len(shown) < limit and size < MOST_BYTES:
        events = await store.timeline(attempt_id, after, min(PAGE, limit - len(shown)))
        for stored in events:
            shown.append(await run_in_thread(partial(_event, stored, sanitizer)))
            after = stored.sequence
            size += len(json.dumps(shown[-1]))
            if size >= MOST_BYTES:
                break
        if not events:
            break
    return {"events": shown, "next": after if shown and after < await _newest(store, attempt_id) else None}


async def _messages(update: Update, sanitizer: Sanitizer) -> bytes:
    def make() -> bytes:
        events = ((stored.sequence, json.dumps(_event(stored, sanitizer))) for stored in update.events)
        return b"".join(message(text, id_=Position(sequence, sequence)) for sequence, text in events)

    if update.snapshot is None or not update.events:
        return await run_in_thread(make)
    return await update.snapshot.once(f"api {update.events[0].sequence}", make)


async def as_problem(_: Request, error: AnyHTTPException) -> Response:
    answer = problem(error.status_code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer
