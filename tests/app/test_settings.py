from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import Settings, SettingsError, load, unread_names
from deploy.document import table


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("PORT", "99999", "SELFHEAL_PORT should be less than or equal to 65535, not '99999'"),
        ("PORT", "web", "SELFHEAL_PORT should be a valid integer, unable to parse string as an integer, not 'web'"),
        ("REDIS_URL", "localhost", "SELFHEAL_REDIS_URL must be a URL that starts with redis://, rediss:// or unix://"),
        ("SANDBOX", "none", "SELFHEAL_SANDBOX should be 'auto', 'local', 'process', 'docker' or 'e2b', not 'none'"),
        (
            "GITHUB_API_URL",
            "ghe",
            "SELFHEAL_GITHUB_API_URL must be a URL that starts with http:// or https://, not 'ghe'",
        ),
        (
            "MODEL_ROLE_TEMPERATURES",
            "review=3",
            "SELFHEAL_MODEL_ROLE_TEMPERATURES should be less than or equal to 2, not '3'",
        ),
        (
            "MODEL_ROLE_TOKENS",
            "critic=900",
            (
                "SELFHEAL_MODEL_ROLE_TOKENS should be 'diagnose', 'repair', 'review', 'challenge', 'design', 'write', "
                "'dispute' or 'attack', not 'critic'"
            ),
        ),
        (
            "PACKAGE_INDEX_HOSTS",
            "https://a/b",
            "SELFHEAL_PACKAGE_INDEX_HOSTS must be host names separated by commas, without http:// or paths, not 'https://a/b'",
        ),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, line: str
) -> None:
    monkeypatch.setenv(f"SELFHEAL_{name}", value)
    with pytest.raises(SettingsError) as error:
        load()
    assert str(error.value) == line


@pytest.mark.parametrize("prefix", ["selfheal/", "bot/", "bot-", "fix/selfheal-", "bots/ci.1/"])
def test_branch_prefixes(prefix: str) -> None:
    assert load(branch_prefix=prefix).branch_prefix == prefix


@pytest.mark.parametrize(
    "prefix", ["bot", "/", "-", "-bot/", "bot//", "a..b/", "a.lock/", "b ot/", "bot/\n", "@{/", "refs/heads", "x" * 40 + "/"]
)
def test_what_begins_no_branch_is_refused(prefix: str) -> None:
    with pytest.raises(SettingsError, match="SELFHEAL_BRANCH_PREFIX must be at most 40 letters"):
        load(branch_prefix=prefix)


@pytest.mark.parametrize("prefix", ["main-", "main/", "Feature/", "fix-", "dependabot/", "gh-readonly-queue/"])
def test_a_prefix_of_peoples_branches_is_refused_with_another(prefix: str) -> None:
    with pytest.raises(SettingsError, match=r"is a prefix of people's branches; use .*/selfheal-"):
        load(branch_prefix=prefix)


def test_a_wrong_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFHEAL_REDIS_URL", "https://:hunter2@host")
    with pytest.raises(SettingsError) as error:
        load()
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


def test_two_wrong_values_are_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFHEAL_PORT", "-1")
    monkeypatch.setenv("SELFHEAL_MAX_TRIES", "0")
    with pytest.raises(SettingsError) as error:
        load()
    assert len(str(error.value).splitlines()) == 2


def test_values_come_from_the_environment_and_arguments_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFHEAL_PORT", "81")
    monkeypatch.setenv("SELFHEAL_REDIS_URL", "")
    monkeypatch.setenv("SELFHEAL_PACKAGE_INDEX_HOSTS", "one.example, two.example")
    settings = load()
    assert (settings.port, settings.redis_url) == (81, None)
    assert settings.package_index_hosts == ("one.example", "two.example")
    assert load(port=82).port == 82


def test_every_setting_explains_itself_and_the_page_is_up_to_date() -> None:
    assert all(info.description for info in Settings.model_fields.values())
    assert table().count("\n") == len(Settings.model_fields) + 1
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    assert table() in page.read_text(), "run: make docs"


