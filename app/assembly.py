"""Builds the parts of a process from the settings: sandboxes, models, budget, policy, GitHub client."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.contract.budget import Budget
from agent.contract.task import Policy
from app.redaction import hide_exact, no_plain_words
from app.settings import PREFIX, Settings, SettingsError, safe_url
from sandbox.base import MIB, Limits, Sandboxes
from sandbox.e2b.plan import Account

if TYPE_CHECKING:
    from agent.extensions import Extensions
    from agent.models.router import Models
    from agent.models.values import ModelSettings, Role
    from app.github.client import GitHub
    from app.github.retries import RetryPolicy, SharedBudget
    from app.store.memories import Embedder

CLOSING_SECONDS = 600.0  # by which an attempt may exceed its time budget until its running command ends


def budget_of(settings: Settings) -> Budget:
    return Budget(
        iterations=settings.max_iterations,
        tokens=settings.max_tokens,
        cost=settings.max_cost,
        seconds=settings.max_seconds,
    )


def policy_of(settings: Settings) -> Policy:
    return Policy(autonomy=settings.autonomy, min_confidence=settings.min_confidence, head_start=settings.search_head_start)


def limits_of(settings: Settings) -> Limits:
    return replace(Limits(), memory=settings.sandbox_memory_mb * MIB)


async def models_of(settings: Settings) -> Models | None:
    """The configured models, or a coding model found in a local Ollama; None if there is neither or `none` is set."""
    from agent.models.router import Models, find_local_model

    if settings.model == "none":
        return None
    name = settings.model or await find_local_model(settings.model_api_base)
    if name is None:
        return None
    first = _model(name, settings, name)
    by_role: dict[Role, str | None] = {
        "diagnose": settings.model_diagnose,
        "repair": settings.model_repair,
        "write": settings.model_write,
        "review": settings.model_review,
        "challenge": settings.model_challenge,
    }
    return Models(
        first,
        strong=_model(settings.model_strong, settings, name) if settings.model_strong else None,
        fallbacks=[_model(fallback, settings, name) for fallback in settings.model_fallbacks],
        roles={role: _model(chosen, settings, name) for role, chosen in by_role.items() if chosen},
        embedding=_model(settings.embedding_model, settings, name) if settings.embedding_model else None,
        hide=_hide(settings),
        temperatures=settings.model_role_temperatures,
        answer_tokens=settings.model_role_tokens,
    )


async def check_models(settings: Settings) -> None:
    """Raises `SettingsError` if a configured model can never answer, which would otherwise show only after the search."""
    from agent.models import local_transformers
    from agent.models.provider import missing_key, unknown_provider
    from agent.models.router import needs_litellm
    from agent.models.scripted import BadScript, read_script

    for model in (settings.model, settings.model_strong, *settings.model_fallbacks):
        if model in (None, "none"):
            continue
        known = _model(model, settings, settings.model or model)
        if known.is_scripted:
            try:
                await asyncio.to_thread(read_script, known.name.partition(":")[2])
            except BadScript as error:
                raise SettingsError(str(error)) from error
            continue
        if known.is_snapshot:
            if why := await asyncio.to_thread(local_transformers.missing, known.name):
                raise SettingsError(why)
            continue
        if not needs_litellm(known):
            continue
        if why := await asyncio.to_thread(unknown_provider, known.name):
            raise SettingsError(f"the model {why}")
        if not (known.api_key or known.api_base) and (variable := await asyncio.to_thread(missing_key, known.name)):
            raise SettingsError(f"the model {model!r} needs a key of its provider: set {variable} in the environment")


def models_named(settings: Settings, name: str) -> Models:
    """The named model for every role, with its key and server from the settings."""
    from agent.models.router import Models

    known = settings.model if settings.model not in (None, "none") else name
    return Models(
        _model(name, settings, known),
        hide=_hide(settings),
        temperatures=settings.model_role_temperatures,
        answer_tokens=settings.model_role_tokens,
    )


def _hide(settings: Settings) -> Callable[[str], str]:
    """Removes the installation's secrets from prompts, such as those in a model's earlier answers. Code keeps plain words."""
    return partial(hide_exact, secrets=no_plain_words(settings.secrets))


def embedder_of(settings: Settings, models: Models | None) -> Embedder | None:
    """Finds memories by meaning. None if there is no model or no embedding model."""
    from app.store.memories import Embedder

    if models is None or settings.embedding_model is None:
        return None
    return Embedder(settings.embedding_model, models.embed)


def _model(named: str, settings: Settings, first: str) -> ModelSettings:
    """The model of that name; a URL after an `@` is the model's own server. Raises `SettingsError` for a server to which a key
    would be sent without encryption.

    The key and the server of `MODEL` are used only for models of the same provider: a key must not reach another provider.
    """
    from agent.models.values import ModelSettings

    name, _, base = named.partition("@http")
    provider, kin = (each.partition("/")[0].removesuffix("_chat") for each in (name, first))  # `ollama/` is `ollama_chat/`
    is_same = provider == kin
    key = settings.model_api_key.get_secret_value() if settings.model_api_key and is_same else None
    server = f"http{base}".rstrip("/") if base else settings.model_api_base if is_same else None
    # LiteLLM reads the keys of other providers; without a key, "openai" sends none.
    ambient = None if provider == "openai" else os.environ.get(f"{provider.upper()}_API_KEY")
    if server and (key or ambient or "@" in server.partition("://")[2].partition("/")[0]):
        _check_address(server, _setting_with(named, settings) if base else f"{PREFIX}MODEL_API_BASE")
    return ModelSettings(
        name=name,
        api_base=server,
        api_key=key,
        timeout=settings.model_timeout,
        context=settings.model_context,
        answer_tokens=settings.model_answer_tokens,
    )


def _setting_with(model: str, settings: Settings) -> str:
    """The name of the setting with this model, or `--model`."""
    named = {f"{PREFIX}{field.upper()}": getattr(settings, field) for field in Settings.model_fields if "model" in field}
    return next(
        (name for name, value in named.items() if model == value or (isinstance(value, tuple) and model in value)), "--model"
    )


def _check_address(url: str | None, name: str) -> None:
    """Raises `SettingsError` for a URL to which credentials must not be sent. `name`: of the setting or variable."""
    try:
        safe_url(url or "https://none")
    except ValueError as error:
        raise SettingsError(f"{name} {error}") from error


async def extensions_of() -> Extensions:
    """Extensions from other packages. Raises `SettingsError` if one is broken: the operator has to fix it."""
    from agent import extensions
    from agent.contract.extension import BrokenExtension

    try:
        return await asyncio.to_thread(extensions.load)
    except BrokenExtension as error:
        raise SettingsError(str(error)) from error


def e2b_of(settings: Settings) -> Account | None:
    """The E2B account; None without a key. Raises `SettingsError` if a required key is missing or attempts may run too long."""
    if settings.e2b_api_key is None:
        if settings.sandbox == "e2b":
            raise SettingsError(f"{PREFIX}E2B_API_KEY must be set for {PREFIX}SANDBOX=e2b; get it from E2B's dashboard")
        return None
    check_e2b_addresses()
    if settings.sandbox in ("auto", "e2b") and settings.max_seconds + CLOSING_SECONDS > settings.e2b_lifetime_seconds:
        raise SettingsError(
            f"{PREFIX}MAX_SECONDS: an attempt of {settings.max_seconds:.0f} s exceeds the lifetime of an E2B machine, "
            f"{settings.e2b_lifetime_seconds:.0f} s ({PREFIX}E2B_LIFETIME_SECONDS: 3600 or 86400, by plan); "
            f"set at most {max(settings.e2b_lifetime_seconds - CLOSING_SECONDS, 0):.0f}"
        )
    return Account(
        settings.e2b_api_key.get_secret_value(),
        settings.e2b_template,
        at_once=settings.e2b_sandboxes,
        per_second=settings.e2b_creations_per_second,
        lifetime=settings.e2b_lifetime_seconds,
    )


def check_e2b_addresses() -> None:
    """Raises `SettingsError` if a variable of E2B's SDK would send the key without encryption."""
    for name in ("E2B_API_URL", "E2B_SANDBOX_URL"):
        _check_address(os.environ.get(name), name)
    if not re.fullmatch(r"[\w.-]*(?::\d+)?", os.environ.get("E2B_DOMAIN", ""), re.ASCII):
        raise SettingsError("E2B_DOMAIN must be a host name, such as e2b.app")


