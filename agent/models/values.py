"""Prompts, answers and settings of language models, and their errors.

    ModelError                `usage`: what was spent before it failed
    ├── RateLimited           retry_after: seconds | None
    ├── Timeout               no answer in time
    ├── ModelRefused               the provider or the model declined
    ├── Truncated             the answer was cut off; a shorter one may fit
    ├── ContextTooLong        the prompt does not fit
    ├── ModelUnavailable           not reachable, or an unusable answer
    └── Misconfigured         wrong key, name or parameter: someone has to act

`agent/models/router.py` chooses the model; `agent/models/provider.py` sends the request.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Literal, TypedDict
from urllib.parse import urlsplit

from agent.contract.budget import Usage

Role = Literal["diagnose", "repair", "review", "challenge", "design", "write", "dispute", "attack"]
WRITERS: tuple[Role, ...] = ("repair", "write")  # roles that write code
KIN: Mapping[Role, Role] = {"design": "write", "dispute": "review", "attack": "challenge"}
"""Roles that use the model of another one."""
COLD = 0.0
"""The temperature of a request that asks for no other."""


class Message(TypedDict):
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation so far, for one role."""

    role: Role
    version: int  # of the role's template
    messages: tuple[Message, ...]

    @property
    def name(self) -> str:
        """ "repair/2", as recorded with every call."""
        return f"{self.role}/{self.version}"

    def then(self, said: str, answer: str) -> Prompt:
        """The conversation with the model's message and the reply appended."""
        more: tuple[Message, ...] = ({"role": "assistant", "content": said}, {"role": "user", "content": answer})
        return replace(self, messages=self.messages + more)

    @property
    def tokens(self) -> int:
        """An estimate that tends to be too high."""
        return sum(estimate_tokens(message["content"]) for message in self.messages)


class ModelError(Exception):
    """A model could not be reached, or gave no usable answer."""

    worth_another_try = False  # can the same rung be asked again in another round?
    worth_another_model = True  # can a fallback do better?
    is_outage = False  # was it not asked at all, so that this says nothing about the model's answers?

    def __init__(self, reason: str, usage: Usage = Usage()) -> None:
        super().__init__(reason)
        self.reason, self.usage = reason, usage


class RateLimited(ModelError):
    is_outage = True

    def __init__(self, reason: str, retry_after: float | None = None, usage: Usage = Usage()) -> None:
        super().__init__(reason, usage)
        self.retry_after = retry_after


class Timeout(ModelError):
    worth_another_try = True


class ModelRefused(ModelError): ...


class Truncated(ModelError):
    worth_another_try = True
    worth_another_model = False


class ContextTooLong(ModelError): ...


class ModelUnavailable(ModelError):
    is_outage = True


class Misconfigured(ModelError):
    is_outage = True


def is_loopback(host: str) -> bool:
    """Whether a name or an address is reachable only from this machine."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def ollama_address(environment: Mapping[str, str] = os.environ) -> str:
    """The URL of the Ollama that no setting names, from LiteLLM's variable or Ollama's own: a URL, a host, or host:port."""
    given = (environment.get("OLLAMA_API_BASE") or environment.get("OLLAMA_HOST") or "").strip(" /")
    if "://" in given:
        return given
    try:
        plain = urlsplit(f"//[{given}]" if given.count(":") > 1 and "[" not in given else f"//{given}")
        host, port = plain.hostname or "", plain.port or 11434
    except ValueError:
        return f"http://{given}"  # reported as a server that does not answer
    host = "localhost" if host in ("", "0.0.0.0", "::") else host  # noqa: S104 - what a server listens on
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{plain.path}"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """A model, and how to reach it. `name` is LiteLLM's ("ollama_chat/qwen2.5-coder:7b")."""

    name: str
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 120.0  # seconds per call
    context: int = 16_384  # tokens of its context window
    answer_tokens: int = 4_096  # the limit for an answer; reasoning counts

    @property
    def provider(self) -> str:
        if self.is_scripted:
            return "scripted"
        if self.is_snapshot:
            return "transformers"
        return self.name.partition("/")[0] if "/" in self.name else ""

    @property
    def is_local(self) -> bool:
        """Ollama: free of charge, one request at a time."""
        return self.provider in ("ollama", "ollama_chat")

    @property
    def server(self) -> str | None:
        """The URL that requests go to; None if LiteLLM knows it, or none is needed."""
        return self.api_base or (ollama_address() if self.is_local else None)

    @property
    def is_scripted(self) -> bool:
        """It answers from a file (`agent/models/scripted.py`)."""
        return self.name == "scripted" or self.name.startswith("scripted:")

    @property
    def is_snapshot(self) -> bool:
        """This process loads it from a folder (`agent/models/local_transformers.py`)."""
        return self.name.startswith(("transformers:", "transformers-4bit:"))

    @property
    def is_on_this_machine(self) -> bool:
        """Whether it probably computes on this machine's cores: Ollama, a snapshot, or a server at a loopback address."""
        return self.is_local or self.is_snapshot or is_loopback(urlsplit(self.api_base or "").hostname or "")


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    usage: Usage
    finish: str  # the provider's finish reason: "stop", …
    model: str


def estimate_tokens(text: str) -> int:
    """An estimate that tends to be too high for code and English, without a tokenizer (which may need the network)."""
    return len(text) // 3 + 1
