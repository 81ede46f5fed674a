"""Asking language models: the only room that imports LiteLLM, with deadlines, waiting, accounting and typed errors.

    ModelError                what was spent before it failed: `usage`
    ├── RateLimited           retry_after: seconds | None
    ├── Timeout               no answer within its time
    ├── Refused               the provider or the model declined
    ├── Truncated             the answer was cut; worth another try
    ├── ContextTooLong        the prompt does not fit
    ├── Unavailable           not reachable, or an answer that is none
    └── Misconfigured         key, name or parameter is wrong: a person has to act

LiteLLM takes seconds and 180 MB to import: it happens at the first call, or in the background after `warm`. Prompts are texts
made elsewhere; no token of ours is ever in one, and keys never reach a message of an error.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import os
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict

import httpx

from agent import words
from agent.events import Degraded, Emit, ModelCalled
from agent.task import Usage

LONGEST_ANSWER = 1024 * 1024  # characters that are kept of one
ANSWER_TOKENS = 4096  # room that is left for the answer
UNAVAILABLE_TRIES = 3

Role = Literal["diagnose", "repair", "reflect", "challenge"]


class Message(TypedDict):
    role: Literal["system", "user", "assistant"]
    content: str


class ModelError(Exception):
    """A model could not be asked, or did not answer with something that can be used."""

    worth_another_try = False  # the same rung may be asked again in another round

    def __init__(self, reason: str, usage: Usage = Usage()) -> None:
        super().__init__(reason)
        self.reason, self.usage = reason, usage


class RateLimited(ModelError):
    def __init__(self, reason: str, retry_after: float | None = None, usage: Usage = Usage()) -> None:
        super().__init__(reason, usage)
        self.retry_after = retry_after


class Timeout(ModelError):
    worth_another_try = True


class Refused(ModelError): ...


class Truncated(ModelError):
    worth_another_try = True


class ContextTooLong(ModelError): ...


class Unavailable(ModelError): ...


class Misconfigured(ModelError): ...


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which model, and how it is reached. `name` is LiteLLM's ("ollama_chat/qwen2.5-coder:7b")."""

    name: str
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 120.0  # seconds of one call
    context: int = 16_384  # tokens of its window


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    usage: Usage
    finish: str  # the provider's word for how it ended: "stop", …


def estimate_tokens(text: str) -> int:
    """A count on the safe side for code and English, without a tokenizer (which may want the network)."""
    return len(text) // 3 + 1


