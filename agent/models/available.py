"""Finds the models that can be used here and now, and pulls one into Ollama.

Ollama's API: https://github.com/ollama/ollama/blob/main/docs/api.md. OpenAI-compatible servers list theirs at `/models`.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import httpx

SECONDS = 3.0  # for a list
# Hosted providers: LiteLLM's prefix, the variable with the key, and an example of a name.
HOSTED = (
    ("anthropic", "ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"),
    ("openai", "OPENAI_API_KEY", "openai/gpt-5"),
    ("gemini", "GEMINI_API_KEY", "gemini/gemini-2.5-pro"),
    ("dashscope", "DASHSCOPE_API_KEY", "dashscope/qwen3-coder-plus"),
    ("deepseek", "DEEPSEEK_API_KEY", "deepseek/deepseek-chat"),
    ("mistral", "MISTRAL_API_KEY", "mistral/codestral-latest"),
    ("groq", "GROQ_API_KEY", "groq/llama-3.3-70b-versatile"),
    ("openrouter", "OPENROUTER_API_KEY", "openrouter/qwen/qwen3-coder"),
)


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A place with models. `problem` is a clause if it cannot be used."""

    kind: str  # "ollama", "server", "hosted", "snapshot", "extension", "scripted"
    where: str  # an address, a folder, or the variable with the key
    names: tuple[str, ...] = ()  # as `--model` takes them
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Pulling:
    """Progress of a pull. Sizes are bytes of one layer; 0 if unknown."""

    status: str
    completed: int = 0
    total: int = 0


class PullFailed(Exception):
    """The model cannot be pulled; the message says why and what to do."""


async def ollama(base: str, suffix: str = "") -> ModelSource:
    """`suffix` follows each name, such as "@http://gpu:11434" for a server that must be named."""
    try:
        async with httpx.AsyncClient(timeout=SECONDS) as client:
            found = (await client.get(f"{base.rstrip('/')}/api/tags")).raise_for_status().json()
        names = tuple(f"ollama_chat/{model['name']}{suffix}" for model in found["models"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        return ModelSource("ollama", base, problem=f"no Ollama answers ({type(error).__name__}); start it with `ollama serve`")
    return ModelSource("ollama", base, names, "" if names else "no model is installed; `selfheal models pull qwen2.5-coder:7b`")


async def server(base: str, key: str | None, provider: str = "openai", suffix: str = "") -> ModelSource:
    """An OpenAI-compatible server. `suffix` as for `ollama`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx.AsyncClient(timeout=SECONDS, headers=headers) as client:
            found = (await client.get(f"{base.rstrip('/')}/models")).raise_for_status().json()
        names = tuple(f"{provider}/{model['id']}{suffix}" for model in found["data"])
    except httpx.HTTPStatusError as error:
        return ModelSource("server", base, problem=f"it answers {error.response.status_code}; check the address and the key")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        return ModelSource("server", base, problem=f"no server with a list of models answers ({type(error).__name__})")
    return ModelSource("server", base, names)


def hosted(environment: Mapping[str, str] = os.environ) -> tuple[ModelSource, ...]:
    """The providers whose key is set. That the key works is not tried here: it would cost money (`selfheal doctor` does)."""
    return tuple(ModelSource("hosted", variable, (example,)) for _, variable, example in HOSTED if environment.get(variable))


async def pull(name: str, base: str) -> AsyncIterator[Pulling]:
    """Pull a model into Ollama. Raises `PullFailed`."""
    body = {"model": name, "stream": True}
    try:
        async with (
            httpx.AsyncClient(timeout=httpx.Timeout(30.0, read=None)) as client,
            client.stream("POST", f"{base.rstrip('/')}/api/pull", json=body) as response,
        ):
            ended = ""
            async for line in response.aiter_lines():
                told = json.loads(line) if line.strip() else {}
                if "error" in told:
                    raise PullFailed(f"{name} cannot be pulled: {str(told['error'])[:300]}; look for its name on ollama.com")
                ended = str(told.get("status", ended))
                yield Pulling(ended, int(told.get("completed", 0)), int(told.get("total", 0)))
            if response.status_code != 200 or ended != "success":
                raise PullFailed(f"the pull of {name} broke off after {ended!r}; run the command again, it resumes")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError) as error:
        why = f"no Ollama answers at {base}" if isinstance(error, httpx.ConnectError) else f"the pull of {name} broke off"
        raise PullFailed(f"{why} ({type(error).__name__}); start it with `ollama serve`, then run the command again") from error
