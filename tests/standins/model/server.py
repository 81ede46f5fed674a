"""`ScriptedModel`: the server itself.

```python
async with ScriptedModel(["first answer", rate_limited(2), lambda asked: asked.prompt.upper()]) as model:
    await litellm.acompletion(model="openai/any", api_base=model.openai_url, api_key="k", messages=[...])
    await litellm.acompletion(model="ollama_chat/any", api_base=model.ollama_url, messages=[...])
    assert model.asked[0].prompt == "..."
```
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.standins.model.replies import Reply
from tests.standins.sockets import listening_in_a_thread

Json = dict[str, Any]
CREATED = 1_750_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to the model."""

    api: Literal["openai", "ollama"]
    model: str
    messages: list[Json]
    body: Json
    authorization: str | None

    @property
    def prompt(self) -> str:
        """All messages as one text."""
        return "\n".join(_text(message.get("content")) for message in self.messages)


Line = str | Reply | Callable[[Asked], str | Reply]
Script = Iterable[Line] | Callable[[Asked], str | Reply]


class UnexpectedRequest(AssertionError):
    """The model was asked more often than its script has answers."""


class ScriptedModel:
    """Answers by a list (each line once, in order) or by a function of the request (for ever).

    A request beyond the end of the list is answered 500 and raised (`UnexpectedRequest`) when the context closes.
    It runs in a thread of its own, and so do the script's functions: after an answer of Ollama, litellm asks `/api/show`
    with a blocking call from inside the caller's event loop, which a server in that loop could never answer.
    """

    def __init__(self, script: Script = (), *, models: tuple[str, ...] = ("scripted:latest",)) -> None:
        self._function = script if callable(script) else None
        self._lines: deque[Line] = deque(() if callable(script) else script)
        self.models = models
        self.asked: list[Asked] = []
        self.embedded: list[str] = []
        self.unexpected: list[Asked] = []
        self.url = ""
        self._open = contextlib.ExitStack()
        self._stopping = threading.Event()
        self._app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._openai, methods=["POST"]),
                Route("/v1/embeddings", self._openai_embeddings, methods=["POST"]),
                Route("/v1/models", self._openai_models),
                Route("/api/chat", self._ollama, methods=["POST"]),
                Route("/api/tags", self._ollama_tags),
                Route("/api/pull", self._ollama_pull, methods=["POST"]),
                Route("/api/version", self._ollama_version),
                Route("/api/show", self._ollama_show, methods=["POST"]),
            ]
        )

    def say(self, *lines: Line) -> None:
        """Add answers to the end of the script."""
        self._lines.extend(lines)

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def ollama_url(self) -> str:
        return self.url

    async def __aenter__(self) -> ScriptedModel:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if error is None and self.unexpected:
            raise UnexpectedRequest(f"{len(self.unexpected)} more than scripted, first: {self.unexpected[0].prompt[:300]}")

    async def start(self, port: int = 0) -> None:
        self.url = f"http://127.0.0.1:{self._open.enter_context(listening_in_a_thread(self._app, port))}"

    async def stop(self) -> None:
        self._stopping.set()
        await asyncio.to_thread(self._open.close)

    def _reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        if self._lines:
            line = self._lines.popleft()
        elif self._function is not None:
            line = self._function
        else:
            self.unexpected.append(asked)
            return Reply("The script has ended", status=500, code="script_ended")
        said = line(asked) if callable(line) else line
        return Reply(said) if isinstance(said, str) else said

    async def _asked(self, request: Request, api: Literal["openai", "ollama"]) -> Asked:
        body = await request.json()
        return Asked(api, body["model"], body["messages"], body, request.headers.get("authorization"))

    async def _send(self, reply: Reply, body: bytes, media_type: str = "application/json") -> Response:
        if reply.before:
            await asyncio.to_thread(self._stopping.wait, None if reply.before == float("inf") else reply.before)
        body = reply.raw if reply.raw is not None else body
        if not reply.drip:
            return Response(body, reply.status, reply.headers, media_type)
        return StreamingResponse(self._dripped(body, reply.drip), reply.status, reply.headers, media_type)

    async def _dripped(self, body: bytes, seconds: float) -> AsyncIterator[bytes]:
        for start in range(0, len(body), 16):
            if self._stopping.is_set():
                return
            yield body[start : start + 16]
            await asyncio.sleep(seconds)

    # OpenAI

    async def _openai(self, request: Request) -> Response:
        asked = await self._asked(request, "openai")
        reply = self._reply(asked)
        if reply.status != 200:
            kind = "server_error" if reply.status >= 500 else "invalid_request_error"
            error = {"message": reply.content, "type": kind, "param": None, "code": reply.code}
            return await self._send(reply, json.dumps({"error": error}).encode())
        head = {"id": f"chatcmpl-{len(self.asked)}", "created": CREATED, "model": asked.model}
        usage = _usage(asked, reply)
        if asked.body.get("stream"):
            wants_usage = (asked.body.get("stream_options") or {}).get("include_usage")
            return await self._send(reply, _events(head, reply, usage if wants_usage else None), "text/event-stream")
        message = {"role": "assistant", "content": reply.content, "refusal": None}
        whole: Json = head | {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": reply.finish, "logprobs": None}],
        }
        if usage is not None:
            whole["usage"] = usage
        return await self._send(reply, json.dumps(whole).encode())

    async def _openai_embeddings(self, request: Request) -> Response:
        """Counts of letters: alike texts have alike vectors."""
        body = await request.json()
        self.embedded += body["input"]
        vectors = [[float(text.lower().count(letter)) for letter in "etaoinshrdlu"] for text in body["input"]]
        data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 8, "total_tokens": 8}
        return JSONResponse({"object": "list", "data": data, "model": body["model"], "usage": usage})

    async def _openai_models(self, request: Request) -> Response:
        data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "tests"} for name in self.models]
        return JSONResponse({"object": "list", "data": data})

    # Ollama

    async def _ollama(self, request: Request) -> Response:
        asked = await self._asked(request, "ollama")
        reply = self._reply(asked)
        if reply.status != 200:
            return await self._send(reply, json.dumps({"error": reply.content}).encode())
        head = {"model": asked.model, "created_at": "2025-06-15T15:06:40.000000Z"}
        usage = _usage(asked, reply)
        end: Json = {
            "done": True,
            "done_reason": reply.finish,
            "total_duration": 10**9,
            "load_duration": 1,
            "eval_duration": 10**8,
        }
        if usage is not None:
            end |= {"prompt_eval_count": usage["prompt_tokens"], "eval_count": usage["completion_tokens"]}
        content = reply.content or ""
        if asked.body.get("stream", True):
            parts = [content[at : at + 4096] for at in range(0, len(content), 4096)]
            lines: list[Json] = [head | {"message": {"role": "assistant", "content": part}, "done": False} for part in parts]
            lines.append(head | {"message": {"role": "assistant", "content": ""}} | end)
            body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            return await self._send(reply, body, "application/x-ndjson")
        return await self._send(reply, json.dumps(head | {"message": {"role": "assistant", "content": content}} | end).encode())

    async def _ollama_tags(self, request: Request) -> Response:
        details = {"format": "gguf", "family": "qwen2", "parameter_size": "7.6B", "quantization_level": "Q4_K_M"}
        shown = [{"name": name, "model": name, "size": 4683087332, "details": details} for name in self.models]
        return JSONResponse({"models": shown})

    async def _ollama_pull(self, request: Request) -> Response:
        """As documented: a stream of states, or one error. Names that begin with `nosuch` are not in the registry."""
        name = str((await request.json())["model"])
        if name.startswith("nosuch"):
            return JSONResponse({"error": "pull model manifest: file does not exist"}, 500)
        layer = {"status": "pulling 60e05f210007", "digest": "sha256:60e05f210007", "total": 4683073952}
        lines: list[Json] = [{"status": "pulling manifest"}, layer, {**layer, "completed": 2341536976}]
        if name.startswith("breaks"):
            return Response(b"".join(json.dumps(line).encode() + b"\n" for line in lines), media_type="application/x-ndjson")
        lines += [{**layer, "completed": 4683073952}, {"status": "verifying sha256 digest"}, {"status": "writing manifest"}]
        self.models = (*self.models, name)
        body = b"".join(json.dumps(line).encode() + b"\n" for line in [*lines, {"status": "success"}])
        return Response(body, media_type="application/x-ndjson")

    async def _ollama_version(self, request: Request) -> Response:
        return JSONResponse({"version": "0.12.6"})

    async def _ollama_show(self, request: Request) -> Response:
        wanted = await request.json()
        if wanted.get("model", wanted.get("name")) not in self.models:
            return JSONResponse({"error": "model not found"}, 404)
        information = {"general.architecture": "qwen2", "qwen2.context_length": 32768}
        return JSONResponse({"model_info": information, "capabilities": ["completion"], "template": "", "details": {}})


def _usage(asked: Asked, reply: Reply) -> Json | None:
    if reply.tokens is None:
        return None
    prompt, completion = reply.tokens
    prompt = len(asked.prompt) // 4 + 1 if prompt < 0 else prompt
    completion = len(reply.content or "") // 4 + 1 if completion < 0 else completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _events(head: Json, reply: Reply, usage: Json | None) -> bytes:
    """The answer as server-sent events."""

    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return head | {"object": "chat.completion.chunk", "choices": [choice]}

    content = reply.content or ""
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"content": content[at : at + 4096]}) for at in range(0, len(content), 4096)]
    chunks.append(chunk({}, reply.finish))
    if usage is not None:
        chunks.append(head | {"object": "chat.completion.chunk", "choices": [], "usage": usage})
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks) + b"data: [DONE]\n\n"


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
