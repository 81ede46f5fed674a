"""Short-lived links to archives, logs and large files, which refuse a request that still carries a token."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tests.standins.github.git.plumbing import git
from tests.standins.github.state import Repository
from tests.standins.github.world import World

LINK_LIFE = 60.0  # seconds
DOWNLOADS = ("/_codeload/", "/_services/", "/alambic/")  # where Enterprise Server has them, beside its API


@dataclass(frozen=True, slots=True)
class Link:
    path: str
    until: float
    archive: tuple[Repository, str] | None = None
    text: bytes = b""
    authorization: str | None = None  # that the link demands: one of its own, no token of the API


class Downloads:
    def __init__(self, world: World) -> None:
        self.world = world
        self.links: dict[str, Link] = {}
        self.leaks: list[str] = []  # requests that brought an Authorization header
        self.served: list[str] = []
        self.status = 200  # of every download from now on
        self.size: int | None = None  # bytes of every download from now on, instead of what is asked for

    def _link(
        self,
        path: str,
        archive: tuple[Repository, str] | None = None,
        text: bytes = b"",
        authorization: str | None = None,
    ) -> str:
        token = secrets.token_hex(16)
        self.links[token] = Link(path, time.monotonic() + LINK_LIFE, archive, text, authorization)
        return f"{self.world.downloads_url}{path}?token={token}"

    def tarball(self, repository: Repository, sha: str) -> str:
        codeload = "/_codeload" if self.world.is_enterprise else ""
        return self._link(f"{codeload}/{repository.full_name}/legacy.tar.gz/{sha}", archive=(repository, sha))

    def log(self, name: str, text: bytes) -> str:
        if self.world.is_enterprise:
            return self._link(f"/_services/pipelines/{name}/signedlogcontent", text=text)
        return self._link(f"/logs/{name}.txt", text=text)

    def large(self, oid: str, content: bytes) -> tuple[str, dict[str, str]]:
        """A link to an object of Git LFS, and the headers that it demands."""
        authorization = f"RemoteAuth {secrets.token_hex(16)}"
        return self._link(f"/alambic/media/{oid}", text=content, authorization=authorization), {"Authorization": authorization}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        self.served.append(f"{request.method} {path}")
        link = self.links.get(request.query_params.get("token", ""))
        if request.headers.get("authorization") != (link.authorization if link is not None else None):
            self.leaks.append(path)
            return PlainTextResponse("Only one auth mechanism allowed", 400)
        if link is None or link.path != path or link.until < time.monotonic():
            return PlainTextResponse("AuthenticationFailed", 403)
        if self.status != 200:  # 302 as from a proxy that asks people to sign in
            return PlainTextResponse("Blocked", self.status, {"location": f"{self.world.url}/"} if self.status == 302 else None)
        if self.size is not None:
            return StreamingResponse(_noise(self.size))
        if link.archive is None:
            return Response(link.text, media_type="text/plain; charset=utf-8")
        repository, sha = link.archive
        name = f"{repository.owner.login}-{repository.name}-{sha[:7]}"  # GitHub shortens it
        headers = {"content-disposition": f"attachment; filename={name}.tar.gz"}
        return StreamingResponse(_archive(repository, sha, name), media_type="application/x-gzip", headers=headers)


async def _noise(size: int) -> AsyncIterator[bytes]:
    chunk = secrets.token_bytes(1 << 20)
    for start in range(0, size, len(chunk)):
        yield chunk[: size - start]


async def _archive(repository: Repository, sha: str, name: str) -> AsyncIterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/archive.tar.gz"
        await git("archive", "--format=tar.gz", f"--prefix={name}/", "-o", target, sha, cwd=repository.git.path)
        with open(target, "rb") as file:
            while chunk := file.read(1 << 16):
                yield chunk
