"""Git LFS: the batch API beside git over HTTP, with links to the contents; as strict as documented.

https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md
https://github.com/git-lfs/git-lfs/blob/main/docs/api/basic-transfers.md
"""

from __future__ import annotations

import json
import re
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from tests.standins.github.auth import Tokens
from tests.standins.github.downloads import LINK_LIFE, Downloads
from tests.standins.github.routing import Actor, Refusal
from tests.standins.github.serialise import stamp
from tests.standins.github.state import Json, Repository, now
from tests.standins.github.world import World

MEDIA_TYPE = "application/vnd.git-lfs+json"
MOST = 100  # objects of one request
_PATH = re.compile(r"/(?P<repository>[^/]+/[^/]+)\.git/info/lfs/objects/batch")
_OID = re.compile(r"[0-9a-f]{64}")


class LargeFiles:
    def __init__(self, world: World, tokens: Tokens, downloads: Downloads) -> None:
        self.world, self.tokens, self.downloads = world, tokens, downloads
        self.bodies: list[Json] = []  # of the requests that were answered

    def wants(self, path: str) -> bool:
        return _PATH.fullmatch(path) is not None

    async def __call__(self, request: Request) -> Response:
        match = _PATH.fullmatch(request.scope["path"])
        assert match is not None
        try:
            return _answer(self._batch(request, match["repository"], await request.body()))
        except Refusal as refusal:
            return _answer({"message": refusal.message}, refusal.status)

    def _batch(self, request: Request, name: str, body: bytes) -> Json:
        if request.method != "POST":
            raise Refusal(501, "Not implemented")
        if request.headers.get("accept") != MEDIA_TYPE:
            raise Refusal(406, f"The Accept header needs to be {MEDIA_TYPE}")
        if request.headers.get("content-type", "").partition(";")[0] != MEDIA_TYPE:
            raise Refusal(422, f"The Content-Type header needs to be {MEDIA_TYPE}")
        # Tokens are passwords of git over HTTP:
        # https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/authenticating-as-a-github-app-installation
        if request.headers.get("authorization", "Basic").partition(" ")[0] != "Basic":
            raise Refusal(401, "Credentials needed")
        actor = self.tokens.actor(request.headers.get("authorization"))
        repository = self.world.repository(name)
        if repository is None or not actor.sees(repository):
            raise Refusal(401 if actor == Actor() else 404, "Not found")
        if not actor.may(repository, "contents:read"):
            raise Refusal(403, "You must have read access")
        wanted = json.loads(body)
        if wanted.get("operation") != "download" or "basic" not in wanted.get("transfers", ["basic"]):
            raise Refusal(422, "Only downloads by basic transfer are known here")
        objects = wanted.get("objects")
        if not objects or not all(_OID.fullmatch(each["oid"]) and type(each["size"]) is int for each in objects):
            raise Refusal(422, "Validation error")
        if len(objects) > MOST:
            raise Refusal(413, "Too many objects")
        self.bodies.append(wanted)
        return {"transfer": "basic", "objects": [self._object(repository, **each) for each in objects]}

    def _object(self, repository: Repository, oid: str, size: int) -> Json:
        content = repository.large.get(oid)
        if content is None:
            return {"oid": oid, "size": size, "error": {"code": 404, "message": "Object does not exist on the server"}}
        href, header = self.downloads.large(oid, content)
        link = {"href": href, "header": header, "expires_at": stamp(now() + timedelta(seconds=LINK_LIFE))}
        return {"oid": oid, "size": size, "authenticated": True, "actions": {"download": link}}


def _answer(body: Json, status: int = 200) -> Response:
    headers = {"lfs-authenticate": 'Basic realm="GitHub"'} if status == 401 else {}
    return Response(json.dumps(body), status, headers, MEDIA_TYPE)
