"""Which runtime of another language ran, and in the place of which."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agent.ci.job.actions import meaning_of
from agent.ci.project import runtimes
from agent.contract.verdicts import Check
from tests.sandbox.conftest import make, tarball


@pytest.mark.parametrize(
    ("wanted", "version", "is_told"),
    [
        ("18", "20.20.2", True), ("20", "20.20.2", False), ("20.x", "20.20.2", False), ("v20.20", "20.20.2", False),
        ("2", "20.20.2", True), ("20.20.20", "20.20.2", True), ("lts/*", "20.20.2", False), (">=18", "20.20.2", False),
        ("18", "", True), ("lts/*", "", True),
    ],
)  # fmt: skip
def test_another_version_is_told(wanted: str, version: str, is_told: bool) -> None:
    notes = runtimes.version_notes({"Node.js": wanted}, {"Node.js": version})
    assert bool(notes) is is_told
    assert all(wanted in note and "Node.js" in note for note in notes)


@pytest.mark.parametrize(
    ("uses", "inputs", "runtime"),
    [
        ("actions/setup-node@v4", {"node-version": "18"}, ("Node.js", "18")),
        ("actions/setup-go@v5", {"go-version": "1.21"}, ("Go", "1.21")),
        ("actions/setup-java@v4", {"java-version": "21", "distribution": "temurin"}, ("Java", "21")),
        ("dtolnay/rust-toolchain@1.70", {}, ("Rust", "1.70")),
        ("dtolnay/rust-toolchain@stable", {}, None),
        ("actions-rs/toolchain@v1", {"toolchain": "1.60.0"}, ("Rust", "1.60.0")),
        ("actions/setup-node@v4", {}, None),
        ("actions/setup-python@v5", {"python-version": "3.12"}, None),
    ],
)
def test_what_an_action_asks_for(uses: str, inputs: dict[str, str], runtime: tuple[str, str] | None) -> None:
    assert meaning_of(uses, inputs).runtime == runtime


def test_what_a_check_calls_is_needed() -> None:
    assert runtimes.needed((Check("tests", "npm test", "javascript"),), {}) == ("Node.js",)
    assert runtimes.needed((Check("tests", "pytest tests/node_test.py", "pytest"),), {}) == ()
    assert runtimes.needed((Check("tests", "make build && cargo test", "exit"),), {"Go": "1.21"}) == ("Go", "Rust")


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("v20.20.2 ", "20.20.2"), ("go version go1.22.1 linux/amd64", "1.22.1"),
        ("rustc 1.70.0 (90c541806 2023-05-31)", "1.70.0"),
        ('openjdk version "17.0.9" 2023-10-17', "17.0.9"),
        ("sh: 1: go: not found", ""), ("/bin/sh: line 2: rustc: not found", ""),
    ],
)  # fmt: skip
def test_versions_are_read_from_what_the_programs_say(line: str, version: str) -> None:
    assert runtimes._version(line) == version


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
async def test_the_sandbox_is_asked(tmp_path: Path) -> None:
    async with make("process", tmp_path).open("runtimes") as sandbox:
        await sandbox.unpack(tarball({"a": b""}))
        found = await runtimes.versions(sandbox.base, ("Node.js", "Go"))
    assert found.keys() == {"Node.js", "Go"}
    assert found["Node.js"].count(".") == 2


def test_a_missing_runtime_ends_only_what_cannot_run_without_it() -> None:
    tests, build = Check("tests", "python -m pytest", "pytest"), Check("build", "npm run build", "exit")
    assert runtimes.without((build, tests), {"Node.js": ""}, {}, {}, "local") is None
    assert runtimes.without((Check("tests", "npm test", "javascript"),), {"Node.js": "20.1.0"}, {}, {}, "local") is None
    texts = {"package.json": '{"engines": {"node": ">=22"}}'}
    ending = runtimes.without((build, Check("tests", "npm test", "exit")), {"Node.js": ""}, {}, texts, "docker")
    assert ending is not None
    assert "Node.js >=22" in ending.reason
    assert "SELFHEAL_SANDBOX_IMAGE" in ending.next_step
    asked = runtimes.missing("Java", {"Java": "21"}, {"pom.xml": "<java.version>17</java.version>"}, "e2b")
    assert "Java 21" in asked.reason
    assert "deploy.e2b.build" in asked.next_step


@pytest.mark.parametrize(
    ("wanted", "engines", "there", "version"),
    [
        ("26", ">=22", "20.20.2", "26"), ("20", ">=22", "20.20.2", ""), ("18.x", "", "20.20.2", "18"),
        ("v20.1", "", "20.20.2", "20.1"),
        ("latest", ">=22", "20.20.2", "22"), ("", "^20.9 || 22.x", "18.1.0", "20"), ("lts/*", ">=22", "22.1.0", ""),
        ("", "^12.17.0 || ^14.13 || >=16.0.0", "20.20.2", ""), ("", "", "20.20.2", ""), ("", "*", "8.0.0", ""),
    ],
)  # fmt: skip
def test_the_version_of_node_that_a_job_or_a_manifest_asks_for(wanted: str, engines: str, there: str, version: str) -> None:
    texts = {"package.json": json.dumps({"engines": {"node": engines}})}
    assert runtimes.node_version({"Node.js": wanted} if wanted else {}, texts, there) == version
