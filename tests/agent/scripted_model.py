"""A model's server on loopback that speaks the chat APIs of OpenAI and Ollama and answers from a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Say:
    """One answer: a text, or an HTTP error, or silence."""

    text: str | None = ""
    finish: str = "stop"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)
    usage: bool = True
    hang: bool = False
    raw: bytes | None = None


@dataclass
class ScriptedModel:
    script: list[Say]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)

    def prompt(self, at: int) -> str:
        return "\n".join(message["content"] for message in self.requests[at]["messages"])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = next(
                (int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")), 0
            )
            body = json.loads(await reader.readexactly(length) or b"{}")
            self.requests.append(body)
            say = self.script.pop(0) if self.script else Say(status=500, error={"message": "a request that no test expected"})
            if say.hang:
                await asyncio.sleep(60)
            payload = say.raw if say.raw is not None else json.dumps(self._answer(head.split()[1], body, say)).encode()
            extra = "".join(f"{name}: {value}\r\n" for name, value in say.headers.items())
            start = f"HTTP/1.1 {say.status} X\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n{extra}"
            writer.write(f"{start}Connection: close\r\n\r\n".encode() + payload)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, path: str, body: dict[str, Any], say: Say) -> dict[str, Any]:
        if say.status != 200:
            return {"error": say.error or {"message": f"status {say.status}"}}
        message = {"role": "assistant", "content": say.text}
        if path == "/api/chat":
            counts = {"prompt_eval_count": 50, "eval_count": 20} if say.usage else {}
            return {"model": body["model"], "message": message, "done": True, "done_reason": say.finish, **counts}
        answer = {
            "id": "1", "object": "chat.completion", "created": 1, "model": body.get("model", "m"),
            "choices": [{"index": 0, "message": message, "finish_reason": say.finish}],
        }  # fmt: skip
        return answer | ({"usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}} if say.usage else {})


@asynccontextmanager
async def scripted_model(*script: Say) -> AsyncIterator[ScriptedModel]:
    model = ScriptedModel(list(script))
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0, limit=1 << 24)
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield model
    finally:
        server.close()