def test_secrets_do_not_show_in_a_representation() -> None:
    assert "hunter2" not in repr(load(github_webhook_secret="hunter2", model_api_key="hunter2"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("SELFHEAL_WORKERS_JOBS", "did you mean SELFHEAL_WORKER_JOBS?"),
        ("SELFHEAL_XYZ", "docs/configuration.md lists all settings"),
    ],
)
def test_a_name_that_is_no_setting_is_one_line_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, hint: str
) -> None:
    (tmp_path / "mine").write_text(f"{name}=3\nOTHER=1\n")
    with pytest.raises(SettingsError) as error:
        load(env_file=str(tmp_path / "mine"))
    assert str(error.value) == f"{name} is not a setting; {hint}"
    monkeypatch.setenv(name, "3")
    with pytest.raises(SettingsError, match=f"^{name} is not a setting"):
        load()


def test_names_that_tests_and_checks_read_are_no_typing_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SELFHEAL_TEST_DATA", "SELFHEAL_GUEST", "SELFHEAL_COMMAND"):
        monkeypatch.setenv(name, "x")
    load()


def test_a_file_of_settings_is_read_when_it_is_named_and_only_then(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SELFHEAL_PORT=81\n")
    monkeypatch.chdir(tmp_path)
    assert load().port == 8000
    assert load(env_file=".env").port == 81


def test_the_key_in_its_file_is_a_secret_too(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("-----BEGIN KEY-----")
    settings = load(github_private_key_file=tmp_path / "key.pem", model_api_key="hunter2")
    assert settings.secrets == ("-----BEGIN KEY-----", "hunter2")
    assert load(github_private_key_file=tmp_path / "none.pem").secrets == ()


def test_names_in_a_file_that_nobody_reads_are_told(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("GITHUB_APP_ID=1\nANTHROPIC_API_KEY=x\nPOSTGRES_PASSWORD=y\nSELFHEAL_MODEL=none\n")
    assert load(env_file=str(file)).model == "none"
    told = dict(unread_names(str(file)))
    assert told.keys() == {"GITHUB_APP_ID", "ANTHROPIC_API_KEY"}
    assert "SELFHEAL_GITHUB_APP_ID" in told["GITHUB_APP_ID"]


def test_a_mistyped_prefix_and_a_wrong_value_are_told_together(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("SELFHEEL_MODEL=none\nSELFHEAL_PORT=x\n")
    with pytest.raises(SettingsError) as refusal:
        load(env_file=str(file))
    assert "did you mean SELFHEAL_MODEL?" in str(refusal.value)
    assert "SELFHEAL_PORT" in str(refusal.value)


def test_a_file_that_is_no_text_is_told_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_bytes(b"\xff\xfe\x00SELFHEAL")
    with pytest.raises(SettingsError, match="cannot be read"):
        load(env_file=str(file))


@pytest.mark.parametrize(
    "url",
    ["http://ghe.corp/api/v3", "https://user@ghe.corp/api/v3", "https://a:b@ghe.corp", "https://ghe.corp/api?x=1", "https://ghe.corp/#a",
     "http://127.0.0.1.evil.example", "http://localhost.evil.example", "http://127.0.0.1@evil.example", "http://2130706433",
     "https://", "https:///api", "https://ghe corp/a", "https://ghe.corp\\.evil.example", "https://ghe.corp/a\nb", "https://ghe.corp:x",
     "https://ghe.corp:70000", "https://[ghe", "https://ghe.corp?", "https://ghe.corp/#"],
)  # fmt: skip
def test_github_is_reached_by_https_only_and_without_a_password(url: str) -> None:
    with pytest.raises(SettingsError, match=r"SELFHEAL_GITHUB_API_URL.*must"):
        load(github_api_url=url)


@pytest.mark.parametrize(
    "url", ["https://ghe.corp/api/v3", "http://127.0.0.1:3000", "http://LOCALHOST:3000/api", "http://[::1]:80"]
)
def test_a_server_of_this_machine_needs_no_https(url: str) -> None:
    assert load(github_api_url=url).github_api_url == url


@pytest.mark.parametrize("url", ["https://ann:hunter2@ghe.corp", "ann:hunter2@ghe.corp", "https://ghe.corp/?token=hunter2"])
def test_a_password_in_a_url_is_not_shown(url: str) -> None:
    with pytest.raises(SettingsError, match="SELFHEAL_GITHUB_API_URL must") as refusal:
        load(github_api_url=url)
    assert "hunter2" not in str(refusal.value)