class Models:
    """The model of a worker, for every role."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self._warming: asyncio.Task[Any] | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def room(self) -> int:
        """Tokens that a prompt may have."""
        return max(512, self.settings.context - min(ANSWER_TOKENS, self.settings.context // 3))

    def warm(self) -> None:
        """Begin to import LiteLLM in the background; needs a running loop."""
        self._warming = self._warming or asyncio.create_task(asyncio.to_thread(_litellm))

    async def ask(
        self, role: Role, messages: Sequence[Message], *, seconds: float, emit: Emit, temperature: float = 0.0
    ) -> Answer:
        """One answer within `seconds`, waiting out rate limits and short outages inside them. Raises `ModelError`."""
        size = sum(estimate_tokens(message["content"]) for message in messages)
        if size > self.settings.context:
            raise ContextTooLong(f"the prompt has about {size} tokens, the model's window {self.settings.context}")
        litellm = await asyncio.to_thread(_litellm)
        if self._is_ollama:
            self._make_known(litellm)
        deadline = time.monotonic() + seconds
        tries, spent = 0, Usage()
        while True:
            began = time.monotonic()
            try:
                answer = await self._once(litellm, messages, min(self.settings.timeout, deadline - began), temperature)
            except ModelError as error:
                await self._tell(emit, role, error.usage, began, error.reason)
                tries, spent = tries + 1, spent + error.usage
                error.usage = spent
                wait = _wait_before_retry(error, tries)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise
                why = f"{error.reason}: asking again in {wait:.1f} s"
                await emit(Degraded(text=f"{self.name}: {why}", step=role, why=why))
                await asyncio.sleep(wait)
            else:
                await self._tell(emit, role, answer.usage, began)
                if self._is_ollama and 0 < answer.usage.tokens_in < size // 3:
                    why = f"the model saw only {answer.usage.tokens_in} of about {size} tokens of its prompt"
                    await emit(Degraded(text=why, step=role, why=why))
                return replace(answer, usage=spent + answer.usage)

    @property
    def _is_ollama(self) -> bool:
        return self.name.startswith(("ollama/", "ollama_chat/"))

    @property
    def _unanswered(self) -> Usage:
        """What a call costs that the provider may still have worked on: nobody tells."""
        return Usage(calls=1, cost=0.0 if self._is_ollama else None)

    def _make_known(self, litellm: Any) -> None:
        """Else LiteLLM asks Ollama about each model it does not know, with a blocking call from inside our event loop."""
        facts = {"litellm_provider": "ollama_chat", "mode": "chat", "max_tokens": self.settings.context}
        free = {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
        for name in (self.name, self.name.partition("/")[2]):
            litellm.model_cost.setdefault(name, {**facts, **free})

    async def _once(self, litellm: Any, messages: Sequence[Message], seconds: float, temperature: float) -> Answer:
        options: dict[str, Any] = {"max_tokens": min(ANSWER_TOKENS, self.settings.context // 3), "temperature": temperature}
        if self._is_ollama:
            options |= {"num_ctx": self.settings.context, "keep_alive": "10m"}
        try:
            async with asyncio.timeout(max(0.1, seconds)):
                response = await litellm.acompletion(
                    model=self.name,
                    messages=[dict(message) for message in messages],
                    api_base=self.settings.api_base,
                    api_key=self.settings.api_key,
                    timeout=seconds,
                    max_retries=0,  # else LiteLLM sends three requests
                    drop_params=True,
                    **options,
                )
        except TimeoutError:
            raise Timeout(f"no answer within {seconds:.0f} s", self._unanswered) from None
        except Exception as error:  # noqa: BLE001 - LiteLLM's tree has no root of its own, and its own bugs come out bare
            raise self._translated(litellm, error) from None
        return self._read(response, messages)

    def _read(self, response: Any, messages: Sequence[Message]) -> Answer:
        try:
            choice = response.choices[0]
            text = choice.message.content or ""
            finish = str(choice.finish_reason or "stop")
        except (AttributeError, IndexError, TypeError):
            raise Unavailable("its answer has no message", Usage(calls=1)) from None
        text = str(text)[:LONGEST_ANSWER].encode("utf-8", "replace").decode("utf-8").replace("\0", "")
        usage = self._usage(response, messages, text)
        if finish == "length":
            raise Truncated(f"its answer was cut at {usage.tokens_out} tokens", usage)
        if finish == "content_filter":
            raise Refused("the provider filtered its answer", usage)
        return Answer(text, usage, finish)

    def _usage(self, response: Any, messages: Sequence[Message], text: str) -> Usage:
        told = getattr(response, "usage", None)
        tokens_in = int(getattr(told, "prompt_tokens", 0) or 0)
        tokens_out = int(getattr(told, "completion_tokens", 0) or 0)
        if not tokens_in and not tokens_out:  # not told: count ourselves, so that a budget still ends
            tokens_in = sum(estimate_tokens(message["content"]) for message in messages)
            tokens_out = estimate_tokens(text)
        cost = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
        return Usage(tokens_in, tokens_out, 1, 0.0 if self._is_ollama else cost)

    async def _tell(self, emit: Emit, role: Role, usage: Usage, began: float, error: str = "") -> None:
        seconds = time.monotonic() - began
        tokens = f"{usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"
        how = f"gave no answer in {words.took(seconds)}: {error}" if error else f"answered in {words.took(seconds)} ({tokens})"
        await emit(
            ModelCalled(
                text=f"The model {words.code(self.name)} {how}",
                model=self.name,
                role=role,
                tokens_in=usage.tokens_in,
                tokens_out=usage.tokens_out,
                seconds=seconds,
                cost=usage.cost,
                error=error,
            )
        )

    def _translated(self, litellm: Any, error: Exception) -> ModelError:
        """LiteLLM's error as ours. Subclasses come before what they derive from."""
        usage = Usage(calls=1)
        told = self._clean(str(getattr(error, "message", "") or error))
        status = getattr(error, "status_code", None)
        if isinstance(error, litellm.ContextWindowExceededError):
            return ContextTooLong(f"the prompt does not fit into its window: {told}", usage)
        if isinstance(error, litellm.ContentPolicyViolationError) or _code(error) in (
            "content_policy_violation",
            "content_filter",
        ):
            return Refused(f"the provider refused: {told}", usage)
        if isinstance(error, litellm.Timeout):
            return Timeout(f"no answer in time: {told}", self._unanswered)
        if isinstance(error, litellm.RateLimitError):
            if _code(error) == "insufficient_quota":
                return Misconfigured(f"its quota is used up: {told}", usage)
            return RateLimited("the provider limits the rate", _retry_after(error), usage)
        if isinstance(status, int) and status >= 500:
            # LiteLLM calls some of these a bad request, by the words of their message.
            return Unavailable(f"the model {self.name} is not reachable: {told}", usage)
        is_wrong = (litellm.AuthenticationError, litellm.PermissionDeniedError, litellm.NotFoundError, litellm.BadRequestError)
        if isinstance(error, is_wrong) or status == 403 or "Missing credentials" in told or "api_key" in told:
            return Misconfigured(f"the model {self.name} is not usable as it is set up: {told}", usage)
        return Unavailable(f"the model {self.name} is not reachable: {told}", usage)

    def _clean(self, text: str) -> str:
        """An error's first line, without our key."""
        line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
        if self.settings.api_key:
            line = line.replace(self.settings.api_key, "…")
        return re.sub(r"\b(sk|key)-[\w-]{8,}", "…", line)[:300]


