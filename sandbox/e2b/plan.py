"""The operator's E2B options: key, template, limits of the plan. Does not import the SDK."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OWN_TEMPLATE = "selfheal"  # until it is built, the public one is used


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: `call` for one small request, `create` for one machine, `line` for recovering a lost connection."""

    call: float = 20.0
    create: float = 60.0
    line: float = 45.0


@dataclass(frozen=True, slots=True)
class Account:
    """How to reach E2B and what to request. The URLs are for a self-hosted deployment."""

    api_key: str = field(repr=False)
    template: str = OWN_TEMPLATE
    at_once: int = 20  # concurrent sandboxes per worker process
    per_second: float = 1.0  # creations per worker process
    lifetime: float = 3600.0  # seconds per sandbox, however often its lease is renewed
    api_url: str | None = None
    sandbox_url: str | None = None
    domain: str | None = None
    timeouts: Timeouts = Timeouts()

    @property
    def options(self) -> dict[str, Any]:
        """Options of every SDK call. The SDK's retries are off, because only ours know how long an attempt may wait."""
        named = {"api_url": self.api_url, "sandbox_url": self.sandbox_url, "domain": self.domain}
        given = {name: value for name, value in named.items() if value}
        return {"api_key": self.api_key, "debug": False, "request_timeout": self.timeouts.call, "retries": 0, **given}
