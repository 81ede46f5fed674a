"""Chooses the model by rung and role, retries, and uses fallbacks when a model is unavailable or declines.

Prompts never contain access tokens. Every call emits an event and a span with the prompt's version.
"""

from __future__ import annotations

import asyncio
import copy
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import httpx

from agent.contract import words
from agent.contract.budget import Meter, Usage
from agent.contract.events import Degraded, Emit, ModelCalled
from agent.models import registered, tracing
from agent.models.local_transformers import LocalTransformers
from agent.models.provider import Provider, load, warm
from agent.models.registered import Answering
from agent.models.scripted import Scripted
from agent.models.values import (
    COLD,
    KIN,
    WRITERS,
    Answer,
    ContextTooLong,
    Message,
    Misconfigured,
    ModelError,
    ModelSettings,
    ModelUnavailable,
    OutOfBudget,
    Prompt,
    RateLimited,
    Role,
    ollama_address,
)

UNAVAILABLE_TRIES = 3
FIRST_WAIT = 1.0  # seconds before the second try; it doubles with each
EMBEDDING_SECONDS = 30.0


class Models:
    """The models of a worker.

    `roles` overrides the rung's own model for a role. `hide` removes secrets from a text that is sent. `temperatures` are the
    least ones by role, `answer_tokens` replace the models' own limits.
    """

    def __init__(
        self,
        small: ModelSettings,
        strong: ModelSettings | None = None,
        fallbacks: Sequence[ModelSettings] = (),
        roles: Mapping[Role, ModelSettings] | None = None,
        embedding: ModelSettings | None = None,
        hide: Callable[[str], str] = str,
        temperatures: Mapping[Role, float] = MappingProxyType({}),
        answer_tokens: Mapping[Role, int] = MappingProxyType({}),
    ) -> None:
        self._hide, self._temperatures, self._tokens = hide, temperatures, answer_tokens
        self._limited: dict[ModelSettings, Answering] = {}
        self._small = _provider(small)
        self._roles = {role: _provider(settings) for role, settings in (roles or {}).items()}
        self._rungs = [self._roles.get("repair", self._small), *([_provider(strong)] if strong else [])]
        self._fallbacks = tuple(_provider(settings) for settings in fallbacks)
        self._embedding = _provider(embedding) if embedding else None
        self._warming: asyncio.Task[object] | None = None
        self._meter: Meter | None = None

    def metered(self, meter: Meter) -> Models:
        """The same models; each call counts in `meter`, and is refused with `OutOfBudget` once the budget is used up."""
        found = copy.copy(self)
        found._meter = meter
        return found

    @property
    def name(self) -> str:
        """The first model's name."""
        return self._small.settings.name

    @property
    def rungs(self) -> tuple[str, ...]:
        """The models with a rung of their own, cheapest first."""
        return tuple(dict.fromkeys(provider.settings.name for provider in self._rungs))

    @property
    def all_settings(self) -> tuple[ModelSettings, ...]:
        """Every model that may be asked for text, each once."""
        asked = (*self._rungs, self._small, *self._roles.values(), *self._fallbacks)
        return tuple(dict.fromkeys(provider.settings for provider in asked))

    @property
    def fallbacks(self) -> tuple[ModelSettings, ...]:
        """Those that are asked if a model is unavailable or declines, in order."""
        return tuple(provider.settings for provider in self._fallbacks)

    @property
    def embedding(self) -> ModelSettings | None:
        return self._embedding.settings if self._embedding else None

    def settings(self, role: Role, rung: str = "") -> ModelSettings:
        """The first model for a role on a rung."""
        return self._first(role, rung).settings

    def room(self, role: Role, rung: str = "") -> int:
        """The number of tokens that a prompt can have."""
        first = self._first(role, rung)
        return max(512, first.settings.context - first.answer_tokens)

    def answer_tokens(self, role: Role, rung: str = "") -> int:
        """The limit for an answer."""
        return self._first(role, rung).answer_tokens

    def temperature(self, role: Role) -> float:
        """The least one of a request."""
        return self._temperatures.get(role, COLD)

    def warm(self) -> None:
        """Start importing LiteLLM in the background; needs a running loop."""
        if needs_litellm(self._small.settings):
            self._warming = self._warming or asyncio.create_task(asyncio.to_thread(warm))

    async def ask(self, prompt: Prompt, *, seconds: float, emit: Emit, temperature: float = COLD, rung: str = "") -> Answer:
        """One answer within `seconds`, including waits for rate limits and short outages. Raises `ModelError`.

        `rung` is the asking rung's model ("" for the first). If a model is unavailable or declines, the fallbacks are asked
        in order, each with a `Degraded` event; the last one's error is raised.
        """
        plain: list[Message] = [{**message, "content": self._hide(message["content"])} for message in prompt.messages]
        prompt = replace(prompt, messages=tuple(plain))
        first, meter, temperature = self._first(prompt.role, rung), self._meter, max(temperature, self.temperature(prompt.role))
        if meter is None:
            return await self._ask(prompt, first, seconds, emit, temperature)
        most, usage = prompt.tokens + first.answer_tokens, Usage()
        if (bound := meter.call_starts(most)) is not None:
            raise OutOfBudget(bound)
        try:
            answer = await self._ask(prompt, first, min(seconds, meter.ledger().seconds_left()), emit, temperature)
            usage = answer.usage
        except ModelError as error:
            usage = error.usage
            raise
        except asyncio.CancelledError:
            usage = Usage(calls=1, cost=None)
            raise
        finally:
            meter.call_ended(most, usage)
        return answer

    async def _ask(self, prompt: Prompt, first: Answering, seconds: float, emit: Emit, temperature: float) -> Answer:
        """The first model's answer, or a fallback's. Raises `ModelError`."""
        rest = [self._as(prompt.role, provider) for provider in self._fallbacks]
        asked = [first, *(provider for provider in rest if provider.settings != first.settings)]
        if any(needs_litellm(provider.settings) for provider in asked):
            await asyncio.to_thread(load)  # the first import takes seconds, which do not count
        deadline, spent = time.monotonic() + seconds, Usage()
        for at, provider in enumerate(asked):
            # Keep time for the fallbacks.
            share = deadline - (deadline - time.monotonic()) * (0.4 if at + 1 < len(asked) else 0.0)
            try:
                answer = await _Request(provider, prompt, temperature, emit).within(share)
            except ModelError as error:
                spent += error.usage
                error.usage = spent
                if at + 1 == len(asked) or not error.worth_another_model or time.monotonic() >= deadline:
                    raise
                why = f"{error.reason}; asking {asked[at + 1].settings.name} instead"
                await emit(Degraded(text=f"{provider.settings.name}: {why}", step=prompt.role, why=why))
            else:
                return replace(answer, usage=spent + answer.usage)
        raise AssertionError("unreachable")

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in their order. Raises `ModelError`: `Misconfigured` without an embedding model."""
        if self._embedding is None:
            raise Misconfigured("no embedding model is set")
        if not texts:
            return []
        with tracing.model_call("embeddings", self._embedding.settings):
            return await self._embedding.embed([self._hide(text) for text in texts], seconds=EMBEDDING_SECONDS)

    def _first(self, role: Role, rung: str) -> Answering:
        strong = next((provider for provider in self._rungs[1:] if provider.settings.name == rung), None)
        if role in WRITERS:
            return self._as(role, strong or self._roles.get(role) or self._rungs[0])
        return self._as(role, self._roles.get(KIN.get(role, role)) or strong or self._small)

    def _as(self, role: Role, provider: Answering) -> Answering:
        """The model with the role's own limit of an answer. A script has none."""
        if (most := self._tokens.get(role)) is None or provider.settings.is_scripted:
            return provider
        settings = replace(provider.settings, answer_tokens=most)
        if settings not in self._limited:
            self._limited[settings] = _provider(settings)
        return self._limited[settings]


