"""Prompts: one versioned YAML file of Jinja templates per role. `render` and `digest` are public.

Foreign text (code, tracebacks, a job's log) passes the filter `quote`, which fences it so that it cannot leave its block. Files
are read again when they change, so an edit takes effect in a running `selfheal dev`.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined, Template, TemplateSyntaxError

from agent.models.values import Message, Prompt, Role
from agent.report.reflection import fenced


class BrokenPrompt(Exception):
    """A prompt's file is unusable; the message names it."""


@dataclass(frozen=True, slots=True)
class _Templates:
    version: int
    system: Template
    shots: tuple[Message, ...]  # example exchanges that show the answer's format
    user: Template


def digest() -> str:
    """Names the state of all prompts: equal digests, equal prompts."""
    sources = sorted(
        (source for source in files(__package__).iterdir() if source.name.endswith(".yaml")), key=lambda each: each.name
    )
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def render(role: Role, **values: object) -> Prompt:
    """The prompt of a role. A missing value raises `jinja2.UndefinedError`.

    Raises `BrokenPrompt` if its file is unusable.
    """
    source = files(__package__).joinpath(f"{role}.yaml")
    changed = source.stat().st_mtime_ns if isinstance(source, Path) else 0
    prompt = _load(role, changed)
    system: Message = {"role": "system", "content": prompt.system.render(values).strip()}
    user: Message = {"role": "user", "content": prompt.user.render(values).strip()}
    return Prompt(role, prompt.version, (system, *prompt.shots, user))


@functools.lru_cache(maxsize=8)
def _load(role: Role, changed: int) -> _Templates:
    """`changed`, the file's modification time, is part of the cache key."""
    jinja = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701 - no HTML
    jinja.filters["quote"] = fenced
    try:
        data: dict[str, Any] = yaml.safe_load(files(__package__).joinpath(f"{role}.yaml").read_text("utf-8"))
        shots: list[Message] = []
        for shot in data.get("shots", ()):
            shots += [
                {"role": "user", "content": shot["user"].strip()},
                {"role": "assistant", "content": shot["answer"].strip()},
            ]
        return _Templates(
            int(data["version"]), jinja.from_string(data["system"]), tuple(shots), jinja.from_string(data["user"])
        )
    except (yaml.YAMLError, TemplateSyntaxError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenPrompt(f"agent/prompts/{role}.yaml cannot be used: {type(error).__name__}: {error}") from error
