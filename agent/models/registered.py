"""Model providers that other packages add by entry points (docs/extending.md).

selfheal.providers    a factory that takes `ModelSettings` and makes an object with the methods of
                      `Answering`; it answers the models called NAME or NAME:ANYTHING
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from agent.contract.extension import PROVIDERS
from agent.models.values import Answer, Message, Misconfigured, ModelSettings


class Answering(Protocol):
    """One model."""

    settings: ModelSettings

    @property
    def answer_tokens(self) -> int:
        """The limit for an answer."""

    async def complete(
        self, messages: Sequence[Message], *, seconds: float, temperature: float = 0.0, role: str = ""
    ) -> Answer:
        """One request without retries. Raises `agent.models.values.ModelError`."""

    async def embed(self, texts: Sequence[str], *, seconds: float) -> list[list[float]]:
        """A vector for each text, in their order. Raises `agent.models.values.ModelError`."""


def names() -> tuple[str, ...]:
    return tuple(sorted({point.name for point in entry_points(group=PROVIDERS)}))


def is_registered(settings: ModelSettings) -> bool:
    return settings.name.partition(":")[0] in names()


def provider(settings: ModelSettings) -> Answering | None:
    """The provider that another package adds for this model; None if none does. A broken one refuses each request."""
    name = settings.name.partition(":")[0]
    points = [point for point in entry_points(group=PROVIDERS) if point.name == name]
    return _made(points[0], settings) if points else None


def _made(point: EntryPoint, settings: ModelSettings) -> Answering:
    owner = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"
    try:
        made: Answering = point.load()(settings)
    except Exception as error:  # noqa: BLE001 - importing and calling an extension can raise anything
        return _Broken(settings, f"the provider {point.name!r} of {owner} cannot be used: {type(error).__name__}: {error}")
    if not inspect.iscoroutinefunction(getattr(made, "complete", None)) or not hasattr(made, "answer_tokens"):
        why = f"the provider {point.name!r} of {owner} is not an `agent.models.registered.Answering`"
        return _Broken(settings, f"{why}: it needs `async complete(…)` and `answer_tokens`")
    return made


@dataclass
class _Broken:
    settings: ModelSettings
    why: str
    answer_tokens: int = 1

    async def complete(
        self, messages: Sequence[Message], *, seconds: float, temperature: float = 0.0, role: str = ""
    ) -> Answer:
        raise Misconfigured(self.why)

    async def embed(self, texts: Sequence[str], *, seconds: float) -> list[list[float]]:
        raise Misconfigured(self.why)
