"""The models: whether each of them answers a tiny question. None at all is fine: the rungs without a model work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx

from agent.models.provider import Provider, load
from agent.models.values import Misconfigured, ModelError, ModelSettings
from app.assembly import models_of
from app.cli.doctor.checks import Check
from app.settings import PREFIX, Settings

SECONDS = 10.0
OLLAMA = "http://localhost:11434"


async def look(settings: Settings) -> AsyncIterator[Check]:
    models = await models_of(settings)
    if models is None:
        why = "`none` is set" if settings.model == "none" else "none is set, and no Ollama with a coder answers here"
        yield Check("model", "none", "ok", f"{why}: the rungs without a model do what they can")
        return
    await asyncio.to_thread(load)  # seconds, that are not the model's
    asked = [asyncio.create_task(_ask(one)) for one in models.everyone]
    try:
        for task in asked:
            yield await task
    finally:
        for task in asked:
            task.cancel()


async def _ask(one: ModelSettings) -> Check:
    if one.is_local and (missing := await _not_pulled(one)) is not None:
        return missing
    try:
        answer = await Provider(one).complete([{"role": "user", "content": "Answer with the one word: ready"}], seconds=SECONDS)
    except Misconfigured as error:
        fix = f"check the name, and the key: {PREFIX}MODEL_API_KEY or the provider's own variable in the worker's environment"
        return Check("model", one.name, "failed", error.reason[:300], fix)
    except ModelError as error:
        fix = "it is asked again in each attempt, and the rungs without a model go first; see that it runs and can be reached"
        return Check("model", one.name, "warning", f"{type(error).__name__}: {error.reason[:300]}", fix)
    return Check("model", one.name, "ok", f"it answered {answer.text.strip()[:40]!r}")


async def _not_pulled(one: ModelSettings) -> Check | None:
    """What is wrong with an Ollama, or with its model; None when it has it."""
    base, wanted = (one.api_base or OLLAMA).rstrip("/"), one.name.partition("/")[2]
    try:
        async with httpx.AsyncClient(timeout=SECONDS) as client:
            found = (await client.get(f"{base}/api/tags")).raise_for_status().json()
        names = [str(model["name"]) for model in found["models"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        fix = f"start it (ollama serve), or set {PREFIX}MODEL_API_BASE to where it runs"
        return Check("model", one.name, "failed", f"no Ollama answers at {base}: {type(error).__name__}", fix)
    if wanted in names or f"{wanted}:latest" in names:
        return None
    has = f"it has {', '.join(names[:5])}" if names else "it has no model at all"
    return Check("model", one.name, "failed", f"the Ollama at {base} has not pulled it; {has}", f"ollama pull {wanted}")
