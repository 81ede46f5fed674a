"""One request to one model through LiteLLM, with a deadline, accounting and typed errors. Only this module imports LiteLLM.

The import takes seconds and 180 MB, so it happens at the first call, or earlier in the background. Error messages never
contain keys.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from agent.contract.budget import Usage
from agent.models.values import (
    Answer,
    ContextTooLong,
    Message,
    Misconfigured,
    ModelError,
    ModelRefused,
    ModelSettings,
    ModelUnavailable,
    RateLimited,
    Timeout,
    Truncated,
    estimate_tokens,
)

LONGEST_ANSWER = 1024 * 1024  # characters; the rest is cut
KEYLESS = "none"  # the OpenAI client requires a key even for servers that need none


class Provider:
    """Access to one model."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings

    @property
    def answer_tokens(self) -> int:
        """The limit for an answer."""
        return min(self.settings.answer_tokens, self.settings.context // 3)

    async def complete(
        self, messages: Sequence[Message], *, seconds: float, temperature: float = 0.0, role: str = ""
    ) -> Answer:
        """One request without retries. `role` decides only for scripted models. Raises `ModelError`."""
        litellm = await asyncio.to_thread(load)
        options: dict[str, Any] = {"max_tokens": self.answer_tokens, "temperature": temperature}
        if self.settings.is_local:
            self._register(litellm)
            options |= {"num_ctx": self.settings.context, "keep_alive": "10m"}
        if self._caches:
            options["cache_control_injection_points"] = [{"location": "message", "role": "system"}]
        plain = [dict(message) for message in messages]
        response = await self._request(litellm.acompletion, seconds, messages=plain, drop_params=True, **options)
        return self._read(response, messages)

    async def embed(self, texts: Sequence[str], *, seconds: float) -> list[list[float]]:
        """A vector for each text, in their order. Raises `ModelError`."""
        litellm = await asyncio.to_thread(load)
        response = await self._request(litellm.aembedding, seconds, input=list(texts))
        try:
            vectors = [[float(number) for number in item["embedding"]] for item in response.data]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ModelUnavailable("its answer has no vectors", Usage(calls=1)) from None
        if len(vectors) != len(texts):
            raise ModelUnavailable(f"its answer has {len(vectors)} vectors for {len(texts)} texts", Usage(calls=1))
        return vectors

    async def _request(self, function: Any, seconds: float, **options: Any) -> Any:
        settings = self.settings
        limit = max(0.1, min(settings.timeout, seconds))
        try:
            async with asyncio.timeout(limit):
                return await function(
                    model=settings.name,
                    api_base=settings.server,
                    api_key=settings.api_key or (KEYLESS if settings.provider == "openai" and settings.api_base else None),
                    timeout=limit,
                    max_retries=0,  # LiteLLM's default sends up to three requests
                    **options,
                )
        except TimeoutError:
            raise Timeout(f"no answer within {limit:.0f} s", self._unanswered) from None
        except Exception as error:  # noqa: BLE001 - LiteLLM's errors have no common base class, and its own bugs raise anything
            raise self._translated(load(), error) from None

    @property
    def _caches(self) -> bool:
        """Anthropic's models cache prompt prefixes only on request; others do it by default."""
        return self.settings.provider == "anthropic" or "claude" in self.settings.name

    @property
    def _unanswered(self) -> Usage:
        """A call without an answer: its cost is unknown, as the provider may have worked on it."""
        return Usage(calls=1, cost=0.0 if self.settings.is_local else None)

    def _register(self, litellm: Any) -> None:
        """Registers the model. For an unknown one, LiteLLM would query Ollama with a blocking call on the event loop."""
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
            raise ModelUnavailable("its answer has no message", Usage(calls=1)) from None
        text = str(text)[:LONGEST_ANSWER].encode("utf-8", "replace").decode("utf-8").replace("\0", "")
        usage = self._usage(response, messages, text)
        if finish == "length":
            raise Truncated(f"its answer was cut at {usage.tokens_out} tokens", usage)
        if finish == "content_filter":
            raise ModelRefused("the provider's content filter withheld the answer", usage)
        return Answer(text, usage, finish, self.settings.name)

    def _usage(self, response: Any, messages: Sequence[Message], text: str) -> Usage:
        reported = getattr(response, "usage", None)
        tokens_in = int(getattr(reported, "prompt_tokens", 0) or 0)
        tokens_out = int(getattr(reported, "completion_tokens", 0) or 0)
        if not tokens_in and not tokens_out:  # not reported: estimate, so that budgets still apply
            tokens_in = sum(estimate_tokens(message["content"]) for message in messages)
            tokens_out = estimate_tokens(text)
        cost = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
        return Usage(tokens_in, tokens_out, 1, 0.0 if self.settings.is_local else cost)

    def _translated(self, litellm: Any, error: Exception) -> ModelError:
        """LiteLLM's error as a `ModelError`. Subclasses are checked before their bases."""
        usage = Usage(calls=1)
        message = self._clean(str(getattr(error, "message", "") or error))
        status = getattr(error, "status_code", None)
        if isinstance(error, litellm.ContextWindowExceededError):
            return ContextTooLong(f"the prompt exceeds the model's context window: {message}", usage)
        if isinstance(error, litellm.ContentPolicyViolationError) or _code(error) in (
            "content_policy_violation",
            "content_filter",
        ):
            return ModelRefused(f"the provider refused: {message}", usage)
        if isinstance(error, litellm.Timeout):
            return Timeout(f"timed out: {message}", self._unanswered)
        name = self.settings.name
        if isinstance(error, litellm.RateLimitError):
            if _code(error) == "insufficient_quota":
                return Misconfigured(f"the quota is exhausted: {message}", usage)
            return RateLimited(f"the model {name} is rate limited by its provider", _retry_after(error), usage)
        if "Missing credentials" in message:  # LiteLLM reports this as a server error
            return Misconfigured(f"the model {name} needs a key: set SELFHEAL_MODEL_API_KEY", usage)
        if isinstance(status, int) and status >= 500:
            # Judging by the message, LiteLLM classifies some of these as bad requests.
            return ModelUnavailable(f"the model {name} is not reachable: {message}{self._at}", usage)
        is_wrong = (litellm.AuthenticationError, litellm.PermissionDeniedError, litellm.NotFoundError, litellm.BadRequestError)
        if isinstance(error, is_wrong) or status == 403 or "api_key" in message:
            return Misconfigured(f"the model {name} is misconfigured: {message}", usage)
        return ModelUnavailable(f"the model {name} is not reachable: {message}{self._at}", usage)

    @property
    def _at(self) -> str:
        """The host that was asked, without credentials that its URL may have: " (gpu:8001)"."""
        host = urlsplit(self.settings.server or "").netloc.rpartition("@")[2]
        return f" ({host})" if host else ""

    def _clean(self, text: str) -> str:
        """The first line of an error message as a clause, without keys and the libraries' own names of the error."""
        line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
        if self.settings.api_key:
            line = line.replace(self.settings.api_key, "…")
        line = re.sub(r"litellm\.(\w+): (?:\1: )?|\b\w+Exception - ", "", line)
        line = re.sub(r"Cannot connect to host \S+ ssl:.*?\[(.*?)(?: \(.*)?\]$", r"\1", line)  # of aiohttp
        return re.sub(r"\b(sk|key)-[\w-]{8,}", "…", line)[:300].rstrip(". ")


@functools.cache
def load() -> Any:
    """Imports LiteLLM once. Takes seconds: never call it on the event loop."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise it downloads a price list
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # otherwise it reads any `.env`, and a checkout's could leak keys
    import litellm

    litellm.suppress_debug_info = True
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)
    return litellm


def warm() -> None:
    """Imports LiteLLM, and what it would import on the event loop at the first request: most of a second."""
    load()
    import openai.resources  # noqa: F401


def unknown_provider(model: str) -> str:
    """Why LiteLLM has no provider for a model of this name, "" if it has one. Takes seconds, as `load`."""
    litellm = load()
    try:
        litellm.get_llm_provider(model)
    except litellm.BadRequestError:
        return f"{model[:100]!r} has no provider that LiteLLM knows. Write PROVIDER/NAME, such as `ollama/qwen2.5-coder`"
    return ""


def missing_key(model: str) -> str:
    """The variable with the key that the provider of this model needs and the environment lacks; "" if it may answer without.

    Takes seconds, as `load`. Providers can take a key from further variables of their own; any of these counts.
    """
    litellm = load()
    missing = litellm.validate_environment(model)["missing_keys"]
    if not missing or "HUGGINGFACE_API_KEY" in missing or not all(name.endswith("_API_KEY") for name in missing):
        return ""  # no key, a server's address or an account: too many ways to give them
    own = tuple(name.removesuffix("API_KEY") for name in missing)
    return (
        ""
        if any(value and name.startswith(own) for name, value in os.environ.items())
        else " or ".join(f"`{name}`" for name in missing)
    )


def _retry_after(error: Exception) -> float | None:
    headers = getattr(error, "litellm_response_headers", None) or getattr(getattr(error, "response", None), "headers", None)
    try:
        return max(0.0, float(str((headers or {}).get("retry-after"))))
    except ValueError:
        return None


def _code(error: Exception) -> str:
    body: object = getattr(error, "body", None)
    return str(body.get("code", "")) if isinstance(body, dict) else ""
