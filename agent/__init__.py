"""The repair engine, and code from specifications. `agent.api` has the functions for other programs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.api import Agent, Options, heal, heal_sync, solve, solve_sync

__all__ = ["Agent", "Options", "heal", "heal_sync", "solve", "solve_sync"]


def __getattr__(name: str) -> Any:
    """The API is imported when it is used: the engine's own modules must not load it."""
    if name in __all__:
        return getattr(import_module("agent.api"), name)
    raise AttributeError(f"module 'agent' has no attribute {name!r}")
