"""Decides between code and the tests that a model wrote from the specification, which can be wrong themselves.

A model is asked that sees the specification, the tests and what the code gave, but not the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.contract.events import Emit
from agent.models.decisions import line, read_object
from agent.models.router import Models
from agent.prompts import render

SECONDS = 300.0  # a local model may be slow; its own time limit is a setting
MOST = 8  # tests in one question
Right = Literal["test", "code", "open"]


@dataclass(frozen=True, slots=True)
class Dispute:
    """A test that fails, and what the code gave: type of the error, message, values."""

    path: str
    test: str
    result: str


@dataclass(frozen=True, slots=True)
class Decision:
    right: Right
    why: str  # a sentence


async def decide(specification: str, disputes: Sequence[Dispute], models: Models, emit: Emit) -> Mapping[str, Decision]:
    """The decision about each test, by its path; without a usable one, the test is right. Raises `ModelError`."""
    asked = list(enumerate(disputes[:MOST], 1))
    prompt = render("dispute", specification=specification, disputes=[(at, each.test, each.result) for at, each in asked])
    answer = await models.ask(prompt, seconds=SECONDS, emit=emit)
    told = read_object(answer.text) or {}
    return {each.path: _decision(told.get(str(at))) for at, each in asked}


def _decision(told: object) -> Decision:
    given = told if isinstance(told, dict) else {}
    right = given.get("right")
    return Decision(right if right in ("code", "open") else "test", line(given.get("why"), 300))
