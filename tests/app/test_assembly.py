"""Settings that cannot become parts are refused at the start, by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.assembly import check_models, e2b_of, github_of, models_of, sandboxes_of
from app.cli.doctor.checks import check_model
from app.settings import SettingsError, load


def test_what_is_no_private_key_is_refused_before_anything_starts() -> None:
    settings = load(github_app_id=1, github_private_key="garbage")
    with pytest.raises(SettingsError, match=r"SELFHEAL_GITHUB_PRIVATE_KEY: .* PEM"):
        github_of(settings)


def test_a_missing_app_id_is_named() -> None:
    with pytest.raises(SettingsError, match="SELFHEAL_GITHUB_APP_ID"):
        github_of(load())


async def test_a_sandbox_without_isolation_needs_a_word_of_trust() -> None:
    with pytest.raises(SettingsError, match=r"SELFHEAL_SANDBOX: .*SELFHEAL_TRUST_CODE"):
        await sandboxes_of(load(sandbox="process"))


async def test_e2b_without_a_key_is_refused_by_the_settings_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    with pytest.raises(SettingsError, match="SELFHEAL_E2B_API_KEY"):
        await sandboxes_of(load(sandbox="e2b"))


async def test_an_attempt_that_outlives_a_machine_of_the_plan_is_refused() -> None:
    key = SecretStr("e2b_secret")
    with pytest.raises(SettingsError, match=r"SELFHEAL_MAX_SECONDS: .*3600 s .*SELFHEAL_E2B_LIFETIME_SECONDS"):
        e2b_of(load(e2b_api_key=key, max_seconds=3600.0))
    paid = e2b_of(load(e2b_api_key=key, max_seconds=3600.0, e2b_lifetime_seconds=86_400.0))
    assert paid is not None
    assert paid.lifetime == 86_400.0
    assert e2b_of(load(e2b_api_key=key, max_seconds=7200.0, sandbox="local")) is not None, "it is not asked there"


async def test_auto_is_e2b_where_its_key_is_set_by_either_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    assert (await sandboxes_of(load(data_dir=tmp_path))).isolation.name == "local"
    for name in ("E2B_API_KEY", "SELFHEAL_E2B_API_KEY"):
        with monkeypatch.context() as once:
            once.setenv(name, "e2b_secret")
            settings = load(data_dir=tmp_path)
            assert "e2b_secret" in settings.secrets
            assert "e2b_secret" not in repr(settings)
            assert (await sandboxes_of(settings)).isolation.name == "e2b"
            assert (await sandboxes_of(load(data_dir=tmp_path, sandbox="local"))).isolation.name == "local"


async def test_every_model_of_the_settings_is_reached_at_its_own_server_and_a_key_stays_with_its_provider() -> None:
    models = await models_of(
        load(
            model="openai/small",
            model_api_base="https://gpu:8000/v1",
            model_api_key="k",
            model_strong="openai/large@https://gpu:8001/v1",
            model_review="anthropic/claude",
            model_fallbacks="ollama_chat/qwen, openai/spare",
        )
    )
    assert models is not None
    assert models.rungs == ("openai/small", "openai/large")
    small, large, critic = (
        models.settings(role, rung) for role, rung in (("repair", ""), ("repair", "openai/large"), ("review", ""))
    )
    assert (small.api_base, small.api_key) == ("https://gpu:8000/v1", "k")
    assert (large.name, large.api_base, large.api_key) == ("openai/large", "https://gpu:8001/v1", "k")
    assert (critic.api_base, critic.api_key) == (None, None)


async def test_without_a_model_there_is_none() -> None:
    assert await models_of(load(model="none")) is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"model": "openai/a", "model_api_base": "http://gpu:8000/v1", "model_api_key": "k"}, "MODEL_API_BASE"),
        ({"model": "openai/a", "model_api_base": "https://gpu:8000/v1?key=k", "model_api_key": "k"}, "MODEL_API_BASE"),
        ({"model": "openai/a", "model_api_base": "http://ann:k@gpu/v1"}, "MODEL_API_BASE"),
        ({"model": "openai/a@http://gpu/v1", "model_api_key": "k"}, "MODEL"),
        ({"model": "openai/a", "model_api_key": "k", "model_fallbacks": "openai/b@http://gpu/v1"}, "MODEL_FALLBACKS"),
        ({"model": "openai/a", "model_review": "anthropic/c@http://proxy"}, "MODEL_REVIEW"),
    ],
)
async def test_no_key_of_a_model_is_sent_without_encryption(
    given: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    with pytest.raises(SettingsError, match=rf"^SELFHEAL_{named} must"):
        await models_of(load(**given))
    (check,) = [each async for each in check_model(load(**given))]
    assert (check.status, named in check.seen) == ("failed", True)


async def test_a_model_of_the_own_network_or_machine_needs_no_https(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (
        {"model": "ollama_chat/qwen", "model_api_base": "http://ollama:11434"},
        {"model": "openai/a@http://gpu/v1"},
        {"model": "openai/a", "model_api_base": "http://localhost:8000/v1", "model_api_key": "k"},
    ):
        assert await models_of(load(**given)) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [("E2B_API_URL", "http://e2b.corp"), ("E2B_SANDBOX_URL", "https://a:b@e2b.corp"), ("E2B_DOMAIN", "e2b.corp/x?")],
)
def test_the_key_of_e2b_is_sent_by_https_only(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=rf"^{name}\b.* must"):
        e2b_of(load(e2b_api_key="e2b_secret"))
    monkeypatch.setenv(name, {"E2B_DOMAIN": "e2b.corp"}.get(name, "http://localhost:3000"))
    assert e2b_of(load(e2b_api_key="e2b_secret")) is not None


async def test_a_hosted_model_without_its_key_is_refused_by_the_name_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    hosted = load(model="anthropic/claude-x")
    with pytest.raises(SettingsError, match="'anthropic/claude-x' needs a key of its provider: set `ANTHROPIC_API_KEY`"):
        await check_models(hosted)
    for given in ({"model_api_key": "k"}, {"model_api_base": "http://127.0.0.1:1"}):
        await check_models(load(model="anthropic/claude-x", **given))
    await check_models(load(model="ollama_chat/qwen2.5-coder"))
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "t")
    await check_models(hosted)
