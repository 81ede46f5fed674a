"""What is said to language models and what comes back, as values, and every way to fail as a type.

    ModelError                what was spent before it failed: `usage`
    ├── RateLimited           retry_after: seconds | None
    ├── Timeout               no answer within its time
    ├── Refused               the provider or the model declined
    ├── Truncated             the answer was cut; a shorter one may fit
    ├── ContextTooLong        the prompt does not fit
    ├── Unavailable           not reachable, or an answer that is none
    └── Misconfigured         key, name or parameter is wrong: a person has to act

Who is asked is `agent/models.py`; how, `agent/provider.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

from agent.contract.usage import Usage

Role = Literal["diagnose", "repair", "review", "challenge"]


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
        """ "repair/2": what is recorded with every call."""
        return f"{self.role}/{self.version}"

    def then(self, said: str, answer: str) -> Prompt:
        """The conversation after the model said something and is answered."""
        more: tuple[Message, ...] = ({"role": "assistant", "content": said}, {"role": "user", "content": answer})
        return replace(self, messages=self.messages + more)

    @property
    def tokens(self) -> int:
        """About how many it takes, on the safe side."""
        return sum(estimate_tokens(message["content"]) for message in self.messages)


class ModelError(Exception):
    """A model could not be asked, or did not answer with something that can be used."""

    worth_another_try = False  # the same rung may be asked again in another round
    worth_another_model = True  # one that stands in may do better

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
    worth_another_model = False


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

    @property
    def provider(self) -> str:
        return self.name.partition("/")[0] if "/" in self.name else ""

    @property
    def is_local(self) -> bool:
        """An Ollama: it costs nothing, and answers one question at a time."""
        return self.provider in ("ollama", "ollama_chat")


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    usage: Usage
    finish: str  # the provider's word for how it ended: "stop", …
    model: str  # who gave it


def estimate_tokens(text: str) -> int:
    """A count on the safe side for code and English, without a tokenizer (which may want the network)."""
    return len(text) // 3 + 1
