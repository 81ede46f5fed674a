"""What models are told: one YAML file a role, with a version, as Jinja templates. Only `render` is for others.

Text from outside (code, tracebacks, a job's log) goes in through the filter `quote`: fenced so that it cannot leave its block,
and announced as data.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import yaml
from jinja2 import Environment, StrictUndefined, Template

from agent.reflection import fenced

if TYPE_CHECKING:
    from agent.model import Message


@dataclass(frozen=True, slots=True)
class Prompt:
    version: int
    system: Template
    user: Template


def render(role: str, **values: object) -> list[Message]:
    """The messages of a role; a value that its template wants and does not get raises `jinja2.UndefinedError`."""
    prompt = _load(role)
    return [
        {"role": "system", "content": prompt.system.render(values).strip()},
        {"role": "user", "content": prompt.user.render(values).strip()},
    ]


@functools.cache
def _load(role: str) -> Prompt:
    told = yaml.safe_load(files(__package__).joinpath(f"{role}.yaml").read_text("utf-8"))
    jinja = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701 - no HTML
    jinja.filters["quote"] = fenced
    return Prompt(int(told["version"]), jinja.from_string(told["system"]), jinja.from_string(told["user"]))
