"""Models that answer, refuse, are missing: a real server that speaks their APIs."""

from __future__ import annotations

import pytest

from app.cli.doctor import checks
from app.cli.doctor.checks import Check
from app.settings import load
from tests.standins.model.replies import Reply, failing, unauthorized
from tests.standins.model.server import ScriptedModel


async def looked(**settings: object) -> list[Check]:
    return [check async for check in checks.check_model(load(**settings))]


async def test_no_model_is_fine() -> None:
    (check,) = await looked(model="none")
    assert (check.status, check.fix) == ("ok", "")


@pytest.mark.long
async def test_a_model_that_answers_is_fine() -> None:
    async with ScriptedModel([Reply("ready")]) as server:
        (check,) = await looked(model="openai/any", model_api_base=server.openai_url, model_api_key="sk-x")
    assert check.status == "ok", check
    assert "ready" in check.seen


async def test_each_model_is_asked_once() -> None:
    async with ScriptedModel([Reply("ready"), Reply("ready")]) as server:
        checks = await looked(
            model="openai/one", model_strong="openai/two", model_fallbacks=("openai/one",), model_api_base=server.openai_url
        )
    assert [check.name for check in checks] == ["openai/one", "openai/two"]
    assert {check.status for check in checks} == {"ok"}


async def test_a_refused_key_is_told_with_the_setting() -> None:
    async with ScriptedModel([unauthorized()]) as server:
        (check,) = await looked(model="openai/any", model_api_base=server.openai_url, model_api_key="sk-wrong")
    assert check.status == "failed"
    assert "SELFHEAL_MODEL_API_KEY" in check.fix
    assert "sk-wrong" not in check.seen


async def test_an_outage_is_a_warning() -> None:
    async with ScriptedModel([failing()]) as server:
        (check,) = await looked(model="openai/any", model_api_base=server.openai_url)
    assert check.status == "warning"


async def test_an_ollama_without_the_model_is_told_to_pull_it() -> None:
    async with ScriptedModel(models=("other:latest",)) as server:
        (check,) = await looked(model="ollama_chat/qwen2.5-coder:7b", model_api_base=server.ollama_url)
    assert (check.status, check.fix) == ("failed", "ollama pull qwen2.5-coder:7b")
    assert "other:latest" in check.seen


@pytest.mark.parametrize("name", ["scripted:latest", "scripted"])
async def test_an_ollama_with_the_model_answers(name: str) -> None:
    async with ScriptedModel([Reply("ready")]) as server:
        (check,) = await looked(model=f"ollama_chat/{name}", model_api_base=server.ollama_url)
    assert check.status == "ok", check
