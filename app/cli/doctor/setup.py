"""Checks the settings, the `.env` file and the data folder."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from app.cli.doctor.checks import Check
from app.settings import PREFIX, Settings, unread_names

LEAST_FREE = 2 << 30  # bytes: a few repositories with their dependencies
LONGEST_TAKEOVER = 60.0  # seconds, documented for the service
NO_ROOM = 8 << 20  # bytes needed to migrate the database and store a first attempt


async def run_checks(settings: Settings, env_file: str | None) -> AsyncIterator[Check]:
    is_there = env_file is not None and await asyncio.to_thread(Path(env_file).is_file)
    where = f"from the environment and {env_file}" if is_there else "from the environment"
    yield Check("settings", "values", "ok", f"all valid, read {where}")
    for name, hint in unread_names(env_file):
        yield Check("settings", ".env", "warning", f"{name} in {env_file} is not a setting", hint)
    yield _webhook_secret(settings)
    yield _takeover(settings)
    yield await asyncio.to_thread(_folder, settings.data_dir.resolve())


def _webhook_secret(settings: Settings) -> Check:
    secret = settings.github_webhook_secret
    if secret is None or not secret.get_secret_value():
        return Check(
            "settings",
            "webhook secret",
            "warning",  # only the web process needs it, and doctor may run on a worker's machine
            "not set; workers do not need it, but the web process does not start without it",
            f"where `serve` runs, set {PREFIX}GITHUB_WEBHOOK_SECRET to the Webhook secret on the App's page",
        )
    if len(secret.get_secret_value()) < 16:
        fix = "set a longer one (openssl rand -hex 32), on the App's page and here"
        return Check("settings", "webhook secret", "warning", "short enough to be guessed", fix)
    return Check("settings", "webhook secret", "ok", "set")


def _takeover(settings: Settings) -> Check:
    """A dead worker's attempt is taken over by the first sweep after its lease expires."""
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
