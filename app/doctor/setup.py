"""The settings as they were read, the `.env` they may come from, and the folder where things are kept."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from app.doctor.checks import Check
from app.settings import PREFIX, Settings, unread_names

LEAST_FREE = 2 << 30  # bytes: a few repositories with their dependencies


async def look(settings: Settings, env_file: str | None) -> AsyncIterator[Check]:
    is_there = env_file is not None and await asyncio.to_thread(Path(env_file).is_file)
    where = f"from the environment and {env_file}" if is_there else "from the environment"
    yield Check("settings", "values", "ok", f"every setting is understood, read {where}")
    for name, hint in unread_names(env_file):
        yield Check("settings", ".env", "warning", f"{name} in {env_file} is read by nobody", hint)
    yield _webhook_secret(settings)
    yield await asyncio.to_thread(_folder, settings.data_dir.resolve())


def _webhook_secret(settings: Settings) -> Check:
    secret = settings.github_webhook_secret
    if secret is None or not secret.get_secret_value():
        return Check(
            "settings",
            "webhook secret",
            "failed",
            "there is none: the web process does not start, as it takes no webhook without a signature",
            f"choose one on the App's page (Webhook secret) and set {PREFIX}GITHUB_WEBHOOK_SECRET to the same",
        )
    if len(secret.get_secret_value()) < 16:
        fix = "choose a longer one (openssl rand -hex 32), on the App's page and here"
        return Check("settings", "webhook secret", "warning", "it is so short that it can be guessed", fix)
    return Check("settings", "webhook secret", "ok", "it is set")


def _folder(folder: Path) -> Check:
    """Blocks. Whether the data folder can be written, or made, and has room."""
    there = folder
    while not there.exists():
        there = there.parent
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        fix = f"let the user {os.geteuid()} write it, or set {PREFIX}DATA_DIR to a folder of its own"
        return Check("settings", "data folder", "failed", f"{there} cannot be written", fix)
    free = shutil.disk_usage(there).free
    told = f"{folder} can be {'written' if there == folder else 'made'}, {free / (1 << 30):.1f} GiB are free"
    if free < LEAST_FREE:
        return Check("settings", "data folder", "warning", told, f"make room, or set {PREFIX}DATA_DIR to a larger disk")
    return Check("settings", "data folder", "ok", told)
