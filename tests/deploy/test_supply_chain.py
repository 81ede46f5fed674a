"""What the project is built from is named exactly, looked through and attested; its workflows may do no more than they need."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DIGEST = "sha256:" + "0123456789abcdef" * 4


def jobs(workflow: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The permissions that each job has, and the job."""
    read = yaml.safe_load(workflow.read_text())
    for job in read["jobs"].values():
        yield job.get("permissions", read["permissions"]), job


def steps() -> Iterator[dict[str, Any]]:
    return (step for workflow in WORKFLOWS for _, job in jobs(workflow) for step in job["steps"])


def test_actions_are_named_by_commit() -> None:
    used = {step["uses"] for step in steps() if "uses" in step}
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", name)] == []


def test_only_what_publishes_may_write() -> None:
    writing = {"image.yml": {"packages"}, "pin-images.yml": {"contents", "pull-requests"}}
    for workflow in WORKFLOWS:
        assert "pull_request_target" not in workflow.read_text()
        for permissions, _ in jobs(workflow):
            written = {name for name, access in permissions.items() if access != "read"}
            assert written == writing.get(workflow.name, set()), workflow.name


def test_no_workflow_puts_foreign_text_into_a_script() -> None:
    """A branch's or a pull request's name could be a command."""
    assert [step["run"] for step in steps() if "${{" in re.sub(r"\$\{\{ matrix\.python \}\}", "", step.get("run", ""))] == []


def test_a_released_image_has_its_bill_of_materials_and_its_provenance() -> None:
    (build,) = [step["with"] for step in steps() if step.get("uses", "").startswith("docker/build-push-action@")]
    assert (build["sbom"], build["provenance"], build["push"]) == (True, "mode=max", True)


def test_every_lock_is_audited_and_every_change_is_scanned_for_secrets() -> None:
    text = (ROOT / ".github" / "workflows" / "audit.yml").read_text()
    assert {path.name for path in ROOT.glob("requirements*.lock")} == set(re.findall(r"requirements[\w-]*\.lock", text))
    assert "detect-secrets-hook" in text
    assert "pull_request" in yaml.safe_load(text)[True], "YAML reads `on` so"


def test_both_stages_of_the_image_start_from_the_same() -> None:
    images = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(images) == 2
    assert len(set(images)) == 1


IMAGE_FILES = ("Dockerfile", "deploy/bench/Dockerfile", "deploy/compose.yaml")


def test_the_workflow_pins_every_file_that_names_images() -> None:
    text = (ROOT / ".github" / "workflows" / "pin-images.yml").read_text()
    assert f"deploy/pin_images.py {' '.join(IMAGE_FILES)}" in text


def pin(folder: Path, answer: str) -> subprocess.CompletedProcess[str]:
    """The script on copies of the project's files, with a `docker` that gives this answer."""
    (folder / "docker").write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n{answer}\n')
    (folder / "docker").chmod(0o755)
    copies = [folder / name.replace("/", "-") for name in IMAGE_FILES]
    for name, copy in zip(IMAGE_FILES, copies, strict=True):
        copy.write_text((ROOT / name).read_text())
    command = [sys.executable, str(ROOT / "deploy" / "pin_images.py"), *map(str, copies)]
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)


def test_every_image_is_pinned_to_what_its_registry_tells(tmp_path: Path) -> None:
    done = pin(tmp_path, f"echo {DIGEST}")
    assert done.returncode == 0, done.stderr
    texts = [(tmp_path / name).read_text() for name in ("Dockerfile", "deploy-bench-Dockerfile")]
    stages = [name for text in texts for name in re.findall(r"^FROM (\S+)", text, re.MULTILINE) if not name.startswith("$")]
    services = yaml.safe_load((tmp_path / "deploy-compose.yaml").read_text())["services"]
    images = [*stages, *(service["image"] for service in services.values() if not service["image"].startswith("$"))]
    assert len(images) >= 7
    assert [name for name in images if not name.endswith(f"@{DIGEST}")] == []
    assert len((tmp_path / "asked").read_text().splitlines()) == len({name.partition("@")[0] for name in images})


@pytest.mark.parametrize("answer", ["echo no such image >&2; exit 1", "echo sha256:short", "true"])
def test_without_an_answer_nothing_is_pinned(tmp_path: Path, answer: str) -> None:
    done = pin(tmp_path, answer)
    assert done.returncode != 0
    assert "no digest" in done.stderr
    assert (tmp_path / "Dockerfile").read_text() == (ROOT / "Dockerfile").read_text()
