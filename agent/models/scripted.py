"""Models that answer from a file, for trying and teaching: `scripted` (built in) and `scripted:FILE`.

The file is JSON Lines. Each line answers the prompts of a role that contain certain texts; the first line that fits answers:

    {"role": "write", "when": ["def merge("], "answers": ["the first time", "each later time"]}

Without `role` or `when`, a line fits every role or prompt. The built-in script knows one task (`merge_intervals`): its first
answer is wrong, so that there is something to repair.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import get_args

import msgspec

from agent.contract.budget import Usage
from agent.models.values import Answer, Message, Misconfigured, ModelSettings, ModelUnavailable, Role, estimate_tokens

ANSWER_TOKENS = 4096
TASK = 'selfheal solve "Merge overlapping intervals." --fn merge_intervals'
"""What the built-in script knows."""


class BadScript(Exception):
    """The script cannot be used; the message names the file and the line."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    answers: list[str]
    role: str = ""
    when: list[str] = []


@dataclass
class Scripted:
    """Stands in for `agent.models.provider.Provider`. Each line of the script counts its own answers."""

    settings: ModelSettings
    answer_tokens: int = ANSWER_TOKENS
    _given: dict[int, int] = field(default_factory=dict)

    async def complete(
        self, messages: Sequence[Message], *, seconds: float, temperature: float = 0.0, role: str = ""
    ) -> Answer:
        """Raises `Misconfigured` if no line of the script fits: the same prompt would never fit one."""
        text = "\n".join(message["content"] for message in messages)
        file = self.settings.name.partition(":")[2]
        lines = await asyncio.to_thread(read_script, file)
        for at, line in enumerate(lines):
            if line.role in ("", role) and all(each in text for each in line.when):
                number = self._given.get(at, 0)
                self._given[at] = number + 1
                answer = line.answers[min(number, len(line.answers) - 1)]
                usage = Usage(estimate_tokens(text), estimate_tokens(answer), 1, 0.0)
                return Answer(answer, usage, "stop", self.settings.name)
        who = f"the script {file}" if file else "the built-in script"
        why = f"{who} has no answer for the role {role!r} to this prompt"
        more = "add a line that fits" if file else f"it only knows `{TASK}`; `--model scripted:FILE` takes a script of your own"
        raise Misconfigured(f"{why}; {more}", Usage(calls=1))

    async def embed(self, texts: Sequence[str], *, seconds: float) -> list[list[float]]:
        raise ModelUnavailable("a scripted model has no embeddings")


def read_script(file: str) -> tuple[_Line, ...]:
    """The script in a file; "": the built-in one. Raises `BadScript`."""
    try:
        return _read(file, Path(file).stat().st_mtime_ns if file else 0)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadScript(f"the script {file} cannot be read: {why}") from error


@functools.lru_cache(maxsize=4)
def _read(file: str, changed: int) -> tuple[_Line, ...]:
    """`changed`, the file's modification time, is part of the cache key."""
    text = Path(file).read_text("utf-8") if file else files("agent.models").joinpath("scripted.jsonl").read_text("utf-8")
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            read = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError as error:
            raise BadScript(f"the script {file}, line {number}: {error}") from error
        if read.role and read.role not in get_args(Role):
            known = ", ".join(get_args(Role))
            raise BadScript(f"the script {file}, line {number}: {read.role!r} is not a role; there are {known}")
        if not read.answers:
            raise BadScript(f"the script {file}, line {number}: it has no answers")
        lines.append(read)
    if not lines:
        raise BadScript(f"the script {file} is empty; write one JSON object per line")
    return tuple(lines)
