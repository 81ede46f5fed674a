"""Clone and push over smart HTTP: `git http-backend` on the same bare repositories, with tokens as passwords."""

from __future__ import annotations

import asyncio
import re
import tempfile

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tests.standins.github.auth import Tokens
from tests.standins.github.git.plumbing import ENVIRONMENT
from tests.standins.github.routing import Actor, Refusal
from tests.standins.github.state import Repository
from tests.standins.github.world import Push, World

PATH = re.compile(r"^/(?P<repository>[^/]+/[^/]+?)(\.git)?/(?P<rest>info/refs|git-upload-pack|git-receive-pack)$")


class GitOverHttp:
    def __init__(self, world: World, tokens: Tokens) -> None:
        self.world = world
        self.tokens = tokens

    def wants(self, path: str) -> bool:
        return PATH.match(path) is not None

    async def __call__(self, request: Request) -> Response:
        match = PATH.match(request.scope["path"])
        assert match is not None
        repository = self.world.repository(match["repository"])
        pushing = "git-receive-pack" in (match["rest"], request.query_params.get("service"))
        try:
            actor = self.tokens.actor(request.headers.get("authorization"))
        except Refusal as refusal:
            return _denied(refusal.status)
        if repository is None or not actor.sees(repository):
            return _denied(401) if actor.account is None else PlainTextResponse("Repository not found.", 404)
        if not actor.may(repository, "contents:write" if pushing else "contents:read"):
            return _denied(401) if actor.account is None else PlainTextResponse("Write access to repository not granted.", 403)
        before = await repository.git.refs("refs/heads/")
        answer = await self._backend(request, repository, match["rest"])
        if match["rest"] == "git-receive-pack":
            await self._tell(repository, actor, before)
        return answer

    async def _tell(self, repository: Repository, actor: Actor, before: dict[str, str]) -> None:
        after = await repository.git.refs("refs/heads/")
        assert actor.account is not None
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                branch = name.removeprefix("refs/heads/")
                await self.world.pushed(Push(repository, branch, before.get(name), after.get(name), actor.account))

    async def _backend(self, request: Request, repository: Repository, rest: str) -> Response:
        env = ENVIRONMENT | {
            "GIT_PROJECT_ROOT": str(repository.git.path),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{rest}",
            "REQUEST_METHOD": request.method,
            "QUERY_STRING": request.url.query,
            "REMOTE_USER": "x-access-token",
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": request.headers.get("content-type", ""),
            "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
            "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "http.receivepack",
            "GIT_CONFIG_VALUE_0": "true",
            "GIT_CONFIG_KEY_1": "safe.directory",
            "GIT_CONFIG_VALUE_1": "*",
        }
        # The body is spooled first: streaming it into git while streaming git's answer out hangs a push.
        with tempfile.TemporaryFile() as body:
            async for chunk in request.stream():
                body.write(chunk)
            env["CONTENT_LENGTH"] = str(body.tell())
            body.seek(0)
            process = await asyncio.create_subprocess_exec(
                "git", "http-backend", stdin=body, stdout=asyncio.subprocess.PIPE, env=env
            )
        out, _ = await process.communicate()
        head, _, content = out.partition(b"\r\n\r\n")
        status, headers = 200, {}
        for line in head.decode().splitlines():
            name, _, value = line.partition(": ")
            if name.lower() == "status":
                status = int(value.split()[0])
            else:
                headers[name] = value
        return Response(content, status, headers)


def _denied(status: int) -> Response:
    if status != 401:
        return PlainTextResponse("Permission denied", status)
    return PlainTextResponse("Authentication failed", 401, {"WWW-Authenticate": 'Basic realm="GitHub"'})
