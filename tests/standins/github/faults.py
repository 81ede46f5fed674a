"""Faults that tests ask for, and hooks around the serving of a request."""

from __future__ import annotations

import asyncio
import fnmatch
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from tests.standins.github.routing import Answer, Call, Refusal
from tests.standins.github.state import Json

Hook = Callable[[str, str], Awaitable[None] | None]


class ConnectionReset(Exception):
    """The connection is to be cut instead of answered."""


@dataclass(slots=True)
class Fault:
    """Something that goes wrong the next `times` times that a request matches.

    `applied`: the request is carried out first and only its answer is lost, which is what makes retried writes dangerous.
    """

    method: str
    path: str
    times: int
    kind: Literal["answer", "reset", "delay"]
    applied: bool = False
    answer: Answer | None = None
    seconds: float = 0.0


class Faults:
    """`method` and `path` are globs over e.g. "POST" and "/repos/*/pulls"; `*` also spans slashes."""

    def __init__(self) -> None:
        self.waiting: list[Fault] = []
        self.hooks: list[tuple[str, str, Hook, str]] = []
        self.lags: list[tuple[str, str, int]] = []
        self.hidden: list[tuple[str, str]] = []  # (read glob, url of what was just written)

    def status(self, method: str, path: str, status: int, times: int = 1, *, applied: bool = False) -> None:
        """Answer with a bare status, such as 502."""
        answer = Refusal(status, "Server Error" if status >= 500 else "Injected fault").answer()
        self.waiting.append(Fault(method, path, times, "answer", applied, answer))

    def refuse(
        self, method: str, path: str, status: int, message: str, reasons: list[Json] | None = None, times: int = 1
    ) -> None:
        """Answer with GitHub's own words."""
        self.waiting.append(Fault(method, path, times, "answer", answer=Refusal(status, message, reasons).answer()))

    def reset(self, method: str, path: str, times: int = 1, *, applied: bool = False) -> None:
        """Cut the connection (TCP reset) instead of answering."""
        self.waiting.append(Fault(method, path, times, "reset", applied))

    def delay(self, method: str, path: str, seconds: float, times: int = 1) -> None:
        """Answer only after some seconds."""
        self.waiting.append(Fault(method, path, times, "delay", seconds=seconds))

    def secondary_limit(self, method: str, path: str, retry_after: int | None = 1, times: int = 1, status: int = 403) -> None:
        """GitHub's secondary rate limit; without `retry_after` the header is left out."""
        answer = Refusal(
            status, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
        ).answer()
        if retry_after is not None:
            answer.headers["retry-after"] = str(retry_after)
        self.waiting.append(Fault(method, path, times, "answer", answer=answer))

    def primary_limit(self, method: str, path: str, reset_in: int = 1, times: int = 1) -> None:
        """The hourly limit is used up until `reset_in` seconds from now."""
        answer = Refusal(403, "API rate limit exceeded for installation.").answer()
        answer.headers |= {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + reset_in)}
        self.waiting.append(Fault(method, path, times, "answer", answer=answer))

    def expired(self, method: str, path: str, times: int = 1) -> None:
        """Answer 401 as for an expired token (see also `GitHub.expire_tokens`, which is the real thing)."""
        self.status(method, path, 401, times)

    def lag(self, write: str, read: str, times: int = 1) -> None:
        """After a matching write ("POST /repos/*/pulls"), the next GET that matches `read` does not show it yet."""
        method, _, path = write.partition(" ")
        self.lags.extend([(f"{method} {path}", read, 1)] * times)

    def on(self, method: str, path: str, hook: Hook, when: Literal["before", "after"] = "after") -> None:
        """Call `hook(method, path)` when a matching request is about to be served, or was carried out but not answered yet."""
        self.hooks.append((method, path, hook, when))

    async def run_hooks(self, call: Call, when: str) -> None:
        for method, path, hook, moment in list(self.hooks):
            if moment == when and _matches(call, method, path):
                result = hook(call.method, call.path)
                if inspect.isawaitable(result):
                    await result

    async def before(self, call: Call) -> Answer | None:
        """What is answered in place of serving, if anything. Raises `ConnectionReset`."""
        return await self._strike(call, applied=False)

    async def after(self, call: Call) -> Answer | None:
        """What is answered although the request was served, if anything. Raises `ConnectionReset`."""
        return await self._strike(call, applied=True)

    async def _strike(self, call: Call, *, applied: bool) -> Answer | None:
        for fault in self.waiting:
            if fault.times > 0 and fault.applied == applied and _matches(call, fault.method, fault.path):
                fault.times -= 1
                if fault.kind == "delay":
                    await asyncio.sleep(fault.seconds)
                    continue
                if fault.kind == "reset":
                    raise ConnectionReset
                return fault.answer
        return None

    def lagged(self, call: Call, answer: Answer) -> Answer:
        """The answer as a replica that is behind would give it."""
        if call.method != "GET":
            for entry in self.lags:
                method, _, path = entry[0].partition(" ")
                if _matches(call, method, path) and answer.status == 201:
                    self.lags.remove(entry)
                    self.hidden.append((entry[1], answer.json()["url"]))
                    break
            return answer
        for entry in self.hidden:
            if fnmatch.fnmatchcase(call.path, entry[0]) and answer.status == 200:
                self.hidden.remove(entry)
                return _without(answer, entry[1])
        return answer


def _matches(call: Call, method: str, path: str) -> bool:
    return method in ("*", call.method) and fnmatch.fnmatchcase(call.path, path)


def _without(answer: Answer, url: str) -> Answer:
    body = answer.json()
    if isinstance(body, list):
        return Answer.of([item for item in body if item.get("url") != url])
    lists = {key: value for key, value in body.items() if isinstance(value, list)} if isinstance(body, dict) else {}
    if "total_count" in body and lists:
        shown: Json = dict(body)
        for key, value in lists.items():
            shown[key] = [item for item in value if item.get("url") != url]
            shown["total_count"] -= len(value) - len(shown[key])
        return Answer.of(shown)
    return Refusal(404, "Not Found").answer()
