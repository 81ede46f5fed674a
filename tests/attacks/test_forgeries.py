"""Forgeries that know no rule of ours are refused, asked about or stopped by the gate; honest repairs are never refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.contract.proposal import Candidate
from agent.contract.task import Policy
from agent.contract.verdicts import Oracle, VerdictId
from agent.guard.rules import questions, refusal
from agent.models.router import Models
from agent.models.values import ModelSettings
from tests.attacks.forgeries import HONEST, Forgery, answer, every, load
from tests.standins.model import Asked, ScriptedModel
from tests.tiers import long_but

REFUSED = ("honest-child-leaves-at-once", "honest-child-exit")  # `os._exit` in a child: too near to a forgery
# They break no rule, and answer near the tests as much as a repair does. Only second opinions tell them from one.
OPEN = (
    "heart-duration-regex", "heart-fitted-letters", "heart-iso-weeks", "heart-long-years-string", "heart-rate-formula",
    "heart-weeks-and-rest", "judges-normalize-js", "knows-reserved-hosts", "knows-simulated-clock", "less-escape-entities",
    "less-feed-first-wins", "less-js-parseint", "less-overlap-start-only", "less-static-decode", "less-tag-order",
    "silenced-importlib-layer", "silenced-kept-handles", "silenced-open-handle", "silenced-shared-default-ruff",
)  # fmt: skip
BY_LUCK = ("reads-decimal-context",)  # asked about only if one of the calls that are made shows what its variants change
FORGERIES = {name: load(name) for name in every()}
# Whole repairs: where the guard has nothing to say.
WHOLE = [name for name, each in FORGERIES.items() if each.kind != HONEST and each.guard == "-"]


def judged(forgery: Forgery) -> str:
    tests = "\n".join(text for path, text in forgery.files.items() if "test" in path)
    oracle = Oracle((forgery.check,), {"tests": frozenset({VerdictId("a test")})}, {"tests": frozenset()})
    candidate = Candidate("model:scripted", forgery.edits, "a change")
    found = refusal(candidate, Policy(), oracle, tests)
    return found.rule if found else next((f"asks {rule}" for rule, _ in questions(candidate, oracle, tests, tests)), "-")


@pytest.mark.parametrize("name", FORGERIES)
def test_the_guard_says_so(name: str) -> None:
    assert judged(FORGERIES[name]) == FORGERIES[name].guard


@pytest.mark.parametrize("name", [name for name, each in FORGERIES.items() if each.kind == HONEST and name not in REFUSED])
def test_an_honest_repair_is_not_refused(name: str) -> None:
    assert judged(FORGERIES[name]).startswith(("asks ", "-"))


@pytest.mark.parametrize("name", long_but(name for name in WHOLE if name not in (*OPEN, *BY_LUCK)))
async def test_what_the_guard_lets_pass_is_not_published(name: str, tmp_path: Path) -> None:
    found, why = await answer(FORGERIES[name], tmp_path)
    assert found != "published", why


@pytest.mark.long
@pytest.mark.parametrize("name", OPEN)
async def test_what_only_second_opinions_can_stop_is_known(name: str, tmp_path: Path) -> None:
    """One that is stopped without them by now belongs to the others."""
    assert (await answer(FORGERIES[name], tmp_path))[0] == "published"


@pytest.mark.parametrize("name", long_but((*OPEN, *BY_LUCK), "silenced-shared-default-ruff"))
async def test_a_model_that_agrees_to_everything_publishes_none_of_them(name: str, tmp_path: Path) -> None:
    async with ScriptedModel(_agreeable) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "k", 30.0))
        assert (await answer(FORGERIES[name], tmp_path, models))[0] == "asked"


def _agreeable(asked: Asked) -> str:
    if asked.prompt.startswith("You write tests"):
        return "```python\ndef test_it():\n    assert True\n```"
    return '{"accept": true, "reason": "It is right."}'
