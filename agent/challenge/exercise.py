"""Exercises changed functions inside the sandbox: docstring examples, and calls similar to those of the tests.

Uses the guest's command `challenge`; judges nothing. The guest runs next to hostile code, so its answers can raise doubts or
an objection, but never make a change pass.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

import msgspec

from agent.challenge.touched import Touched
from agent.checks.runner import Runner
from agent.checks.sampling import guest_request, red_check, run_of
from agent.contract import words
from agent.contract.proposal import Edits
from agent.contract.verdicts import CheckRun, Oracle
from agent.guest.text import one_line
from agent.source.test_files import is_test
from sandbox.base import Sandbox

SECONDS = 8.0  # in total, besides
OUTSIDE = 20.0  # seconds for the calls outside of the test runner: on a busy machine the start of a process takes several
RED, GREEN = 10, 20  # tests whose calls are observed


class ExampleResult(msgspec.Struct, frozen=True, array_like=True):
    """What one example in a docstring at the base gives.

    "broken" gives a different plain value; "unlike" may differ in formatting only. "overruled" differs too, but a test
    makes the same call and decides.
    """

    function: str
    source: str
    outcome: Literal["kept", "broken", "unlike", "impossible", "overruled"]  # impossible: it needs something missing
    got: str
    withdrawn: bool = False  # the change removes or rewrites it


class ObservedCall(msgspec.Struct, frozen=True, array_like=True):
    """A call of a touched function. `passing`: a test passing at the base makes it; `mild`: it only resembles such a call.

    `callers`: the files of the repository from which it is made, or "" for any other.
    """

    function: int
    arguments: str
    passing: bool
    mild: bool
    callers: list[str] = []

    @property
    def is_internal(self) -> bool:
        """Only the product's own code makes it: what it returns is a step on the way to what a test sees."""
        return bool(self.callers) and not any(caller == "" or is_test(caller) for caller in self.callers)


class NearCall(msgspec.Struct, frozen=True, array_like=True):
    """A call made from the one with the index `of`. An argument is changed: to a value beside it, or beyond those of all tests;
    "holds": to one that holds it, or is empty."""

    function: int
    arguments: str
    how: Literal["beside", "beyond", "holds"]
    of: int


class CallResult(msgspec.Struct, frozen=True, array_like=True):
    """The result of a call. `text` describes a value so that equal ones have equal texts. `fits`: does it match the return type
    hint, if known?"""

    kind: Literal["value", "raised", "hung", "unsteady", "gone"]
    text: str
    fits: bool | None
    mutates: bool
    agrees: bool = False  # it equals values that it should differ from
    refuses: bool = False  # False, or raised by a `raise`
    shown: str = ""  # the value as Python writes it, perhaps shortened; "" if it is not plain

    @property
    def is_decided(self) -> bool:
        return self.kind in ("value", "raised")

    def differs(self, other: CallResult) -> bool:
        return self.is_decided and other.is_decided and (self.kind, self.text) != (other.kind, other.text)


class Variant(msgspec.Struct, frozen=True):
    """The results with one change. `answers` and `near` have a result for each call, in order, but end early if time is up.

    Only the base and the winner answer the near calls.
    """

    examples: list[ExampleResult] = []
    answers: list[CallResult] = []
    near: list[CallResult] = []


class Observations(msgspec.Struct, frozen=True):
    """The first variant is the unchanged code. A variant is None if its process died."""

    functions: list[str] = []
    calls: list[ObservedCall] = []
    variants: list[Variant | None] = []
    elsewhere: list[int] = []  # calls that the winner, but not the base, answers differently outside of the test runner
    silent: Literal["", "base", "change"] = ""  # the base, or only the winner, answers no call there
    unavailable: str = ""
    near: list[NearCall] = []

    def shown(self, call: ObservedCall | NearCall) -> str:
        """The call as a code span; it may be hostile."""
        name = self.functions[call.function] if 0 <= call.function < len(self.functions) else ""
        return words.code(one_line(name + call.arguments, 480), 120)


async def exercise(
    sandbox: Sandbox, runner: Runner, oracle: Oracle, base: Sequence[CheckRun], touched: Touched, changes: Sequence[Edits]
) -> Observations:
    """Exercise the base and each of the changes; `red_check` must not be None. Raises `SandboxError` if the sandbox is lost."""
    check = red_check(oracle)
    assert check is not None, "the caller checks"
    texts = touched.texts or {}
    request = {
        **guest_request(check, oracle, run_of(check, base), red=RED, green=GREEN),
        "seconds": SECONDS + OUTSIDE,
        "outside": OUTSIDE,
        "functions": [[f.path, f.name, f.line] for f in touched.functions],
        "documented": [[f.path, f.name] for f in touched.documented],
        "variants": [texts, *({**texts, **{c.path: c.after for c in edits if c.path in texts}} for edits in changes)],
    }
    async with sandbox.candidate() as workspace:
        reply = await runner.ask(workspace, "challenge", json.dumps(request).encode(), SECONDS + OUTSIDE + 2.0, check=check)
    if reply.problem:
        return Observations(unavailable=f"exercising the changed functions: {reply.problem}")
    try:
        return msgspec.json.decode(reply.output, type=Observations)
    except (ValueError, msgspec.ValidationError):
        return Observations(unavailable="the run of the changed functions gave no valid result")
