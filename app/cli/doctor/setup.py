"""The settings as they were read, the `.env` they may come from, and the folder where things are kept."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from app.cli.doctor.checks import Check
from app.settings import PREFIX, Settings, unread_names

LEAST_FREE = 2 << 30  # bytes: a few repositories with their dependencies
LONGEST_TAKEOVER = 60.0  # seconds: what the service promises
NO_ROOM = 8 << 20  # bytes: with less the database cannot be migrated, or is full with the first attempt


async def look(settings: Settings, env_file: str | None) -> AsyncIterator[Check]:
    is_there = env_file is not None and await asyncio.to_thread(Path(env_file).is_file)
    where = f"from the environment and {env_file}" if is_there else "from the environment"
    yield Check("settings", "values", "ok", f"every setting is understood, read {where}")
    for name, hint in unread_names(env_file):
        yield Check("settings", ".env", "warning", f"{name} in {env_file} is read by nobody", hint)
    yield _webhook_secret(settings)
    yield _takeover(settings)
    yield await asyncio.to_thread(_folder, settings.data_dir.resolve())


def _webhook_secret(settings: Settings) -> Check:
    secret = settings.github_webhook_secret
    if secret is None or not secret.get_secret_value():
        return Check(
            "settings",
            "webhook secret",
            "warning",  # workers are not told it, and a worker's machine is where the rest of this is looked at
            "not set here: a worker needs none, but the web process does not start without it",
            f"where `serve` runs, set {PREFIX}GITHUB_WEBHOOK_SECRET to the one on the App's page (Webhook secret)",
        )
    if len(secret.get_secret_value()) < 16:
        fix = "choose a longer one (openssl rand -hex 32), on the App's page and here"
        return Check("settings", "webhook secret", "warning", "it is so short that it can be guessed", fix)
    return Check("settings", "webhook secret", "ok", "it is set")


def _takeover(settings: Settings) -> Check:
    """A dead worker is noticed when its lease has run out, by the next sweep after that."""
    longest = settings.lease_seconds + settings.sweep_seconds
    seen = f"what a dead worker did is taken over after {longest:g} s at the latest"
    if longest > LONGEST_TAKEOVER:
        fix = (
            f"lower {PREFIX}LEASE_SECONDS ({settings.lease_seconds:g}) or {PREFIX}SWEEP_SECONDS ({settings.sweep_seconds:g}): "
            f"together at most {LONGEST_TAKEOVER:g}"
        )
        return Check("settings", "takeover", "warning", seen, fix)
    return Check("settings", "takeover", "ok", seen)


def _folder(folder: Path) -> Check:
    """Blocks. Whether the data folder can be written, or made, and has room."""
    there = folder
    while not there.exists():
        there = there.parent
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        fix = f"let the user {os.geteuid()} write it, or set {PREFIX}DATA_DIR to a folder of its own"
        return Check("settings", "data folder", "failed", f"{there} cannot be written", fix)
    free = shutil.disk_usage(there).free
    if free < NO_ROOM:
        seen = (
            f"the disk of {there} is full: {free / (1 << 20):.1f} MiB are free, and the service takes {NO_ROOM >> 20} to start"
        )
        return Check("settings", "data folder", "failed", seen, f"make room, or set {PREFIX}DATA_DIR to a larger disk")
    told = f"{folder} can be {'written' if there == folder else 'made'}, {free / (1 << 30):.1f} GiB are free"
    if free < LEAST_FREE:
        return Check("settings", "data folder", "warning", told, f"make room, or set {PREFIX}DATA_DIR to a larger disk")
    return Check("settings", "data folder", "ok", told)
