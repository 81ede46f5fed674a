"""The API's origin: what happens around every request."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from tests.standins.github.auth import Tokens
from tests.standins.github.browsing import Browsing
from tests.standins.github.downloads import DOWNLOADS, Downloads
from tests.standins.github.faults import ConnectionReset, Faults
from tests.standins.github.git.http import GitOverHttp
from tests.standins.github.git.lfs import LargeFiles
from tests.standins.github.limits import WriteLimits
from tests.standins.github.routing import Actor, Answer, Call, Refusal, Routes, parse_query, serve
from tests.standins.github.world import World
from tests.standins.sockets import reset_connection

PREFIX = "/api/v3"  # of the API on Enterprise Server
Judge = Callable[[Call, Answer], list[str]]


class Api:
    """One request: admitted, struck by faults, served, judged and logged."""

    def __init__(
        self, world: World, tokens: Tokens, faults: Faults, downloads: Downloads, routes: Routes, judge: Judge | None
    ) -> None:
        self.world = world
        self.tokens = tokens
        self.faults = faults
        self.limits = WriteLimits()
        self.routes = routes
        self.judge = judge
        self.git = GitOverHttp(world, tokens)
        self.large_files = LargeFiles(world, tokens, downloads)
        self.browsing = Browsing(world)
        self.requests: list[str] = []
        self.bodies: list[bytes] = []  # of the requests to the API, in their order
        self.violations: list[str] = []
        self.watchers: list[Callable[[Call], None]] = []  # told of every request to the API before anything is done about it

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        beside = next((each for each in (self.git, self.large_files) if each.wants(scope["path"])), None)
        if beside is not None:
            response = await beside(request)
            self.requests.append(f"{request.method} {request.url.path} > {response.status_code}")
            await response(scope, receive, send)
            return
        if self.browsing.wants(request):
            response = await self.browsing(request)
            await response(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in request.headers.items()}
        query = parse_query(request.url.query)
        port = request.client.port if request.client is not None else 0
        call = Call(self.world, request.method, scope["path"], query, headers, await request.body(), port)
        self.bodies.append(call.body)
        for watcher in self.watchers:
            watcher(call)
        try:
            answer = await self._answer(call)
        except ConnectionReset:
            self.requests.append(f"{call.method} {call.path} > reset")
            reset_connection(scope)
            return
        self.requests.append(f"{call.method} {call.path} > {answer.status}")
        limits = {
            "x-ratelimit-limit": "5000",
            "x-ratelimit-remaining": "4999",
            "x-ratelimit-used": "1",
            "x-ratelimit-reset": "4102444800",
            "x-ratelimit-resource": "core",
        }
        own = {"x-github-enterprise-version": "enterprise-server@3.14.0"} if self.world.is_enterprise else limits
        own["x-github-media-type"] = "github.v3; format=json"
        # On every answer, whatever is refused: a comma means "and", a semicolon "or".
        # https://docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api#resource-not-accessible
        route = self.routes.find(call)
        if route is not None and route.needs not in ("app", "token", None):
            names, _, level = (route.needs or "").partition(":")
            own["x-accepted-github-permissions"] = "; ".join(f"{name}={level}" for name in names.split("|"))
        answer.headers = own | answer.headers
        await Response(answer.body, answer.status, answer.headers)(scope, receive, send)

    async def _answer(self, call: Call) -> Answer:
        await self.faults.run_hooks(call, "before")
        if (struck := await self.faults.before(call)) is not None:
            return struck
        try:
            call.actor = self.tokens.actor(call.headers.get("authorization"))
        except Refusal as refusal:
            call.actor = Actor()
            return refusal.answer()
        if not self.world.is_enterprise and (refused := self.limits.refusal(call)) is not None:
            return refused
        try:
            answer = await serve(self.routes, call)
        except Exception as error:
            self.violations.append(f"the stand-in failed at {call.method} {call.path}: {error!r}")
            raise
        if answer is None:
            self.violations.append(f"no route for {call.method} {call.path}")
            return Refusal(404, "Not Found").answer()
        if self.judge is not None:
            self.violations += [f"{call.method} {call.path} > {answer.status}: {wrong}" for wrong in self.judge(call, answer)]
        answer = self.faults.lagged(call, answer)
        await self.faults.run_hooks(call, "after")
        return await self.faults.after(call) or answer


class Enterprise:
    """The one origin of Enterprise Server: the API below its prefix, downloads beside it, git and pages at the root."""

    def __init__(self, world: World, api: Api, downloads: Downloads) -> None:
        self.world = world
        self.api = api
        self.downloads = downloads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path.startswith(DOWNLOADS):
            await self.downloads(scope, receive, send)
        elif path.startswith(f"{PREFIX}/"):
            await self.api({**scope, "path": path.removeprefix(PREFIX)}, receive, send)
        elif self.api.git.wants(path) or self.api.large_files.wants(path) or self.api.browsing.wants(Request(scope)):
            await self.api(scope, receive, send)
        else:
            self.api.violations.append(f"not a path of the API: {scope['method']} {path}")
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
