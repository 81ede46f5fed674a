"""What the operator says of E2B: the key, the template, the plan's limits. Plain values; the SDK is not needed for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds. `call` is for one small request, `create` for one machine, `line` for how long a lost line is looked for."""

    call: float = 20.0
    create: float = 60.0
    line: float = 45.0


@dataclass(frozen=True, slots=True)
class Account:
    """How E2B is reached, and what is asked of it. The URLs are for a deployment of one's own."""

    api_key: str = field(repr=False)
    template: str = "selfheal"
    at_once: int = 20  # sandboxes, of one worker process
    per_second: float = 1.0  # creations
    lifetime: float = 3600.0  # seconds of one sandbox, however often its lease is renewed
    api_url: str | None = None
    sandbox_url: str | None = None
    domain: str | None = None
    patience: Patience = Patience()

    @property
    def options(self) -> dict[str, Any]:
        """The SDK's own retries are off: ours know how long an attempt may wait."""
        named = {"api_url": self.api_url, "sandbox_url": self.sandbox_url, "domain": self.domain}
        given = {name: value for name, value in named.items() if value}
        return {"api_key": self.api_key, "debug": False, "request_timeout": self.patience.call, "retries": 0, **given}
