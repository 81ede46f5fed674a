"""Real bugs of real packages go from a failing run to a verified pull request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.task import Outcome
from app.clock import SystemClock
from app.settings import load
from app.store.store import open_store
from tests.standins.github import GitHub
from tests.standins.model import Asked, ScriptedModel
from tests.story.conftest import FAST
from tests.story.packages import OutOfReach, PackageBug, as_blocks, find, red_files
from tests.story.service import running
from tests.story.story import Story

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.optional(reason="needs the package index and the data")]

DIAGNOSIS = '{"cause": "As the authors saw it.", "category": "logic", "confidence": 0.9}'


class Authors:
    """Plays the model: knows the authors' fix of the package that the prompt speaks of."""

    def __init__(self) -> None:
        self.fixes: dict[str, str] = {}

    def __call__(self, asked: Asked) -> str:
        if "SEARCH" not in asked.prompt:
            return DIAGNOSIS
        return next((fix for path, fix in self.fixes.items() if path in asked.prompt), "I do not know this code.")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def authors() -> AsyncIterator[tuple[Authors, ScriptedModel]]:
    said = Authors()
    async with ScriptedModel(said) as model:
        yield said, model


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(
    tmp_path_factory: pytest.TempPathFactory, authors: tuple[Authors, ScriptedModel]
) -> AsyncIterator[tuple[Story, Authors]]:
    folder: Path = tmp_path_factory.mktemp("packages")
    said, model = authors
    variables = FAST | {
        "SELFHEAL_MODEL": "openai/scripted",
        "SELFHEAL_MODEL_API_BASE": model.openai_url,
        "SELFHEAL_MODEL_API_KEY": "none",
        "SELFHEAL_MAX_SECONDS": "400",
    }
    async with GitHub() as github, running(github, folder, variables) as service:
        async with open_store(load(data_dir=folder / "data"), SystemClock()) as store:
            yield Story(github, service, store), said


async def _healed(case: str, told: tuple[Story, Authors], folder: Path) -> tuple[PackageBug, str]:
    """Play one case from its failing run to its pull request; the rung that healed it."""
    story, authors = told
    try:
        bug = find(case)
        files = red_files(bug, folder)
    except OutOfReach as error:
        pytest.skip(str(error))
    authors.fixes[bug.data["fix"]["file"]] = as_blocks(bug.fix)
    repository = f"authors/{case}"
    await story.repository(repository, {".github/selfheal.yml": _configuration(bug), "README.md": case})
    sha = await story.push(repository, files)
    attempt = await story.ended(repository, seconds=420)
    assert attempt.outcome is Outcome.HEALED, f"{attempt.outcome}: {attempt.reason}"
    (pull,) = story.github.pull_requests(repository, state="all")
    assert all(name in pull.body for name in sorted(bug.red)[:5])
    (commit, base) = (await story.github.commits(repository, pull.head_branch))[:2]
    assert base.sha == sha
    (proposed,) = [event for event in await story.proposals(attempt) if event.title in pull.title or event.title in pull.body][
        -1:
    ]
    return bug, proposed.rung


def _configuration(bug: PackageBug) -> str:
    requirements = ", ".join(f'"{requirement}"' for requirement in bug.requirements)
    return f"test: python -m pytest -q -p no:cacheprovider\ninstall:\n  requirements: [{requirements}]\n"


async def test_a_wrong_bound_is_healed_without_a_model(story: tuple[Story, Authors], tmp_path: Path) -> None:
    _, rung = await _healed("boltons-f", story, tmp_path)
    assert rung == "patterns"


@pytest.mark.parametrize("case", ["mistune-a", "markdown-b", "tomlkit-g"])
async def test_what_patterns_cannot_see_is_healed_by_the_model(case: str, story: tuple[Story, Authors], tmp_path: Path) -> None:
    _, rung = await _healed(case, story, tmp_path)
    assert rung.startswith("model:") or rung == "patterns"
