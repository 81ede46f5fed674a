"""The files that deploy Selfheal, held against the schemas of those who read them, and against the product."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from app.github.types import PUBLISHING, READING
from app.settings import PREFIX, Settings
from tests.judges.node import judge_or_skip
from webhooks.triggers import decide

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "deploy" / "compose.yaml"
MANIFEST = json.loads((ROOT / "deploy" / "github-app-manifest.json").read_text())


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return read


def fly() -> dict[str, Any]:
    return tomllib.loads((ROOT / "fly.toml").read_text())


def problems_of_compose(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_compose_file_is_what_its_specification_says(tmp_path: Path) -> None:
    assert problems_of_compose(COMPOSE) == ""
    broken = compose()
    broken["services"]["web"]["prots"] = []
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(broken))
    assert "prots" in problems_of_compose(tmp_path / "compose.yaml")


def test_fly_toml_is_what_flys_schema_says() -> None:
    judge = judge_or_skip("fly")
    assert judge.answer("shape.mjs", fly()) == []
    broken = copy.deepcopy(fly())
    broken["http_service"]["auto_stop_machines"] = "never"
    assert "never" in str(judge.answer("shape.mjs", broken))


@pytest.mark.parametrize("service", ["web", "worker"])
def test_what_the_containers_are_told_are_settings(service: str) -> None:
    told = compose()["services"][service]["environment"]
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    assert set(told) <= known
    assert set(fly()["env"]) <= known


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
    assert not {name for name in services["web"]["environment"] if "PRIVATE_KEY" in name}
    assert not {name for name in services["worker"]["environment"] if "WEBHOOK" in name}


def test_only_this_machine_reaches_the_ports_and_nobody_the_databases() -> None:
    services = compose()["services"]
    assert all(port.startswith("127.0.0.1:") for port in services["web"]["ports"])
    for name in ("postgres", "redis"):
        assert "ports" not in services[name]
        assert services[name]["networks"] == ["kept"]
    assert compose()["networks"]["kept"]["internal"] is True


def test_every_secret_must_be_chosen() -> None:
    text = COMPOSE.read_text()
    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "SELFHEAL_GITHUB_WEBHOOK_SECRET"):
        uses = re.findall(r"\$\{" + name + r"(.)", text)
        assert uses
        assert set(uses) == {":"}, "each use says what to do where it is missing"


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
    text = (ROOT / "deploy" / "README.md").read_text()
    (link,) = re.findall(r"^https://github\.com/settings/apps/new\?\S+$", text, re.MULTILINE)
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
    from app.cli import app

    known = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    commands = {*fly()["processes"].values(), fly()["deploy"]["release_command"]}
    commands |= {compose()["services"][name]["command"][0] for name in ("web", "worker")}
    commands.add(compose()["services"]["worker"]["healthcheck"]["test"][1 + 1])
    assert commands <= known
