"""deploy/compose.yaml as Compose reads it: what a service's container is told, given what is in deploy/.env."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

COMPOSE = Path(__file__).resolve().parents[2] / "deploy" / "compose.yaml"

LEAST = {
    "SELFHEAL_GITHUB_APP_ID": "123456",
    "SELFHEAL_GITHUB_WEBHOOK_SECRET": "the-secret-you-chose",
    "POSTGRES_PASSWORD": "letters1",
    "REDIS_PASSWORD": "letters2",
}
"""What deploy/.env must have."""


class Missing(Exception):
    """Compose refuses to start: a variable that must be set is not; the message names it."""


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return read


def environment(service: str, env_file: Mapping[str, str]) -> dict[str, str]:
    """Raises `Missing`."""
    described = compose()["services"][service]
    told = dict(env_file) if ".env" in described.get("env_file", ()) else {}
    return told | {name: filled_in(str(value), env_file) for name, value in described["environment"].items()}


def filled_in(text: str, env_file: Mapping[str, str]) -> str:
    """`text` with each `${NAME:-default}` and `${NAME:?complaint}` replaced, in defaults too. Raises `Missing`."""
    innermost = re.compile(r"(?<!\$)\$\{(\w+):([-?])([^${}]*)\}")
    complaints: dict[str, str] = {}

    def chosen(match: re.Match[str]) -> str:
        name, how, otherwise = match.groups()
        if env_file.get(name) or how == "-":
            return env_file.get(name) or otherwise
        complaints[name] = otherwise
        return ""

    while (replaced := innermost.sub(chosen, text)) != text:
        text = replaced
    if complaints:
        raise Missing(str(complaints))
    assert not re.search(r"(?<!\$)\$\{", text), text
    return text.replace("$$", "$")
