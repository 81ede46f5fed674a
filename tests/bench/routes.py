"""What the real route is held against, each a whole web process under uvicorn: a route that does nothing, and the usual one.

`python -m tests.bench.routes PORT noop` or `python -m tests.bench.routes PORT usual REDIS_URL`.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import sys
from collections.abc import AsyncIterator

import uvicorn
from fastapi import FastAPI, Request, Response

SECRET = b"hush"


def noop() -> FastAPI:
    app = FastAPI()

    @app.post("/webhooks/github", status_code=202)
    async def take(_: Request) -> Response:
        return Response(b"{}", 202)

    return app


def usual(redis_url: str) -> FastAPI:
    """As tutorials have it: signature, githubkit's typed payload, `enqueue_job`. What Redis forgets is lost."""
    from arq.connections import ArqRedis
    from githubkit.webhooks import parse
    from redis.asyncio import ConnectionPool

    pool: ConnectionPool = ConnectionPool.from_url(redis_url)
    redis = ArqRedis(pool)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await redis.aclose()

    app = FastAPI(lifespan=lifespan)

    @app.post("/webhooks/github", status_code=202)
    async def take(request: Request) -> dict[str, str]:
        body = await request.body()
        signature = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(signature, request.headers["x-hub-signature-256"]):
            raise ValueError("not signed")
        event = parse(request.headers["x-github-event"], body)
        run = event.workflow_run  # type: ignore[union-attr]
        await redis.enqueue_job("heal", run.id, run.head_sha, _job_id=request.headers["x-github-delivery"])
        return {"status": "queued"}

    return app


if __name__ == "__main__":
    port, kind, *redis_urls = sys.argv[1:]
    uvicorn.run(noop() if kind == "noop" else usual(*redis_urls), port=int(port), log_level="warning", access_log=False)
