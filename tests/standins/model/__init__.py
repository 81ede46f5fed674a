"""A model server that answers by script, over the OpenAI and the Ollama chat APIs."""

from tests.standins.model.replies import (
    Reply,
    context_too_long,
    dripping,
    empty,
    failing,
    garbage,
    hanging,
    huge,
    rate_limited,
    refused,
    truncated,
    unauthorized,
    withheld,
)
from tests.standins.model.server import Asked, ScriptedModel

__all__ = [
    "Asked",
    "Reply",
    "ScriptedModel",
    "context_too_long",
    "dripping",
    "empty",
    "failing",
    "garbage",
    "hanging",
    "huge",
    "rate_limited",
    "refused",
    "truncated",
    "unauthorized",
    "withheld",
]
