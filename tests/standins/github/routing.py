"""Routes of the stand-in: which operation a request means, which permission it needs, and what a refusal looks like."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from tests.standins.github.state import Account, Installation, Json, Repository
from tests.standins.github.world import World

PERMISSION_LEVELS = {"none": 0, "read": 1, "write": 2, "admin": 3}


class Refusal(Exception):
    """An error answer, with GitHub's body."""

    def __init__(self, status: int, message: str, errors: list[Json] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors

    def answer(self) -> Answer:
        body: Json = {"message": self.message, "documentation_url": "https://docs.github.com/rest", "status": str(self.status)}
        if self.errors is not None:
            body["errors"] = self.errors
        return Answer.of(body, self.status)


def not_found() -> Refusal:
    return Refusal(404, "Not Found")


def invalid(resource: str, field_name: str, message: str) -> Refusal:
    detail = {"resource": resource, "field": field_name, "code": "custom", "message": message}
    return Refusal(422, f"Validation Failed: {message}" if resource != "Reference" else message, [detail])


@dataclass(slots=True)
class Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: object, status: int = 200, **headers: str) -> Answer:
        body = json.dumps(value).encode()
        made = {"content-type": "application/json; charset=utf-8"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return cls(status, body, made)

    @classmethod
    def empty(cls, status: int = 204) -> Answer:
        return cls(status)

    @classmethod
    def redirect(cls, url: str) -> Answer:
        return cls(302, b"", {"location": url})

    def json(self) -> Any:
        return json.loads(self.body) if self.body and "json" in self.headers.get("content-type", "") else None


@dataclass(frozen=True, slots=True)
class Actor:
    """Who calls: nobody, the App itself (JWT), an installation, or a person."""

    account: Account | None = None
    as_app: bool = False
    installation: Installation | None = None
    permissions: dict[str, str] = field(default_factory=dict)
    repository_ids: frozenset[int] | None = None

    def may(self, repository: Repository, needs: str) -> bool:
        """Whether one of the permissions in "issues|pull_requests:write" is there for the repository."""
        names, level = needs.split(":")
        wanted = PERMISSION_LEVELS[level]
        # Every token reads public resources, also of repositories that it is not for:
        # https://docs.github.com/apps/creating-github-apps/registering-a-github-app/choosing-permissions-for-a-github-app
        if self.installation is not None and repository.id in (self.repository_ids or ()):
            return any(PERMISSION_LEVELS[self.permissions.get(name, "none")] >= wanted for name in names.split("|"))
        if self.account is not None and self.installation is None:
            return PERMISSION_LEVELS[repository.permission(self.account.login)] >= wanted
        return (
            wanted == 1
            and not repository.private
            and names in ("contents", "metadata", "pull_requests", "issues|pull_requests")
        )

    def sees(self, repository: Repository) -> bool:
        if not repository.private:
            return True
        if self.installation is not None:
            return self.repository_ids is not None and repository.id in self.repository_ids
        return self.account is not None and repository.permission(self.account.login) != "none"


@dataclass(slots=True)
class Call:
    """One request on its way through a handler."""

    world: World
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    port: int = 0  # that the caller's end of the connection has on this machine
    actor: Actor = field(default_factory=Actor)
    params: dict[str, str] = field(default_factory=dict)
    _repository: Repository | None = None

    @property
    def repository(self) -> Repository:
        assert self._repository is not None, "the route names no repository"
        return self._repository

    @property
    def account(self) -> Account:
        assert self.actor.account is not None, "the route allows anonymous callers"
        return self.actor.account

    def json(self) -> Json:
        """The request's JSON object. Raises `Refusal` (400) for anything else."""
        try:
            value = json.loads(self.body or b"{}")
        except ValueError:
            raise Refusal(400, "Problems parsing JSON") from None
        if not isinstance(value, dict):
            raise Refusal(400, "Body should be a JSON object")
        return value

    def number(self, name: str) -> int:
        if not self.params[name].isdigit():
            raise not_found()
        return int(self.params[name])

    def page(self, items: list[Any], key: str | None = None) -> Answer:
        """One page of a list, newest parameters kept in the Link header; `key` wraps it with its total count."""
        size = max(1, min(int(self.query.get("per_page", "30")), 100))
        number = max(1, int(self.query.get("page", "1")))
        last = max(1, -(-len(items) // size))
        part = items[(number - 1) * size : number * size]
        links = {"prev": number - 1, "next": number + 1, "first": 1, "last": last}
        shown = [
            f'<{self.world.url}{self.path}?{urlencode({**self.query, "page": str(to)})}>; rel="{name}"'
            for name, to in links.items()
            if 1 <= to <= last
            and last > 1
            and not (name in ("first", "prev") and number == 1)
            and not (name == "last" and number == last)
        ]
        answer = Answer.of(part if key is None else {"total_count": len(items), key: part})
        if shown:
            answer.headers["link"] = ", ".join(shown)
        return answer


Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    template: str
    pattern: re.Pattern[str]
    needs: str | None  # "contents:read"; "app" for the App's JWT; "token" for any installation token; None: anybody
    handler: Handler


class Routes:
    """A table that resource modules fill with decorators; the first match wins."""

    def __init__(self) -> None:
        self.table: list[Route] = []

    def add(self, method: str, template: str, needs: str | None) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            pieces = re.split(r"(\{[^}]+\})", template)
            pattern = "".join(
                (f"(?P<{piece[1:-1].removesuffix('*')}>{'.+' if piece.endswith('*}') else '[^/]+'})")
                if piece.startswith("{")
                else re.escape(piece)
                for piece in pieces
            )
            self.table.append(Route(method, template, re.compile(f"{pattern}$"), needs, handler))
            return handler

        return register

    def get(self, template: str, needs: str | None) -> Callable[[Handler], Handler]:
        return self.add("GET", template, needs)

    def post(self, template: str, needs: str | None) -> Callable[[Handler], Handler]:
        return self.add("POST", template, needs)

    def patch(self, template: str, needs: str | None) -> Callable[[Handler], Handler]:
        return self.add("PATCH", template, needs)

    def put(self, template: str, needs: str | None) -> Callable[[Handler], Handler]:
        return self.add("PUT", template, needs)

    def delete(self, template: str, needs: str | None) -> Callable[[Handler], Handler]:
        return self.add("DELETE", template, needs)

    def find(self, call: Call) -> Route | None:
        """The route of a call, its path parameters filled in."""
        for route in self.table:
            if route.method == call.method and (match := route.pattern.match(call.path)):
                call.params = match.groupdict()
                return route
        return None


async def serve(routes: Routes, call: Call) -> Answer | None:
    """Answer a call, or None when no route is there for it."""
    route = routes.find(call)
    if route is None:
        return None
    try:
        _admit(route, call)
        answer = await route.handler(call)
    except Refusal as refusal:
        return refusal.answer()
    if call.method != "GET" or answer.status != 200:
        return answer
    # An ETag is for one token: with the next one of the same installation, GitHub answers 200 again.
    # https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api#use-conditional-requests-if-appropriate
    # https://github.com/github/docs/issues/34689
    etag = f'W/"{hashlib.sha256(call.headers.get("authorization", "").encode() + answer.body).hexdigest()}"'
    answer.headers |= {"etag": etag, "vary": "Accept, Authorization, Cookie, X-GitHub-OTP"}
    return Answer(304, b"", dict(answer.headers)) if call.headers.get("if-none-match") == etag else answer


def _admit(route: Route, call: Call) -> None:
    actor = call.actor
    if route.needs == "app" and not actor.as_app:
        raise Refusal(401, "A JSON web token could not be decoded")
    if route.needs == "token" and actor.installation is None:
        raise Refusal(403, "Resource not accessible by integration")
    if "owner" not in call.params or "repo" not in call.params:
        return
    repository = call.world.repository(f"{call.params['owner']}/{call.params['repo']}")
    if repository is None or (route.needs != "app" and not actor.sees(repository)):
        raise not_found()
    call._repository = repository
    if route.needs not in ("app", "token", None) and not actor.may(repository, route.needs or ""):
        if actor.account is None and not actor.as_app:
            raise Refusal(401, "Requires authentication")
        raise Refusal(403, "Resource not accessible by integration")


def parse_query(text: str) -> dict[str, str]:
    return dict(parse_qsl(text, keep_blank_values=True))
