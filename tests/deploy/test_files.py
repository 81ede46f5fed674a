"""The files that deploy Selfheal, held against the schemas of those who read them, and against the product."""

from __future__ import annotations

import copy
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from app.github.types import PUBLISHING, READING
from app.settings import PREFIX, Settings, SettingsError, load
from tests.deploy.composing import COMPOSE, LEAST, Missing, compose, environment, filled_in
from tests.judges.node import judge_or_skip
from webhooks.triggers import decide

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "deploy" / "README.md").read_text()
MANIFEST = json.loads((ROOT / "deploy" / "github-app-manifest.json").read_text())

SETTINGS = {PREFIX + name.upper() for name in Settings.model_fields}

# What deploy/.env may say and a container is not told: what its own shape decides, and secrets that are for others.
SHAPE = {
    PREFIX + name
    for name in ("DATA_DIR", "HOST", "PORT", "PAGES_HOST", "PAGES_PORT", "PAGES_WITHOUT_SIGN_IN", "GITHUB_PRIVATE_KEY_FILE")
}
KEPT_FROM = {
    "web": {PREFIX + name for name in ("GITHUB_PRIVATE_KEY", "MODEL_API_KEY", "E2B_API_KEY")} | {"E2B_API_KEY"},
    "worker": {PREFIX + name for name in ("GITHUB_WEBHOOK_SECRET", "GITHUB_WEBHOOK_SECRET_PREVIOUS")},
}
PASSWORDS = {"POSTGRES_PASSWORD", "REDIS_PASSWORD"}


def fly() -> dict[str, Any]:
    return tomllib.loads((ROOT / "fly.toml").read_text())


def problems_of_compose(path: Path) -> str:
    return problems("compose-spec", path)


def problems(schema: str, *paths: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.long
def test_what_github_reads_of_this_repository_is_what_its_schemas_say(tmp_path: Path) -> None:
    github = ROOT / ".github"
    workflows, forms = sorted(github.glob("workflows/*.yml")), sorted(github.glob("ISSUE_TEMPLATE/[!c]*.yml"))
    assert len(workflows) >= 2
    assert len(forms) >= 2
    assert problems("github-workflows", *workflows) == ""
    assert problems("github-issue-forms", *forms) == ""
    assert problems("github-issue-config", github / "ISSUE_TEMPLATE" / "config.yml") == ""
    assert problems("dependabot", github / "dependabot.yml") == ""
    broken = tmp_path / "ci.yml"
    broken.write_text(workflows[0].read_text().replace("runs-on:", "run-on:"))
    assert "run-on" in problems("github-workflows", broken)


def test_the_compose_file_is_what_its_specification_says(tmp_path: Path) -> None:
    assert problems_of_compose(COMPOSE) == ""
    broken = compose()
    broken["services"]["web"]["prots"] = []
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(broken))
    assert "prots" in problems_of_compose(tmp_path / "compose.yaml")


@pytest.mark.long
def test_fly_toml_is_what_flys_schema_says() -> None:
    judge = judge_or_skip("fly")
    assert judge.answer("shape.mjs", fly()) == []
    broken = copy.deepcopy(fly())
    broken["http_service"]["auto_stop_machines"] = "never"
    assert "never" in str(judge.answer("shape.mjs", broken))


@pytest.mark.parametrize("service", ["web", "worker"])
def test_what_is_in_the_env_file_reaches_the_containers(service: str) -> None:
    others = ("E2B_API_KEY", "ANTHROPIC_API_KEY", "OTEL_SERVICE_NAME", *PASSWORDS)
    written = {name: f"told{number}told" for number, name in enumerate((*sorted(SETTINGS), *others))}
    told = environment(service, written)
    changed = {name for name, value in written.items() if value not in told[name]}
    assert changed == SHAPE | KEPT_FROM[service] | PASSWORDS
    secrets = {written[name] for name in KEPT_FROM[service] | PASSWORDS}
    assert not [name for name, value in told.items() if any(secret in value for secret in secrets)]
    # Of what the containers' shape decides, the ports and the key's place are this machine's to say.
    ports = [filled_in(port, written) for port in compose()["services"]["web"]["ports"]]
    assert ports == [f"127.0.0.1:{written[PREFIX + name]}:{inside}" for name, inside in (("PORT", 8000), ("PAGES_PORT", 8001))]
    key = compose()["secrets"]["github_private_key"]["file"]
    assert filled_in(key, written) == written[f"{PREFIX}GITHUB_PRIVATE_KEY_FILE"]


