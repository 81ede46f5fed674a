"""What models are told: one YAML file a role, with a version, as Jinja templates. Only `render` is for others.

Text from outside (code, tracebacks, a job's log) goes in through the filter `quote`: fenced so that it cannot leave its block,
and announced as data. A file is read again when it has changed, so that an edit shows in a running `selfheal dev`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined, Template, TemplateSyntaxError

from agent.models.values import Message, Prompt, Role
from agent.report.reflection import fenced


class BrokenPrompt(Exception):
    """A prompt's file cannot be used; the message names it."""


@dataclass(frozen=True, slots=True)
class _Templates:
    version: int
    system: Template
    shots: tuple[Message, ...]  # exchanges that show the form of an answer
    user: Template


def render(role: Role, **values: object) -> Prompt:
    """The prompt of a role; a value that its template wants and does not get raises `jinja2.UndefinedError`.

    Raises `BrokenPrompt` when its file was edited into something that cannot be read.
    """
    source = files(__package__).joinpath(f"{role}.yaml")
    changed = source.stat().st_mtime_ns if isinstance(source, Path) else 0
    prompt = _load(role, changed)
    system: Message = {"role": "system", "content": prompt.system.render(values).strip()}
    user: Message = {"role": "user", "content": prompt.user.render(values).strip()}
    return Prompt(role, prompt.version, (system, *prompt.shots, user))


@functools.lru_cache(maxsize=8)
def _load(role: Role, changed: int) -> _Templates:
    """`changed` is when its file was: another time is another entry of the cache."""
    jinja = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701 - no HTML
    jinja.filters["quote"] = fenced
    try:
        told: dict[str, Any] = yaml.safe_load(files(__package__).joinpath(f"{role}.yaml").read_text("utf-8"))
        shots: list[Message] = []
        for shot in told.get("shots", ()):
            shots += [
                {"role": "user", "content": shot["user"].strip()},
                {"role": "assistant", "content": shot["answer"].strip()},
            ]
        return _Templates(
            int(told["version"]), jinja.from_string(told["system"]), tuple(shots), jinja.from_string(told["user"])
        )
    except (yaml.YAMLError, TemplateSyntaxError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenPrompt(f"agent/prompts/{role}.yaml cannot be used: {type(error).__name__}: {error}") from error
