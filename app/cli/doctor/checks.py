"""Checks of the settings, the database, Redis, the models and the sandbox; `github` checks the App."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Literal
from urllib.parse import urlsplit

import httpx
from redis.asyncio import Redis
from redis.exceptions import RedisError

from agent.models import local_transformers
from agent.models.provider import Provider, load
from agent.models.router import needs_litellm
from agent.models.values import Misconfigured, ModelError, ModelSettings
from app.assembly import models_of, sandboxes_of
from app.private_files import is_shared, open_to_others, owned_by_others
from app.queue.redis import RedisMissing, embedded, running_redis, server_binary
from app.service.isolation import database_files, grounds_of
from app.settings import PREFIX, Settings, SettingsError, unread_names
from app.store.database.address import StoreError
from app.store.database.condition import condition
from sandbox.base import SandboxUnavailable
from sandbox.folders import leftovers
from sandbox.install.package_index import is_usable_inside
from sandbox.install.python.interpreters import uv_binary
from sandbox.install.python.pip_configuration import configured_settings, indexes_of, public_index
from sandbox.proof.prove import prove

Status = Literal["ok", "warning", "failed", "skipped"]
Area = Literal["settings", "database", "redis", "github", "model", "sandbox"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `seen` says what was found, in one sentence; `fix` says what to do, "" if nothing."""

    area: Area
    name: str
    status: Status
    seen: str
    fix: str = ""


LEAST_FREE = 2 << 30  # bytes: enough for a few repositories with their dependencies
LONGEST_TAKEOVER = 60.0  # seconds, documented for the service
NO_ROOM = 8 << 20  # bytes needed to migrate the database and store a first attempt


async def check_settings(settings: Settings, env_file: str | None) -> AsyncIterator[Check]:
    is_there = env_file is not None and await asyncio.to_thread(Path(env_file).is_file)
    where = f"from the environment and {env_file}" if is_there else "from the environment"
    yield Check("settings", "values", "ok", f"all valid, read {where}")
    for name, hint in unread_names(env_file):
        yield Check("settings", ".env", "warning", f"{name} in {env_file} is not a setting", hint)
    yield _webhook_secret(settings)
    yield _takeover(settings)
    yield await asyncio.to_thread(_folder, settings.data_dir.resolve())
    yield await asyncio.to_thread(_privacy, settings)


def _webhook_secret(settings: Settings) -> Check:
    secret = settings.github_webhook_secret
    if secret is None or not secret.get_secret_value():
        return Check(
            "settings",
            "webhook secret",
            "warning",  # only the web process needs it, and doctor may run on a worker's machine
            "not set; workers do not need it, but the web process does not start without it",
            f"on the machine that runs `serve`, set {PREFIX}GITHUB_WEBHOOK_SECRET to the App's webhook secret",
        )
    if len(secret.get_secret_value()) < 16:
        fix = "set a longer one (openssl rand -hex 32) both on the App's page and here"
        return Check("settings", "webhook secret", "warning", "short enough to guess", fix)
    return Check("settings", "webhook secret", "ok", "set")


def _takeover(settings: Settings) -> Check:
    """Check how soon a dead worker's attempt is taken over: by the first sweep after its lease expires."""
    longest = settings.lease_seconds + settings.sweep_seconds
    seen = f"attempts of a dead worker are taken over within {longest:g} s"
    if longest > LONGEST_TAKEOVER:
        fix = (
            f"lower {PREFIX}LEASE_SECONDS ({settings.lease_seconds:g}) or {PREFIX}SWEEP_SECONDS ({settings.sweep_seconds:g}): "
            f"their sum should be at most {LONGEST_TAKEOVER:g}"
        )
        return Check("settings", "takeover", "warning", seen, fix)
    return Check("settings", "takeover", "ok", seen)