def check_trust(settings: Settings) -> None:
    """Raises `SettingsError` for a sandbox without isolation, unless `TRUST_CODE` is set."""
    if settings.sandbox == "process" and not settings.trust_code:
        raise SettingsError(
            f"{PREFIX}SANDBOX: `process` isolates nothing; use `local`, "
            f"or set {PREFIX}TRUST_CODE=true if you trust the code of every repository"
        )


async def sandboxes_of(settings: Settings) -> Sandboxes:
    """The service's sandboxes. Raises `SettingsError` (see `check_trust`, or for the data folder), and `SandboxUnavailable`."""
    check_trust(settings)
    try:
        for folder in (settings.data_dir.resolve(), settings.sandboxes):
            await asyncio.to_thread(folder.mkdir, 0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"{PREFIX}DATA_DIR: the folder cannot be used: {error}") from error
    return await sandboxes_in(settings.sandboxes, settings, trusted=settings.trust_code)


async def sandboxes_in(folder: Path, settings: Settings, *, trusted: bool) -> Sandboxes:
    """The configured sandboxes, with their files in `folder`. Raises `SettingsError` (see `e2b_of`), `SandboxUnavailable`."""
    from sandbox.backends import ContainerOptions, open_sandboxes
    from sandbox.install.download import DownloadPolicy
    from sandbox.install.sources.upstreams import configured as configured_upstreams

    return await open_sandboxes(
        settings.sandbox,
        folder,
        trusted=trusted,
        index_hosts=settings.package_index_hosts,
        containers=ContainerOptions(settings.sandbox_image, settings.docker_host, settings.sandbox_images),
        e2b=e2b_of(settings),
        python_downloads=settings.python_downloads,
        upstreams=await configured_upstreams(settings.crates_index, settings.go_proxy),
        downloads=DownloadPolicy(
            settings.download_mb * MIB,
            settings.download_seconds,
            settings.cache_mb * MIB,
            settings.package_index_strategy,
        ),
    )


def github_of(settings: Settings, retry_policy: RetryPolicy | None = None, *, budget: SharedBudget | None = None) -> GitHub:
    """The GitHub client. Raises `SettingsError` if the App's credentials are missing or malformed."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from app.github.client import GitHub
    from app.github.retries import RetryPolicy

    if settings.github_app_id is None:
        raise SettingsError(f"{PREFIX}GITHUB_APP_ID: must be set; see the App's settings page")
    key = settings.private_key
    if key is None:
        raise SettingsError(f"{PREFIX}GITHUB_PRIVATE_KEY_FILE: must be set to the file with the App's private key")
    try:
        load_pem_private_key(key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SettingsError(
            f"{PREFIX}GITHUB_PRIVATE_KEY: not a private key in PEM format; generate one on the App's settings page"
        ) from error
    return GitHub(
        settings.github_app_id,
        key,
        api_url=settings.github_api_url,
        retry_policy=retry_policy or RetryPolicy(write_interval=settings.github_write_seconds),
        download_hosts=settings.github_download_hosts,
        budget=budget,
    )
