"""One request to one model over LiteLLM, the only room that imports it: deadlines, accounting, typed errors.

LiteLLM takes seconds and 180 MB to import: it happens at the first call, or in the background after `load`. Keys never reach a
message of an error.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import re
from collections.abc import Sequence
from typing import Any

from agent.contract.usage import Usage
from agent.models.values import (
    Answer,
    ContextTooLong,
    Message,
    Misconfigured,
    ModelError,
    ModelSettings,
    RateLimited,
    Refused,
    Timeout,
    Truncated,
    Unavailable,
    estimate_tokens,
)

LONGEST_ANSWER = 1024 * 1024  # characters that are kept of one
KEYLESS = "none"  # the OpenAI client wants a key, also for a server that asks for none
ANSWER_TOKENS = 4096  # room that is left for the answer


class Provider:
    """One model, as it is reached."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings

    @property
    def answer_tokens(self) -> int:
        """The longest answer that is asked for."""
        return min(ANSWER_TOKENS, self.settings.context // 3)

    async def complete(self, messages: Sequence[Message], *, seconds: float, temperature: float = 0.0) -> Answer:
        """One answer to one request, without a second try. Raises `ModelError`."""
        litellm = await asyncio.to_thread(load)
        options: dict[str, Any] = {"max_tokens": self.answer_tokens, "temperature": temperature}
        if self.settings.is_local:
            self._make_known(litellm)
            options |= {"num_ctx": self.settings.context, "keep_alive": "10m"}
        if self._caches:
            options["cache_control_injection_points"] = [{"location": "message", "role": "system"}]
        told = [dict(message) for message in messages]
        response = await self._request(litellm.acompletion, seconds, messages=told, drop_params=True, **options)
        return self._read(response, messages)

    async def embed(self, texts: Sequence[str], *, seconds: float) -> list[list[float]]:
        """A vector for each text, in their order. Raises `ModelError`."""
        litellm = await asyncio.to_thread(load)
        response = await self._request(litellm.aembedding, seconds, input=list(texts))
        try:
            vectors = [[float(number) for number in item["embedding"]] for item in response.data]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise Unavailable("its answer has no vectors", Usage(calls=1)) from None
        if len(vectors) != len(texts):
            raise Unavailable(f"it gave {len(vectors)} vectors for {len(texts)} texts", Usage(calls=1))
        return vectors

    async def _request(self, function: Any, seconds: float, **options: Any) -> Any:
        settings = self.settings
        limit = max(0.1, min(settings.timeout, seconds))
        try:
            async with asyncio.timeout(limit):
                return await function(
                    model=settings.name,
                    api_base=settings.api_base,
                    api_key=settings.api_key or (KEYLESS if settings.provider == "openai" and settings.api_base else None),
                    timeout=limit,
                    max_retries=0,  # else LiteLLM sends three requests
                    **options,
                )
        except TimeoutError:
            raise Timeout(f"no answer within {limit:.0f} s", self._unanswered) from None
        except Exception as error:  # noqa: BLE001 - LiteLLM's tree has no root of its own, and its own bugs come out bare
            raise self._translated(load(), error) from None

    @property
    def _caches(self) -> bool:
        """Anthropic's models keep the beginning of a prompt only where they are told to; others do so by themselves."""
        return self.settings.provider == "anthropic" or "claude" in self.settings.name

    @property
    def _unanswered(self) -> Usage:
        """What a call costs that the provider may still have worked on: nobody tells."""
        return Usage(calls=1, cost=0.0 if self.settings.is_local else None)

    def _make_known(self, litellm: Any) -> None:
        """Else LiteLLM asks Ollama about each model it does not know, with a blocking call from inside our event loop."""
        facts = {"litellm_provider": "ollama_chat", "mode": "chat", "max_tokens": self.settings.context}
        free = {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
        for name in (self.settings.name, self.settings.name.partition("/")[2]):
            litellm.model_cost.setdefault(name, {**facts, **free})

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
        return Answer(text, usage, finish, self.settings.name)

    def _usage(self, response: Any, messages: Sequence[Message], text: str) -> Usage:
        told = getattr(response, "usage", None)
        tokens_in = int(getattr(told, "prompt_tokens", 0) or 0)
        tokens_out = int(getattr(told, "completion_tokens", 0) or 0)
        if not tokens_in and not tokens_out:  # not told: count ourselves, so that a budget still ends
            tokens_in = sum(estimate_tokens(message["content"]) for message in messages)
            tokens_out = estimate_tokens(text)
        cost = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
        return Usage(tokens_in, tokens_out, 1, 0.0 if self.settings.is_local else cost)

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
        name = self.settings.name
        if "Missing credentials" in told:  # LiteLLM calls it a server's fault
            return Misconfigured(f"the model {name} needs a key: set SELFHEAL_MODEL_API_KEY", usage)
        if isinstance(status, int) and status >= 500:
            # LiteLLM calls some of these a bad request, by the words of their message.
            return Unavailable(f"the model {name} is not reachable: {told}", usage)
        is_wrong = (litellm.AuthenticationError, litellm.PermissionDeniedError, litellm.NotFoundError, litellm.BadRequestError)
        if isinstance(error, is_wrong) or status == 403 or "api_key" in told:
            return Misconfigured(f"the model {name} is not usable as it is set up: {told}", usage)
        return Unavailable(f"the model {name} is not reachable: {told}", usage)

    def _clean(self, text: str) -> str:
        """An error's first line, without our key."""
        line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
        if self.settings.api_key:
            line = line.replace(self.settings.api_key, "…")
        return re.sub(r"\b(sk|key)-[\w-]{8,}", "…", line)[:300]


@functools.cache
def load() -> Any:
    """Import LiteLLM, once; seconds, so never on the event loop."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it fetches a price list from the network
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else it obeys any `.env` around, and a checkout's may send keys away
    import litellm

    litellm.suppress_debug_info = True
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)
    return litellm


def _retry_after(error: Exception) -> float | None:
    headers = getattr(error, "litellm_response_headers", None) or getattr(getattr(error, "response", None), "headers", None)
    try:
        return max(0.0, float(str((headers or {}).get("retry-after"))))
    except ValueError:
        return None


def _code(error: Exception) -> str:
    body: object = getattr(error, "body", None)
    return str(body.get("code", "")) if isinstance(body, dict) else ""
