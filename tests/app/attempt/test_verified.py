"""What a pull request of ours claims can be repeated from its address by somebody who has nothing but `selfheal verify`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from app.attempt.story import heal
from tests.app.cli import program
from tests.app.cli.checkout.test_fix import PATIENCE, environment
from tests.app.plant import NAME, Plant
from tests.app.requests import taken


@pytest.mark.long
async def test_a_proof_is_repeated_and_a_changed_repair_is_noticed(plant: Plant, tmp_path: Path) -> None:
    sha = await plant.broken()
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=sha))
    await heal(attempt_id, plant.deps)
    attempt = await plant.attempt(attempt_id)
    assert attempt.pull_request is not None, attempt.reason
    variables = environment(tmp_path) | {"SELFHEAL_GITHUB_API_URL": plant.github.url}

    async def verify(*argv: str) -> CompletedProcess[str]:
        return await asyncio.to_thread(program.run, ("verify", *argv), tmp_path, variables, PATIENCE)  # GitHub runs here

    done = await verify(attempt.pull_request.url, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["verified"], told["base"], told["differences"]) == (True, sha, [])
    assert told["receipt"]["attempt"] == attempt_id
    assert told["receipt"]["checks"][0]["failing"] == list(told["evidence"]["checks"][0]["target"])

    text = "def add(a, b):\n    return b + a\n"
    await plant.github.push(NAME, attempt.pull_request.branch, {"calc.py": text})
    done = await verify(attempt.pull_request.url)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "somebody changed the repair since" in done.stdout