def _provider(settings: ModelSettings) -> Answering:
    if settings.is_scripted:
        return Scripted(settings)
    if settings.is_snapshot:
        return LocalTransformers(settings)
    return registered.provider(settings) or Provider(settings)


def needs_litellm(settings: ModelSettings) -> bool:
    """Whether its requests go through LiteLLM."""
    return not (settings.is_scripted or settings.is_snapshot or registered.is_registered(settings))


class _Request:
    """One prompt to one model, with retries."""

    def __init__(self, provider: Answering, prompt: Prompt, temperature: float, emit: Emit) -> None:
        self._provider, self._prompt, self._temperature, self._emit = provider, prompt, temperature, emit
        self._name = provider.settings.name
        self._failed = ""  # why the last try failed

    async def within(self, deadline: float) -> Answer:
        """Raises `ModelError` with the usage of all tries. `deadline` is a time of `time.monotonic`."""
        settings, size = self._provider.settings, self._prompt.tokens
        if size > settings.context:
            raise ContextTooLong(f"the prompt has about {size} tokens, the model's context window has {settings.context}")
        tries, spent = 0, Usage()
        while True:
            try:
                answer = await self._once(deadline)
            except ModelError as error:
                tries, spent = tries + 1, spent + error.usage
                error.usage = spent
                wait = _wait_before_retry(error, tries)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise
                await self._degraded(error.reason, f"{self._name}: asking again in {wait:.1f} s")  # the call's event said why
                await asyncio.sleep(wait)
            else:
                if settings.is_local and 0 < answer.usage.tokens_in < size // 3:
                    await self._degraded(f"the model saw only {answer.usage.tokens_in} of about {size} tokens of its prompt")
                return replace(answer, usage=spent + answer.usage)

    async def _once(self, deadline: float) -> Answer:
        began = time.monotonic()
        try:
            with tracing.model_call("chat", self._provider.settings, self._temperature) as span:
                answer = await self._provider.complete(
                    self._prompt.messages,
                    seconds=deadline - began,
                    temperature=self._temperature,
                    role=self._prompt.role,
                )
                tracing.answered(span, answer)
        except ModelError as error:
            await self._report(error.usage, began, error.reason)
            raise
        await self._report(answer.usage, began)
        return answer

    async def _report(self, usage: Usage, began: float, error: str = "") -> None:
        seconds = time.monotonic() - began
        tokens = f"{usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"
        how = f"failed after {words.took(seconds)}: {error}" if error else f"answered in {words.took(seconds)} ({tokens})"
        if error and error == self._failed:
            how = f"failed again after {words.took(seconds)}, for the same reason"
        self._failed = error
        await self._emit(
            ModelCalled(
                text=f"The model {words.code(self._name)} {how}",
                model=self._name,
                role=self._prompt.role,
                prompt=self._prompt.name,
                tokens_in=usage.tokens_in,
                tokens_out=usage.tokens_out,
                seconds=seconds,
                cost=usage.cost,
                error=error,
            )
        )

    async def _degraded(self, why: str, text: str = "") -> None:
        await self._emit(Degraded(text=text or why, step=self._prompt.role, why=why))


async def find_local_model(base: str | None = None) -> str | None:
    """LiteLLM's name of a coding model installed in the Ollama at `base`, or at its own address; None without one."""
    try:
        async with httpx.AsyncClient(timeout=1.5) as client:
            found = (await client.get(f"{(base or ollama_address()).rstrip('/')}/api/tags")).raise_for_status().json()
        names = [str(model["name"]) for model in found["models"]]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        return None
    coders = [name for name in names if "cod" in name.lower()]
    best = next((name for name in coders if "qwen" in name.lower()), next(iter(coders), None))
    return f"ollama_chat/{best}" if best else None


def _wait_before_retry(error: ModelError, tries: int) -> float | None:
    """Seconds until the next try, or None if another try would not help."""
    if isinstance(error, RateLimited):
        return error.retry_after if error.retry_after is not None else min(60.0, math.pow(2, tries))
    if isinstance(error, ModelUnavailable) and tries < UNAVAILABLE_TRIES:
        return FIRST_WAIT * (math.pow(2, tries - 1) + random.random() / 4)  # noqa: S311 - jitter
    return None
