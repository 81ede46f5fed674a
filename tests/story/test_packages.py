"""Real bugs of real packages go from a failing run to a verified pull request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.contract.outcome import Outcome
from tests.data import DataMissing
from tests.standins.model import Asked, ScriptedModel
from tests.story.packages import OutOfReach, PackageBug, as_blocks, find, red_files
from tests.story.story import FAST, Story, told

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
    pytest.mark.long,
    pytest.mark.optional(reason="needs the package index and the data"),
]

DIAGNOSIS = '{"cause": "As the authors saw it.", "category": "logic", "confidence": 0.9}'


class Authors:
    """Plays the model: knows the authors' fix of the package that the prompt speaks of."""

    def __init__(self) -> None:
        self.fixes: dict[str, str] = {}

    def __call__(self, asked: Asked) -> str:
        if "You review" in asked.prompt:
            return '{"accept": true, "input": "another version"}'
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
    tmp_path_factory: pytest.TempPathFactory, authors: tuple[Authors, ScriptedModel], module_database_url: str | None
) -> AsyncIterator[tuple[Story, Authors]]:
    said, model = authors
    variables = FAST | {
        "SELFHEAL_MODEL": "openai/scripted",
        "SELFHEAL_MODEL_API_BASE": model.openai_url,
        "SELFHEAL_MODEL_API_KEY": "none",
        "SELFHEAL_MAX_SECONDS": "400",
    }
    async with told(tmp_path_factory.mktemp("packages"), variables, database_url=module_database_url) as story:
        yield story, said


async def _healed(
    case: str, cast: tuple[Story, Authors], folder: Path, rungs: str = "patterns, model"
) -> tuple[PackageBug, str]:
    """Play one case from its failing run to its pull request, where these rungs are allowed; the rung that healed it."""
    story, authors = cast
    try:
        bug = find(case)
        files = red_files(bug, folder)
    except (OutOfReach, DataMissing) as error:
        pytest.skip(str(error))
    authors.fixes[bug.data["fix"]["file"]] = as_blocks(bug.fix)
    repository = f"authors/{case}"
    await story.repository(repository, {".github/selfheal.yml": _configuration(bug, rungs), "README.md": case})
    sha = await story.push(repository, files)
    attempt = await story.ended(repository, seconds=420)
    assert attempt.outcome is Outcome.HEALED, f"{attempt.outcome}: {attempt.reason}"
    (pull,) = story.github.pull_requests(repository, state="all")
    assert all(name in pull.body for name in sorted(bug.red)[:5])
    base = (await story.github.commits(repository, pull.head_branch))[1]
    assert base.sha == sha
    healing = [proposed for proposed in await story.proposals(attempt) if proposed.title in (attempt.reason or "")]
    return bug, healing[-1].rung


def _configuration(bug: PackageBug, rungs: str) -> str:
    requirements = ", ".join(f'"{requirement}"' for requirement in bug.requirements)
    return f"rungs: [{rungs}]\ntest: python -m pytest -q -p no:cacheprovider\ninstall:\n  requirements: [{requirements}]\n"


async def test_a_wrong_bound_is_healed_without_a_model(story: tuple[Story, Authors], tmp_path: Path) -> None:
    _, rung = await _healed("boltons-f", story, tmp_path)
    assert rung == "patterns"


async def test_what_patterns_cannot_see_is_healed_by_the_model(story: tuple[Story, Authors], tmp_path: Path) -> None:
    _, rung = await _healed("tomlkit-g", story, tmp_path)
    assert rung.startswith("model:") or rung == "patterns"


@pytest.mark.parametrize("case", ["mistune-a", "markdown-b"])
async def test_a_model_heals_it_where_only_models_are_asked(case: str, story: tuple[Story, Authors], tmp_path: Path) -> None:
    """Where patterns may be tried first, the search of these two takes most of the time, and shows what the others show."""
    _, rung = await _healed(case, story, tmp_path, rungs="model")
    assert rung.startswith("model:")