async def find_local_model(base: str = "http://localhost:11434") -> str | None:
    """LiteLLM's name of a coder that is installed in the Ollama at `base`; None when there is none, or no Ollama."""
    try:
        async with httpx.AsyncClient(timeout=1.5) as client:
            found = (await client.get(f"{base.rstrip('/')}/api/tags")).raise_for_status().json()
        names = [str(model["name"]) for model in found["models"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None
    coders = [name for name in names if "cod" in name.lower()]
    best = next((name for name in coders if "qwen" in name.lower()), next(iter(coders), None))
    return f"ollama_chat/{best}" if best else None


@functools.cache
def _litellm() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it fetches a price list from the network
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else it obeys any `.env` around, and a checkout's may send keys away
    import litellm

    litellm.suppress_debug_info = True
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)
    return litellm


def _wait_before_retry(error: ModelError, tries: int) -> float | None:
    """Seconds until the next try, or None when another one would not help."""
    if isinstance(error, RateLimited):
        return error.retry_after if error.retry_after is not None else min(60.0, math.pow(2, tries))
    if isinstance(error, Unavailable) and tries < UNAVAILABLE_TRIES:
        return 0.5 * math.pow(2, tries) + random.random() * 0.25  # noqa: S311 - jitter
    return None


def _retry_after(error: Exception) -> float | None:
    headers = getattr(error, "litellm_response_headers", None) or getattr(getattr(error, "response", None), "headers", None)
    try:
        return max(0.0, float(str((headers or {}).get("retry-after"))))
    except ValueError:
        return None


def _code(error: Exception) -> str:
    body: object = getattr(error, "body", None)
    return str(body.get("code", "")) if isinstance(body, dict) else ""
