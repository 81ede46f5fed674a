"""A test that passes in one order only is searched for, and repaired, only when a person asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.contract.events import Probed
from agent.contract.outcome import Outcome
from tests.databases import on_sqlite
from tests.standins.model import Asked, ScriptedModel
from tests.story.story import FAST, Story, tidy, told

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long, on_sqlite]  # reruns ask the database nothing

PRICES = {
    "prices.py": """\
        KNOWN = {}


        def price(name, table):
            if name not in KNOWN:
                KNOWN[name] = table[name]
            return KNOWN[name]
        """,
    "test_list.py": """\
        from prices import price


        def test_list_price():
            assert price("tea", {"tea": 3}) == 3
        """,
    "test_sale.py": """\
        from prices import price


        def test_sale_price():
            assert price("tea", {"tea": 2}) <= 3
        """,
}
FIX = """\
prices.py
```python
<<<<<<< SEARCH
    if name not in KNOWN:
        KNOWN[name] = table[name]
    return KNOWN[name]
=======
    return table[name]
>>>>>>> REPLACE
```
"""


def author(asked: Asked) -> str:
    """Plays the model: knows the true fix, and is only asked for it when it is told of the cause."""
    if "You review" in asked.prompt:
        return '{"accept": true, "input": "another order"}'
    if "SEARCH" not in asked.prompt:
        return '{"cause": "A price is kept for ever.", "category": "state", "confidence": 0.9}'
    return FIX if "Suspected cause: order" in asked.prompt else "I do not know."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(tmp_path_factory: pytest.TempPathFactory, module_database_url: str | None) -> AsyncIterator[Story]:
    async with ScriptedModel(author) as model:
        variables = FAST | {
            "SELFHEAL_MODEL": "openai/scripted",
            "SELFHEAL_MODEL_API_BASE": model.openai_url,
            "SELFHEAL_MODEL_API_KEY": "none",
            "SELFHEAL_MAX_SECONDS": "400",
        }
        async with told(tmp_path_factory.mktemp("flakiness"), variables, database_url=module_database_url) as story:
            yield story


async def test_what_needs_an_order_is_searched_and_healed_only_when_a_person_asks(story: Story) -> None:
    await story.repository("acme/tea", PRICES, on="workflow_dispatch")
    story.github.add_collaborator("acme/tea", "maria", "write")
    await story.github.push("acme/tea", "topic", tidy({"notes.txt": "x"}), "Add notes")
    pull = await story.github.open_pull("acme/tea", "topic")

    await story.github.comment("acme/tea", pull.number, "maria", "/heal")
    attempt = await story.ended("acme/tea", seconds=300)

    assert attempt.outcome is Outcome.NOT_REPRODUCED, attempt.reason
    assert "passed in both runs" in (attempt.reason or "")
    assert {each.number for each in story.github.pull_requests("acme/tea")} == {pull.number}, "nobody asked for a repair"

    await story.github.comment("acme/tea", pull.number, "maria", "/heal flaky")
    attempt = await story.ended("acme/tea", count=2, seconds=300)

    assert attempt.outcome is Outcome.HEALED, attempt.reason
    assert any(isinstance(stored.event, Probed) for stored in await story.store.timeline(attempt.id))
    (repair,) = [each for each in story.github.pull_requests("acme/tea") if each.number != pull.number]
    assert "in shuffled order" in repair.body
    healed = await story.github.file("acme/tea", "prices.py", repair.head_branch)
    assert healed.decode().endswith("def price(name, table):\n    return table[name]\n")
