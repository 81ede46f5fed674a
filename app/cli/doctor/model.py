"""Checks that each model answers a short question. No model is fine too: the rungs without a model still work."""

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


async def run_checks(settings: Settings) -> AsyncIterator[Check]:
    models = await models_of(settings)
    if models is None:
        why = "set to `none`" if settings.model == "none" else "not set, and no local Ollama with a coding model"
        yield Check("model", "none", "ok", f"{why}; repairs use only the rungs without a model")
        return
    await asyncio.to_thread(load)  # takes seconds, which must not count as the model's
    asked = [asyncio.create_task(_ask(one)) for one in models.all_settings]
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
        fix = f"check the name and the key ({PREFIX}MODEL_API_KEY, or the provider's variable in the worker's environment)"
        return Check("model", one.name, "failed", error.reason[:300], fix)
    except ModelError as error:
        fix = "check that it runs and is reachable; attempts keep trying it, after the rungs without a model"
        return Check("model", one.name, "warning", f"{type(error).__name__}: {error.reason[:300]}", fix)
    return Check("model", one.name, "ok", f"answered {answer.text.strip()[:40]!r}")


async def _not_pulled(one: ModelSettings) -> Check | None:
    """A failed check if Ollama does not answer or does not have the model, else None."""
    base, wanted = (one.api_base or OLLAMA).rstrip("/"), one.name.partition("/")[2]
    try:
        async with httpx.AsyncClient(timeout=SECONDS) as client:
            found = (await client.get(f"{base}/api/tags")).raise_for_status().json()
        names = [str(model["name"]) for model in found["models"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        fix = f"start it (ollama serve), or set {PREFIX}MODEL_API_BASE to its address"
        return Check("model", one.name, "failed", f"no Ollama answers at {base}: {type(error).__name__}", fix)
    if wanted in names or f"{wanted}:latest" in names:
        return None
    has = f"it has {', '.join(names[:5])}" if names else "it has no model at all"
    return Check("model", one.name, "failed", f"the Ollama at {base} has not pulled it; {has}", f"ollama pull {wanted}")
