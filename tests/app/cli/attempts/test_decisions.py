"""A person's word at the command line: approve, reject, fork, forget, and what became of the sureness."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial

import pytest
from pydantic import SecretStr

from agent.contract.budget import Usage
from agent.contract.events import Answered
from agent.contract.memory import Recollection
from agent.contract.outcome import Outcome
from agent.contract.question import Question, Reply, Waiting
from app.assembly import models_named
from app.attempt.story import heal
from app.cli.attempts import decisions
from app.cli.attempts.decisions import DecisionRefused
from app.settings import Settings
from app.store.store import Store
from app.store.values import PullRequestRecord
from tests.app.cli.test_main import selfheal
from tests.app.plant import NAME, Plant
from tests.app.requests import RUN, SHA, cancel, run_of, taken
from tests.standins.model import Asked, ScriptedModel
from webhooks.intake import PullRequestChange

DIFF = "--- a/calc.py\n+++ b/calc.py\n-\x1b[31mold\n+new\n"


async def waiting(store: Store, sha: str = SHA) -> str:
    attempt_id = await taken(store, run_of(sha))
    async with store.lease(attempt_id, "w1") as lease:
        await lease.wait(Waiting(Question("publish", "May it be published?", DIFF), Usage(), "first"))
    return attempt_id


async def cli(settings: Settings, *argv: str) -> tuple[int, str, str]:
    kept = {"SELFHEAL_DATA_DIR": str(settings.data_dir), "SELFHEAL_DATABASE_URL": settings.database}
    done = await asyncio.to_thread(selfheal, *argv, **kept, SELFHEAL_MODEL="none")
    return done.returncode, done.stdout, done.stderr


async def test_the_question_is_shown_and_answered_once(settings: Settings, store: Store) -> None:
    attempt_id = await waiting(store)
    code, out, _ = await cli(settings, "attempts", "list")
    assert code == 0
    assert "waiting" in out
    _, out, _ = await cli(settings, "attempts", "show", attempt_id[:8])
    for said in ("waiting", "May it be published?", "+new", f"selfheal attempts approve {attempt_id[:12]}"):
        assert said in out
    assert "\x1b" not in out

    code, out, err = await cli(settings, "attempts", "reject", attempt_id[:8], "--why", "Not like this.")
    assert (code, err) == (0, "")
    assert f"Rejected attempt {attempt_id[:12]}" in out
    attempt = await store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.reply) == ("queued", Reply(False, "Not like this.", to="first"))
    assert await store.due() == [attempt_id]
    answered = (await store.timeline(attempt_id))[-1].event
    assert answered == Answered(
        text="Rejected by a person: Not like this.", about="publish", approved=False, why="Not like this."
    ), "told before any worker comes to it"

    code, out, err = await cli(settings, "attempts", "approve", attempt_id)
    assert (code, out) == (2, "")
    assert f"attempt {attempt_id[:12]} was already rejected and is queued" in err
    assert (await store.attempt(attempt_id)) == attempt


@pytest.mark.long
async def test_a_word_to_an_attempt_that_does_not_ask_is_wrong_use(settings: Settings, store: Store) -> None:
    queued = await taken(store, RUN)
    ended = await taken(store, run_of("b" * 40))
    async with store.lease(ended, "w1") as lease:
        await lease.end(Outcome.GAVE_UP, "No idea.")
    for argv, said in (
        (("approve", "77"), "'77' matches no attempt, or more than one"),
        (("approve", queued), "is not waiting for approval: it is queued"),
        (("reject", ended), "has already ended as gave_up"),
        (("fork", "77", "--from-iteration", "1"), "'77' matches no attempt, or more than one"),
        (("fork", ended, "--from-iteration", "1"), "its checkpoints are gone"),
        (("fork", ended, "--from-iteration", "0"), "--from-iteration"),
    ):
        code, out, err = await cli(settings, "attempts", *argv)
        assert (code, out) == (2, ""), err
        assert said in err
        assert "Traceback" not in err
    assert len(await store.attempts()) == 2, "no fork was made"


@pytest.mark.long
async def test_a_fork_with_a_hint_and_a_model_heals_what_the_search_could_not(plant: Plant) -> None:
    source = "def greeting(name):\n    return None\n"
    test = "import unittest, hall\n\nclass Tests(unittest.TestCase):\n    def test(self):\n"
    test += "        assert hall.greeting('Ada') == 'Good day, dear ADA!'\n"
    wishes = "test: python -m unittest\nrungs: [patterns, model]\n"
    files = {"hall.py": source, "test_hall.py": test, ".github/selfheal.yml": wishes}
    sha = await plant.github.push(NAME, "main", files)
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=sha))
    await heal(attempt_id, plant.deps)
    assert (await plant.attempt(attempt_id)).outcome is Outcome.GAVE_UP

    def answer(asked: Asked) -> str:
        if "You review" in asked.prompt:
            return '{"accept": true, "input": "greeting of an empty name"}'
        if "Names are shouted." not in asked.prompt:
            return "I do not know."
        return f"Shout.\n\nhall.py\n<<<<<<< SEARCH\n{source}=======\n{source.replace('None', WORDS)}>>>>>>> REPLACE\n"

    await decisions.fork(plant.settings, attempt_id, from_iteration=1, hint="Names are shouted.", model="openai/large")
    (fork_id,) = await plant.store.due()
    made = await plant.attempt(fork_id)
    assert (made.forked_from, made.from_iteration, made.model) == (attempt_id, 1, "openai/large")
    assert (made.head_sha, made.number) == (sha, 2)
    async with ScriptedModel(answer) as server:
        settings = plant.settings.model_copy(
            update={"model_api_base": server.openai_url, "model_api_key": SecretStr("sk-test")}
        )
        engine = replace(plant.deps.engine, models_named=partial(models_named, settings))
        await heal(fork_id, replace(plant.deps, engine=engine))

    healed = await plant.attempt(fork_id)
    assert healed.outcome is Outcome.HEALED, healed.reason
    (pull,) = plant.github.pull_requests(NAME)
    assert f"Forked from attempt `{attempt_id[:12]}` before iteration 1, with openai/large" in pull.body
    told = [stored.event.text for stored in await plant.store.timeline(fork_id)]
    assert told[0].startswith(f"Forked from attempt `{attempt_id[:12]}`")
    assert not any("Reproduc" in text for text in told), "what was before the fork is not done again"
    assert (await plant.attempt(attempt_id)).outcome is Outcome.GAVE_UP, "the source is as it was"
    with pytest.raises(DecisionRefused, match="not before iteration 9"):
        await decisions.fork(plant.settings, attempt_id, from_iteration=9)


WORDS = "f'Good day, dear {name.upper()}!'"


@pytest.mark.long
async def test_the_source_of_a_fork_is_kept_as_long_as_the_fork(plant: Plant) -> None:
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))
    await heal(attempt_id, plant.deps)
    await decisions.fork(plant.settings, attempt_id, from_iteration=1)
    (fork_id,) = await plant.store.due()
    long_ago = plant.store.clock.now().replace(year=2020)
    await plant.change(attempt_id, ended_at=long_ago, created_at=long_ago)
    assert await plant.store.due() == [fork_id]
    await cancel(plant.store, fork_id, Outcome.CANCELLED, "Enough.")
    await plant.change(fork_id, ended_at=long_ago, created_at=long_ago)
    assert await plant.store.due() == [fork_id]
    await heal(fork_id, plant.deps)
    assert await plant.store.due() == [attempt_id]


async def test_what_became_of_the_sureness_is_a_table(settings: Settings, store: Store) -> None:
    _, out, _ = await cli(settings, "attempts", "calibration")
    assert out == "No pull requests yet.\n"
    fates = [(0.95, "merged"), (0.92, "merged"), (0.91, "closed"), (0.5, "closed"), (0.93, "open")]
    for number, (confidence, fate) in enumerate(fates, 1):
        sha = f"{number}" * 40
        attempt_id = await taken(store, run_of(sha))
        async with store.lease(attempt_id, "w1") as lease:
            await lease.record_pull_request(PullRequestRecord(number, f"selfheal/{number}", "https://example.org"), confidence)
            await lease.end(Outcome.HEALED, "It works.", reported=True)
        if fate != "open":
            merged = fate == "merged"
            change = PullRequestChange("closed", 11, RUN.repository, number, sha, "x", merged=merged, closed=True)
            await taken(store, change)
    code, out, _ = await cli(settings, "attempts", "calibration", "--json")
    assert code == 0
    bands = {band["from"]: band for band in json.loads(out)}
    assert (bands[0.9]["count"], bands[0.9]["merged"], bands[0.9]["closed"], bands[0.9]["open"]) == (4, 2, 1, 1)
    assert bands[0.9]["share_merged"] == pytest.approx(2 / 3)
    assert (bands[0.4]["count"], bands[0.4]["share_merged"]) == (1, 0.0)
    assert (bands[0.6]["count"], bands[0.6]["share_merged"]) == (0, None)
    assert sum(band["count"] for band in bands.values()) == len(fates)
    _, out, _ = await cli(settings, "attempts", "calibration")
    assert "67%" in out


async def test_memories_are_listed_and_forgotten_at_the_command_line(settings: Settings, store: Store) -> None:
    _, out, _ = await cli(settings, "memory", "list")
    assert out == "No memories yet.\n"
    attempt_id = await taken(store, RUN)
    memory = store.memory(RUN.repository.id)
    assert memory is not None
    await memory.keep(Recollection(attempt_id, "test_a KeyError", Outcome.GAVE_UP, ("Not \x1b[31mthe key.",)))
    code, out, _ = await cli(settings, "memory", "list")
    assert code == 0
    assert attempt_id[:12] in out
    assert "\x1b" not in out
    (kept,) = json.loads((await cli(settings, "memory", "list", "--json", "--repository", "octo/calculator"))[1])
    assert kept["attempt"] == attempt_id
    assert json.loads((await cli(settings, "memory", "list", "--json", "--repository", "octo/other"))[1]) == []
    for argv in ((), ("1", "--repository", "octo/calculator"), ("77",), ("--repository", "octo/other")):
        assert (await cli(settings, "memory", "forget", *argv))[0] == 2
    assert await cli(settings, "memory", "forget", str(kept["id"])) == (0, "Deleted 1 memory.\n", "")
    assert await store.memories() == []