def _folder(folder: Path) -> Check:
    """Check that the data folder is writable or can be created, and has free space. Blocks."""
    there = folder
    while not there.exists():
        there = there.parent
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        fix = f"give user {os.geteuid()} write access, or set {PREFIX}DATA_DIR to another folder"
        return Check("settings", "data folder", "failed", f"{there} is not writable", fix)
    free = shutil.disk_usage(there).free
    if free < NO_ROOM:
        room = f"{free / (1 << 20):.1f} MiB free, {NO_ROOM >> 20} MiB needed to start"
        fix = f"free disk space, or set {PREFIX}DATA_DIR to a larger disk"
        return Check("settings", "data folder", "failed", f"the disk of {there} is full ({room})", fix)
    seen = f"{folder} {'is writable' if there == folder else 'can be created'}, {free / (1 << 30):.1f} GiB free"
    if free < LEAST_FREE:
        fix = f"free disk space, or set {PREFIX}DATA_DIR to a larger disk"
        return Check("settings", "data folder", "warning", seen, fix)
    return Check("settings", "data folder", "ok", seen)


def _privacy(settings: Settings) -> Check:
    """Check that other users can neither read nor open the data folder and the database's files. Blocks."""
    folder, me = settings.data_dir.resolve(), os.geteuid()
    named = shlex.quote(str(folder))
    if is_shared(folder):
        fix = f"set {PREFIX}DATA_DIR to an empty folder, or one below it; or make it private: chmod go= {named}"
        return Check("settings", "private files", "failed", f"others use {folder} too, so the service does not start", fix)
    if foreign := owned_by_others(folder):
        fix = f"run this as the user who runs the service; if you did, as root: chown -R {me} {named}"
        return Check("settings", "private files", "failed", f"another user than {me} owns {_first(foreign)}", fix)
    if exposed := open_to_others(folder, database_files(settings)):
        paths = " ".join(shlex.quote(str(each)) for each in exposed)
        fix = f"start the service, which closes what it owns, or: chmod go= {paths}"
        return Check("settings", "private files", "failed", f"other users may read or write {_first(exposed)}", fix)
    seen = f"only user {me} can read {folder}" if folder.exists() else "the data folder will be private"
    return Check("settings", "private files", "ok", seen)