@pytest.mark.parametrize("service", ["web", "worker"])
def test_the_least_that_must_be_written_is_understood(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(service, LEAST | {"TOOLS": "npm", "DOMAIN": "a.example", "COMPOSE_PROFILES": "tls"}).items():
        monkeypatch.setenv(name, value)
    settings = load()
    assert settings.database == "postgresql://selfheal:letters1@postgres/selfheal"
    assert settings.redis_url is not None
    assert settings.redis_url.get_secret_value() == "redis://:letters2@redis:6379/0"
    assert settings.pages_names == ("web",)
    assert (settings.github_webhook_secret is None) == (service == "worker")
    assert (settings.github_private_key_file is None) == (service == "web")


@pytest.mark.parametrize("service", ["web", "worker"])
def test_a_mistyped_name_in_the_env_file_keeps_the_containers_from_starting(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(service, LEAST | {"SELFHEAL_MAX_COSTS": "5"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match="SELFHEAL_MAX_COSTS is not a setting; did you mean SELFHEAL_MAX_COST"):
        load()


@pytest.mark.parametrize("name", LEAST)
def test_what_must_be_written_is_asked_for(name: str) -> None:
    written = {other: value for other, value in LEAST.items() if other != name}
    with pytest.raises(Missing, match=f"{name}.*set it in deploy/.env"):
        environment("web", written)


def test_what_looks_like_a_setting_is_one() -> None:
    for text in (COMPOSE.read_text(), GUIDE, (ROOT / "fly.toml").read_text()):
        assert set(re.findall(rf"{PREFIX}[A-Z0-9_]*[A-Z0-9]", text)) <= SETTINGS
    assert set(fly()["env"]) <= SETTINGS


@pytest.mark.long
def test_pages_at_fly_are_told_in_what_fly_and_selfheal_understand(monkeypatch: pytest.MonkeyPatch) -> None:
    (written,) = re.findall(r"<!-- pages at fly: begin[^\n]*\n```toml\n(.*?)```", GUIDE, re.DOTALL)
    added = tomllib.loads(written)
    for name, value in added["env"].items():
        monkeypatch.setenv(name, value)
    settings = load()
    assert settings.pages_without_sign_in
    assert [metrics["port"] for metrics in added["metrics"]] == [settings.pages_port]
    assert set(settings.pages_names) >= set(re.findall(r"[\w.]+\.internal", GUIDE)), "a name by which the guide asks for pages"
    assert "8001" not in (ROOT / "fly.toml").read_text(), "no service of Fly's leads from the internet to the pages"
    together = {**fly(), **added, "env": {**fly()["env"], **added["env"]}}
    assert judge_or_skip("fly").answer("shape.mjs", together) == []


def test_caddy_asks_for_the_domain_that_it_does_not_know(tmp_path: Path) -> None:
    caddy = compose()["services"]["caddy"]
    (tmp_path / "caddy").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "caddy").chmod(0o755)

    def started(env_file: dict[str, str]) -> subprocess.CompletedProcess[str]:
        told = {name: filled_in(value, env_file) for name, value in caddy["environment"].items()}
        command = [filled_in(part, env_file) for part in caddy["command"]]
        path = f"{tmp_path}:/usr/bin:/bin"
        return subprocess.run(command, env={**told, "PATH": path}, capture_output=True, text=True, timeout=30)

    assert started({"DOMAIN": "a.example"}).stdout.split() == ["reverse-proxy", "--from", "a.example", "--to", "web:8000"]
    refused = started({})
    assert refused.returncode != 0
    assert "DOMAIN: set it in deploy/.env" in refused.stderr


def test_containers_are_confined_but_for_what_bubblewrap_needs() -> None:
    services = compose()["services"]
    for name in ("web", "worker"):
        service = services[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "privileged" not in service
        assert "cap_add" not in service
        assert "no-new-privileges:true" in service["security_opt"]
    assert services["web"]["security_opt"] == ["no-new-privileges:true"]
    assert set(services["worker"]["security_opt"]) == {
        "no-new-privileges:true",
        "seccomp=seccomp.json",
        "apparmor=unconfined",
        "systempaths=unconfined",
    }
    # The web process holds no key that acts for the App, and the worker none that signs webhooks.
    assert "secrets" not in services["web"]
    assert services["worker"]["environment"].keys() >= KEPT_FROM["worker"]


def test_only_this_machine_reaches_the_ports_and_nobody_the_databases() -> None:
    services = compose()["services"]
    assert all(port.startswith("127.0.0.1:") for port in services["web"]["ports"])
    for name in ("postgres", "redis"):
        assert "ports" not in services[name]
        assert services[name]["networks"] == ["kept"]
    assert compose()["networks"]["kept"]["internal"] is True


def test_the_profile_of_system_calls_allows_what_makes_a_sandbox() -> None:
    profile = json.loads((ROOT / "deploy" / "seccomp.json").read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO", "what is not named is refused"
    allowed = {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert {"clone", "unshare", "mount", "umount2", "pivot_root", "setns", "sethostname", "seccomp"} <= allowed
    assert not allowed & {"keyctl", "bpf", "ptrace", "io_uring_setup", "userfaultfd", "kexec_load", "init_module", "open_tree"}


def test_the_app_asks_for_exactly_what_the_tokens_need() -> None:
    """Rerunning failed jobs needs more, and is off unless somebody turns it on."""
    needed: dict[str, str] = {}
    for wanted in (READING, PUBLISHING):
        for name, access in wanted.items():
            needed[name] = "write" if "write" in (access, needed.get(name)) else "read"
    assert MANIFEST["default_permissions"] == needed


def test_the_link_makes_the_app_of_the_manifest() -> None:
    (link,) = re.findall(r"^https://github\.com/settings/apps/new\?\S+$", GUIDE, re.MULTILINE)
    told = parse_qs(urlsplit(link).query)
    assert told.pop("events[]") == MANIFEST["default_events"]
    about = {name: told.pop(name) for name in ("name", "url", "webhook_url", "webhook_active", "public")}
    assert about["webhook_url"] == [MANIFEST["hook_attributes"]["url"]]
    assert about["public"] == ["false"]
    assert {name: access for name, (access,) in told.items()} == MANIFEST["default_permissions"]


def test_the_app_hears_of_what_is_decided_on_and_of_nothing_else() -> None:
    source = Path(decide.__code__.co_filename).read_text()
    # GitHub tells every App of its installations, and pings it, without being asked.
    unasked = {"installation", "installation_repositories", "ping"}
    assert set(MANIFEST["default_events"]) == set(re.findall(r'case "([a-z_]+)":', source)) - unasked


def test_the_image_starts_commands_that_there_are() -> None:
    commands = {*fly()["processes"].values(), fly()["deploy"]["release_command"]}
    commands |= {compose()["services"][name]["command"][0] for name in ("web", "worker")}
    commands.add(compose()["services"]["worker"]["healthcheck"]["test"][1 + 1])
    commands |= set(re.findall(r'--command "selfheal (\w+)"', GUIDE))
    assert commands <= known_commands()
    entry_points = re.findall(r"^ENTRYPOINT (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert entry_points == ['["selfheal"]'], "what stands after a service's name in `docker compose run` is one of its commands"


def known_commands() -> set[str]:
    from app.cli.main import app

    groups = {group.name or group.typer_instance.info.name for group in app.registered_groups}
    commands = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    return commands | {name for name in groups if isinstance(name, str)}


def test_the_guide_names_services_profiles_and_commands_that_there_are() -> None:
    services = compose()["services"]
    profiles = {profile for service in services.values() for profile in service.get("profiles", ())}
    named = re.findall(r"COMPOSE_PROFILES=([\w,]+)", GUIDE + COMPOSE.read_text()) + re.findall(r"--profile (\w+)", GUIDE)
    assert {profile for names in named for profile in names.split(",")} == profiles
    assert set(re.findall(r"--scale (\w+)=", GUIDE)) <= set(services)

    lines = re.findall(r"docker compose -f deploy/compose\.yaml ([^`\n]+)", GUIDE)
    assert len(lines) == len(re.findall(r"docker compose ", GUIDE)), "each says which file"
    seen = set()
    for line in lines:
        words = shlex.split(re.split(r" [<>] ", line)[0])
        verb, *rest = [word for word in words if not word.startswith("-")] if words[0] != "exec" else words
        seen.add(verb)
        match verb:
            case "run":
                assert rest[0] in services
                assert rest[1] in known_commands()
            case "exec":
                service, *command = [word for word in rest if word != "-T"]
                assert service in services
                assert command[0] != "selfheal" or command[1] in known_commands()
            case _:
                assert verb in {"build", "logs", "ps", "stop", "up"}
                assert set(rest) <= set(services), line
    assert {"run", "exec", "logs", "up"} <= seen
    # A worker whose isolation is not proven does not stay up, so it is looked at before.
    assert GUIDE.index("run --rm worker doctor") < GUIDE.index("compose.yaml up -d")
