"""A repository's own quotas: read from its default branch, they lower the operator's and never raise them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.contract.outcome import Outcome
from app.attempt.story import heal
from app.store.leases.claims import NotClaimed
from app.store.leases.quotas import Limit
from app.store.store import Store
from tests.app.plant import NAME, Plant
from tests.app.requests import taken


def limited(plant: Plant, attempts: int) -> Store:
    """The store, with the operator's quota of attempts per repository and day."""
    terms = plant.store._terms
    limits = replace(terms.quotas.repository, attempts=Limit(attempts, "SELFHEAL_REPOSITORY_ATTEMPTS_PER_DAY"))
    quotas = replace(terms.quotas, repository=limits)
    return Store(plant.store.database, plant.store.clock, replace(terms, quotas=quotas))


@pytest.mark.parametrize(
    ("operator", "quota", "refusal"),
    [
        (9, "repository: {attempts: 0}", "0 attempts per repository and day"),
        (9, "repository: {tokens: 0}", "0 model tokens per repository and day"),
        (0, "repository: {attempts: 99}", "0 attempts per repository and day"),
    ],
)
async def test_a_repository_lowers_its_quota_and_cannot_raise_it(plant: Plant, operator: int, quota: str, refusal: str) -> None:
    sha = await plant.broken(f"quota:\n  {quota}\n")
    store = limited(plant, operator)
    attempt_id = await taken(store, replace(plant.request, head_sha=sha))

    await heal(attempt_id, replace(plant.deps, store=store))

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    assert refusal in (attempt.reason or "")
    assert ("selfheal.yml" in (attempt.reason or "")) == bool(operator)
    assert attempt.is_reported
    (check,) = [run for run in plant.github.check_runs(NAME) if run.head_sha == sha]
    assert refusal in check.output["summary"]


async def test_an_attempt_that_is_not_needed_takes_no_place_of_a_quota(plant: Plant) -> None:
    newest = plant.request.head_sha
    assert newest is not None
    store = limited(plant, 1)
    old = (await plant.github.commits(NAME, f"{newest}~1"))[0].sha
    await plant.github.set_status(NAME, newest, "codecov/project", "failure")
    for needless, why in (
        (replace(plant.request, head_sha=old), f"The newest commit of main is now `{newest[:10]}`"),
        (replace(plant.request, source="status", title="codecov/project"), "they run no tests: codecov/project"),
    ):
        attempt_id = await taken(store, needless)
        await heal(attempt_id, replace(plant.deps, store=store))
        assert why in ((await plant.attempt(attempt_id)).reason or "")

    wanted, refused = [await taken(store, replace(plant.request, head_sha=await plant.broken(f"# {n}\n"))) for n in range(2)]
    async with store.lease(wanted, "w1"):
        with pytest.raises(NotClaimed, match="1 attempt per repository and day"):
            async with store.lease(refused, "w2"):
                pass