def _first(paths: Sequence[Path]) -> str:
    return ", ".join(str(path) for path in paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


_DATABASE_SECONDS = 8.0


async def check_database(settings: Settings) -> AsyncIterator[Check]:
    source = "in the data folder" if settings.database_url is None else f"from {PREFIX}DATABASE_URL"
    try:
        async with asyncio.timeout(_DATABASE_SECONDS):
            found = await condition(settings.database)
    except StoreError as error:
        fix = f"check that the database runs, that its user has write access, and that {PREFIX}DATABASE_URL is correct"
        yield Check("database", "opens", "failed", str(error), fix)
        return
    except TimeoutError:
        fix = f"check that the database runs and is reachable from here, and that {PREFIX}DATABASE_URL is correct"
        yield Check("database", "opens", "failed", f"no response within {_DATABASE_SECONDS:.0f} s", fix)
        return
    if found is None:
        yield Check("database", "opens", "ok", "SQLite in the data folder; created when the service starts")
        return
    if found.free is not None and found.free < NO_ROOM:
        room = f"{found.free / (1 << 20):.1f} MiB free, {NO_ROOM >> 20} MiB needed to start"
        seen = f"{found.name}: the disk is full ({room})"
        yield Check("database", "opens", "failed", seen, f"free disk space, or set {PREFIX}DATABASE_URL to another database")
        return
    yield Check("database", "opens", "ok", f"{found.name} {found.version} {source}, writable")
    if not found.known:
        fix = f"run the version of Selfheal that migrated it, or set {PREFIX}DATABASE_URL to another database"
        yield Check("database", "migration", "failed", f"at {found.revision}, which this version does not know", fix)
    elif found.revision == found.newest:
        yield Check("database", "migration", "ok", f"at {found.newest} (latest)")
    else:
        seen = f"at {found.revision or 'none'}; the service migrates to {found.newest} when it starts"
        yield Check("database", "migration", "ok", seen)


_REDIS_SECONDS = 5.0


async def check_redis(settings: Settings) -> AsyncIterator[Check]:
    if settings.redis_url is not None:
        async for check in _check_server(settings.redis_url.get_secret_value(), f"from {PREFIX}REDIS_URL"):
            yield check
        return
    try:
        url = running_redis(settings) if settings.data_dir.is_dir() else None
        if url is not None:
            async for check in _check_server(url, "embedded, running"):
                yield check
            return
        with tempfile.TemporaryDirectory(prefix="selfheal-") as folder:
            async with embedded(Path(folder)) as url:
                async for check in _check_server(url, f"embedded, can be started ({server_binary()})"):
                    yield check
    except RedisMissing as missing:
        yield Check("redis", "answers", "failed", "no Redis found", str(missing))


async def _check_server(url: str, source: str) -> AsyncIterator[Check]:
    client: Redis = Redis.from_url(url, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS)
    key = f"selfheal:doctor:{token_hex(8)}"
    try:
        await client.set(key, b"1", ex=60)
        await client.delete(key)
        about = await client.info()
    except (RedisError, OSError) as error:
        fix = f"check that Redis runs, that the password is correct, and that {PREFIX}REDIS_URL points to it"
        yield Check("redis", "answers", "failed", f"{source}: {type(error).__name__}: {str(error)[:200]}", fix)
        return
    finally:
        await client.aclose()
    yield Check("redis", "answers", "ok", f"version {about.get('redis_version', 'unknown')} ({source}), writable")
    policy = str(about.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction" and about.get("maxmemory"):
        seen = f"drops queued ids when memory is full (maxmemory-policy {policy}); the next sweep enqueues them again"
        yield Check("redis", "eviction", "warning", seen, "set maxmemory-policy to noeviction in the configuration of Redis")


_MODEL_SECONDS = 10.0


async def check_model(settings: Settings) -> AsyncIterator[Check]:
    try:
        models = await models_of(settings)
    except SettingsError as error:
        yield Check("model", "server", "failed", str(error), "serve it over https, or unset the key if the server needs none")
        return
    if models is None:
        why = "set to `none`" if settings.model == "none" else "not set, and no local Ollama with a coding model"
        yield Check("model", "none", "ok", f"{why}; Selfheal repairs without a model")
        return
    await asyncio.to_thread(load)  # takes seconds, which must not count towards the model's time limit
    asked = [asyncio.create_task(_ask(one)) for one in models.all_settings]
    try:
        for task in asked:
            yield await task
    finally:
        for task in asked:
            task.cancel()


async def _ask(one: ModelSettings) -> Check:
    if one.is_scripted:
        return Check("model", one.name, "ok", "answers from a script, for trying and teaching")
    if not needs_litellm(one):
        why = await asyncio.to_thread(local_transformers.missing, one.name) if one.is_snapshot else ""
        fix = f"selfheal models check {one.name.partition(':')[2]}" if why else ""
        return Check("model", one.name, "failed" if why else "ok", why or "answers in this process", fix)
    if one.is_local and (missing := await _not_pulled(one)) is not None:
        return missing
    try:
        answer = await Provider(one).complete(
            [{"role": "user", "content": "Answer with the one word: ready"}], seconds=_MODEL_SECONDS
        )
    except Misconfigured as error:
        fix = f"check the name and the key ({PREFIX}MODEL_API_KEY, or the provider's variable in the worker's environment)"
        return Check("model", one.name, "failed", error.reason[:300], fix)
    except ModelError as error:
        fix = "check that the model's server runs and is reachable; attempts still try it, after the steps that need no model"
        return Check("model", one.name, "warning", f"{type(error).__name__}: {error.reason[:300]}", fix)
    return Check("model", one.name, "ok", f"answered {answer.text.strip()[:40]!r}")


async def _not_pulled(one: ModelSettings) -> Check | None:
    """A failed check if Ollama does not answer or does not have the model, else None."""
    base, wanted = (one.server or "").rstrip("/"), one.name.partition("/")[2]
    try:
        async with httpx.AsyncClient(timeout=_MODEL_SECONDS) as client:
            found = (await client.get(f"{base}/api/tags")).raise_for_status().json()
        names = [str(model["name"]) for model in found["models"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        fix = f"start Ollama (ollama serve), or set {PREFIX}MODEL_API_BASE (or OLLAMA_HOST) to its address"
        return Check("model", one.name, "failed", f"no Ollama answers at {base}: {type(error).__name__}", fix)
    if wanted in names or f"{wanted}:latest" in names:
        return None
    has = f"it has {', '.join(names[:5])}" if names else "it has no models"
    return Check("model", one.name, "failed", f"the Ollama at {base} does not have this model; {has}", f"ollama pull {wanted}")


async def _package_indexes(settings: Settings) -> Check:
    """Check whether one of several package indexes could replace the projects of another one."""
    indexes = indexes_of(await configured_settings())
    names = [_without_password(url) for url in indexes]
    status: Status = "warning"
    fix = ""
    if len(indexes) < 2:
        status, seen = "ok", f"packages come from {names[0]}" if names else "pip is configured to use none"
    elif settings.package_index_strategy == "best":
        seen = f"a project comes from whichever has its highest version: {', '.join(names)}"
        fix = f"unset {PREFIX}PACKAGE_INDEX_STRATEGY, unless nobody else can publish on any of them"
    elif uv_binary() is None:
        seen = f"only {names[0]} is used, since pip cannot keep their order and uv is missing"
        fix = "install uv in Selfheal's environment"
    elif indexes[0].rstrip("/") == public_index():
        seen = f"anyone can publish on {names[0]}, and what is there comes from there, not from {', '.join(names[1:])}"
        fix = "make your own index pip's index-url, and the public one its extra-index-url"
    elif (unusable := next((url for url in indexes if not is_usable_inside(url)), indexes[-1])) != indexes[-1]:
        name = _without_password(unusable)
        seen = f"builds in the sandbox use neither {name}, which needs a password or is a folder, nor the indexes after it"
        fix = "make one index of them that needs no password, such as a mirror of both"
    else:
        status, seen = "ok", f"a project comes from the first that has it: {', '.join(names)}"
    return Check("sandbox", "package indexes", status, seen, fix)


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


async def check_sandbox(settings: Settings) -> AsyncIterator[Check]:
    yield await _package_indexes(settings)
    try:
        sandboxes = await sandboxes_of(settings)
    except (SettingsError, SandboxUnavailable) as error:
        yield Check(
            "sandbox", "opens", "failed", str(error), f"choose a sandbox that works here: {PREFIX}SANDBOX=local, docker or e2b"
        )
        return
    isolation = sandboxes.isolation
    is_open = False
    try:
        async for finding in prove(sandboxes, grounds_of(settings)):
            if not is_open:
                yield Check("sandbox", "opens", "ok", "; ".join((f"`{isolation.name}`", *isolation.shortcomings)))
                is_open = True
            check = Check("sandbox", f"{finding.part}: {finding.name}", finding.status, finding.seen, finding.fix)
            if settings.trust_code and check.status == "failed":
                check = replace(check, status="warning", seen=f"{check.seen} (allowed, as {PREFIX}TRUST_CODE trusts all code)")
            yield check
        yield await asyncio.to_thread(_leftovers, settings)
    except SandboxUnavailable as error:
        fix = f"see deploy/README.md for what {isolation.name} requires, or set {PREFIX}SANDBOX=e2b"
        yield Check("sandbox", "opens", "failed", str(error), fix)


def _leftovers(settings: Settings) -> Check:
    """What no sweep could remove. The sandbox that was just opened has tried it once more."""
    found = leftovers(settings.sandboxes)
    if not found:
        return Check("sandbox", "leftovers", "ok", "nothing is left of ended sandboxes")
    names = ", ".join(str(path) for path in found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    fix = f"as root: rm -rf {' '.join(shlex.quote(str(path)) for path in found[:3])}"
    return Check("sandbox", "leftovers", "warning", f"{len(found)} folders of ended sandboxes cannot be removed: {names}", fix)
