"""A repository's own quotas: read from its default branch, they lower the operator's and never raise them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.contract.outcome import Outcome
from app.attempt.story import heal
from app.store.leases.quotas import Limit
from app.store.store import Store
from tests.app.plant import NAME, Plant
from tests.app.requests import taken


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
    terms = plant.store._terms
    limits = replace(terms.quotas.repository, attempts=Limit(operator, "SELFHEAL_REPOSITORY_ATTEMPTS_PER_DAY"))
    store = Store(plant.store.database, plant.store.clock, replace(terms, quotas=replace(terms.quotas, repository=limits)))
    attempt_id = await taken(store, replace(plant.request, head_sha=sha))

    await heal(attempt_id, replace(plant.deps, store=store))

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    assert refusal in (attempt.reason or "")
    assert ("selfheal.yml" in (attempt.reason or "")) == bool(operator)
    assert attempt.is_reported
    (check,) = [run for run in plant.github.check_runs(NAME) if run.head_sha == sha]
    assert refusal in check.output["summary"]
