"""Have changed functions played with inside the sandbox: docstring examples, and calls near those that the tests make.

Knows the guest's command `challenge`; judges nothing. What it answers was near hostile code: it can only raise doubts or end in
an objection, never make anything green.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

import msgspec

from agent.challenge.touched import Touched
from agent.checks.runner import Runner
from agent.checks.sampling import question, red_check, run_of
from agent.contract.proposal import Edits
from agent.contract.verdicts import CheckRun, Oracle
from sandbox.base import Sandbox

SECONDS = 8.0  # for all of it, at most
RED, GREEN = 10, 20  # tests whose calls are seen


class Example(msgspec.Struct, frozen=True, array_like=True):
    """One example of a docstring of the base.

    Broken is a plain value in place of another; unlike may also be a matter of writing.
    An overruled one does not come out as written either, but a test makes the very call that it makes, and decides.
    """

    function: str
    source: str
    outcome: Literal["kept", "broken", "unlike", "impossible", "overruled"]  # impossible: it wants what is not there
    got: str
    withdrawn: bool = False  # the change takes it out of the docstring, or rewrites it


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A call of a touched function. `passing`: a test makes it that passes at the base; `mild`: it is only near such a call."""

    function: int
    arguments: str
    passing: bool
    mild: bool


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What came of a call. `fits` the hint of what it returns, where that can be told."""

    kind: Literal["value", "raised", "hung", "unsteady", "gone"]
    text: str
    fits: bool | None
    mutates: bool


class Variant(msgspec.Struct, frozen=True):
    """The code as it is with one change. `answers` begins as the calls do, and ends early where time was up."""

    examples: list[Example] = []
    answers: list[Answer] = []


class Played(msgspec.Struct, frozen=True):
    """The first of the variants is the unchanged code. Each is None where it died."""

    functions: list[str] = []
    calls: list[Call] = []
    variants: list[Variant | None] = []
    unavailable: str = ""


async def play(
    sandbox: Sandbox, runner: Runner, oracle: Oracle, base: Sequence[CheckRun], touched: Touched, changes: Sequence[Edits]
) -> Played:
    """With the base and with each of the changes; `red_check` is not None. Raises `SandboxError` when the sandbox is lost."""
    check = red_check(oracle)
    assert check is not None, "somebody has looked"
    texts = touched.texts or {}
    request = {
        **question(check, oracle, run_of(check, base), red=RED, green=GREEN),
        "seconds": SECONDS,
        "functions": [[f.path, f.name, f.line] for f in touched.functions],
        "documented": [[f.path, f.name] for f in touched.documented],
        "variants": [texts, *({**texts, **{c.path: c.after for c in edits if c.path in texts}} for edits in changes)],
    }
    async with sandbox.candidate() as workspace:
        asked = await runner.ask(workspace, "challenge", json.dumps(request).encode(), SECONDS + 2.0, check=check)
    if asked.problem:
        return Played(unavailable=f"playing with the changed functions: {asked.problem}")
    try:
        return msgspec.json.decode(asked.output, type=Played)
    except (ValueError, msgspec.ValidationError):
        return Played(unavailable="the play with the changed functions ended without an answer")
