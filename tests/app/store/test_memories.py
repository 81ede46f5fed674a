"""What is remembered of a repository: found by words and by vectors, never in another one, and forgotten when asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent.contract.memory import Memory, Recollection, signature
from agent.contract.outcome import Outcome
from agent.contract.verdicts import Failure, Frame, VerdictId
from agent.models.values import ModelUnavailable
from app.store.memories import Embedder, RepositoryMemory, cosine_distance, packed
from app.store.store import Store
from app.store.values import PullRequestRecord
from tests.app.requests import RUN, SHA, run_of, taken
from webhooks.intake import PullRequestChange, RepositoryRef

ELSEWHERE = RepositoryRef(8, "octo/elsewhere", "main")


def failing(test: str, message: str, path: str, function: str) -> str:
    return signature([Failure(VerdictId(test), message, frames=(Frame(path, 3, function),))])


ROUNDING = failing("tests/test_money.py::test_rounds", "AssertionError: assert 1.0 == 1.1", "shop/money.py", "rounded")
ROUNDING_AGAIN = failing("tests/test_money.py::test_rounds_down", "AssertionError: assert 7 == 8", "shop/money.py", "rounded")
PARSING = failing("tests/test_dates.py::test_parses", "ValueError: unknown month 'Mai'", "shop/dates.py", "parse_date")


def memory_of(store: Store, repository: int = 7, embedder: Embedder | None = None) -> RepositoryMemory:
    memory = store.memory(repository, embedder)
    assert memory is not None
    return memory


async def healed(store: Store, memory: Memory, looks: str, sha: str, **changes: object) -> Recollection:
    repository = changes.pop("repository", RUN.repository)
    attempt = await taken(store, run_of(sha, repository=repository))
    made = Recollection(attempt, looks, Outcome.HEALED, ("Half a cent counts.",), "`>` becomes `>=`", "- a\n+ b\n")
    kept = replace(made, **changes)
    await memory.keep(kept)
    return kept


async def test_what_looks_alike_is_found_and_the_rest_is_not(store: Store) -> None:
    memory = memory_of(store)
    rounding = await healed(store, memory, ROUNDING, SHA)
    await healed(store, memory, PARSING, "b" * 40)
    assert await memory.recall(ROUNDING_AGAIN) == (rounding,)
    stranger = failing("tests/test_net.py::test_retries", "AssertionError: assert 3 == 4", "shop/net.py", "fetch")
    assert await memory.recall(stranger) == ()
    assert await memory.recall("") == ()


async def test_the_most_alike_comes_first_and_there_are_not_too_many(store: Store) -> None:
    memory = memory_of(store)
    for number in range(5):
        await healed(store, memory, ROUNDING_AGAIN, f"{number}" * 40)
    same = await healed(store, memory, ROUNDING, "e" * 40)
    found = await memory.recall(ROUNDING, most=3)
    assert len(found) == 3
    assert found[0] == same


async def test_no_repository_sees_what_another_one_learned(store: Store) -> None:
    await healed(store, memory_of(store, 8), ROUNDING, SHA, repository=ELSEWHERE)
    assert await memory_of(store, 7).recall(ROUNDING) == ()
    assert len(await memory_of(store, 8).recall(ROUNDING)) == 1


async def test_the_same_attempt_again_replaces_what_was_kept_of_it(store: Store) -> None:
    memory = memory_of(store)
    first = await healed(store, memory, PARSING, SHA)
    await memory.keep(replace(first, signature=ROUNDING, lessons=("Another one.",)))
    assert await memory.recall(PARSING) == ()
    (found,) = await memory.recall(ROUNDING)
    assert found.lessons == ("Another one.",)
    assert len(await store.memories()) == 1


@pytest.mark.parametrize(
    "hostile", ['" OR 1=1 --', "signature:* NEAR(a b)", "'; DROP TABLE memories; --", "a\x00b\ud800", "(((((", "AND OR NOT"]
)
async def test_what_failures_say_is_never_read_as_a_query(store: Store, hostile: str) -> None:
    memory = memory_of(store)
    kept = await healed(store, memory, f"{ROUNDING}\n{hostile}", SHA, lessons=(hostile,))
    (found,) = await memory.recall(f"{ROUNDING}\n{hostile}")
    assert found.attempt == kept.attempt
    assert "\x00" not in found.signature + found.lessons[0]
    assert len(await store.memories()) == 1


async def test_a_repair_that_people_closed_is_none_to_learn_from(store: Store) -> None:
    memory = memory_of(store)
    kept = await healed(store, memory, ROUNDING, SHA)
    async with store.lease(kept.attempt, "w1") as lease:
        await lease.record_pull_request(PullRequestRecord(4, "selfheal/x", "https://example.org/4"), 0.9)
        await lease.end(Outcome.HEALED, "It works.", reported=True)
    assert (await memory.recall(ROUNDING))[0].diff
    await taken(store, PullRequestChange("closed", 11, RUN.repository, 4, SHA, "selfheal/x", merged=False, closed=True))
    (found,) = await memory.recall(ROUNDING)
    assert (found.title, found.diff) == ("", "")
    assert "closed unmerged" in found.outcome
    assert found.lessons


def meaning(name: str = "meaning", size: int = 4, *, away: bool = False) -> Embedder:
    """An embedding model to which money is money and dates are dates, whatever the words."""

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        if away:
            raise ModelUnavailable("nobody listens")
        money = [sum(text.count(word) for word in ("money", "cent", "rounded")) for text in texts]
        dates = [sum(text.count(word) for word in ("date", "month")) for text in texts]
        return [[float(m), float(d), 0.1, *[0.0] * (size - 3)] for m, d in zip(money, dates, strict=True)]

    return Embedder(name, embed)


async def test_with_an_embedding_model_meaning_finds_what_words_do_not(store: Store) -> None:
    cents = failing("spec/prices.py::cent_is_kept", "TypeError: cent", "billing/cent.py", "cent_of")
    with_meaning = memory_of(store, embedder=meaning())
    kept = await healed(store, with_meaning, cents, SHA)
    await healed(store, with_meaning, PARSING, "b" * 40)
    assert await memory_of(store).recall(ROUNDING) == (), "their words have little in common"
    assert await with_meaning.recall(ROUNDING) == (kept,)


async def test_vectors_of_another_model_are_not_compared(store: Store) -> None:
    cents = failing("spec/prices.py::cent_is_kept", "TypeError: cent", "billing/cent.py", "cent_of")
    await healed(store, memory_of(store, embedder=meaning()), cents, SHA)
    assert await memory_of(store, embedder=meaning("other")).recall(ROUNDING) == ()
    assert await memory_of(store, embedder=meaning(size=8)).recall(ROUNDING) == ()


async def test_without_an_answer_of_the_embedding_model_words_find_still(store: Store) -> None:
    memory = memory_of(store, embedder=meaning(away=True))
    kept = await healed(store, memory, ROUNDING, SHA)
    assert await memory.recall(ROUNDING_AGAIN) == (kept,)


def test_the_distance_of_vectors_is_that_of_their_directions() -> None:
    east, north, west = packed([2.0, 0.0]), packed([0.0, 3.0]), packed([-1.0, 0.0])
    assert [cosine_distance(east, other) for other in (east, north, west)] == pytest.approx([0.0, 1.0, 2.0])


async def test_memories_are_listed_and_forgotten(store: Store) -> None:
    here, there = memory_of(store, 7), memory_of(store, 8)
    await healed(store, here, ROUNDING, SHA)
    await healed(store, here, PARSING, "b" * 40)
    await healed(store, there, ROUNDING, "c" * 40, repository=ELSEWHERE)
    listed = await store.memories(repository="OCTO/Calculator")
    assert [kept.recollection.signature for kept in listed] == [PARSING, ROUNDING]
    assert await store.forget_memories(memory_id=listed[1].id) == 1
    assert await here.recall(ROUNDING) == ()
    assert await store.forget_memories(memory_id=listed[1].id) == 0
    assert await store.forget_memories(repository="octo/calculator") == 1
    assert [kept.repository for kept in await store.memories()] == ["octo/elsewhere"]
    assert len(await there.recall(ROUNDING)) == 1
