"""From a checkout's files to a task: missing runtimes, another job where the replay of the first one is refused, and what the
sandbox cannot have, with real installs from an index on loopback.
"""

from __future__ import annotations

import json
import platform
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from agent.case import Case, Prepared, Uninstalled
from agent.checks.runner import Runner
from agent.ci.job.selection import AnyJob
from agent.ci.project import runtimes
from agent.contract.budget import Budget
from agent.contract.events import AnyEvent
from agent.contract.outcome import NoRepair, Outcome
from agent.contract.task import Policy
from agent.contract.verdicts import Verdict
from agent.preparing import prepare
from app.cli.checkout import checkout
from sandbox.install.node import npm
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.local import LocalSandboxes
from sandbox.process import ProcessSandboxes
from tests.sandbox.conftest import packed, tarball
from tests.sandbox.index import Index, serving
from tests.standins.npm import NpmRegistry
from tests.standins.npm import serving as serving_npm

PASSES = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        pass\n"
# Each with a test for `go test` and the like; the first one that this machine has only outside /usr, or not at all, is tried.
LANGUAGES = {
    "Go": ("go", {"go.mod": "module example.com/a\n\ngo 1.21\n", "a_test.go": "package a\n"}, "1.21", "golang-go"),
    "Rust": ("cargo", {"Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\nrust-version = "1.70"\n'}, "1.70", "cargo"),
}


async def emit(event: AnyEvent) -> None:
    pass


async def prepared(
    files: Mapping[str, str], tmp_path: Path, *, job: AnyJob | None = None, command: str | None = None
) -> Prepared | Uninstalled | NoRepair:
    repository = tmp_path / "repository"
    for name, text in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(dedent(text))
    store = PackageStore(tmp_path / "packages", await configured())

    case = Case("one", "one", checkout.packed(repository), jobs=() if job is None else (job,), command=command)
    async with LocalSandboxes(tmp_path / "open", store).open("one") as sandbox:
        return await prepare(case, sandbox, emit, policy=Policy(), budget=Budget(seconds=120.0))


async def test_a_missing_runtime_is_named_with_its_version_and_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    name = next((name for name, (program, *_) in LANGUAGES.items() if shutil.which(program) is None), None)
    if name is None:
        pytest.skip("this machine has all the runtimes in /usr/bin")
    program, files, version, package = LANGUAGES[name]
    ended = await prepared(files, tmp_path)
    assert isinstance(ended, NoRepair)
    assert ended.outcome is Outcome.INFRASTRUCTURE
    assert ended.reason == f"The tests need {name} {version}, but the sandbox has no program `{program}`."
    assert f"to install {name} {version} for the sandbox" in ended.next_step
    assert f"apt-get install {package}" in ended.next_step


WORKFLOW = """
    on: push
    jobs:
      tests:
        runs-on: ubuntu-latest
        steps: [{uses: actions/checkout@v5}, {run: SCRIPT}]
    """


async def test_where_a_replay_is_refused_the_next_job_is_tried(tmp_path: Path) -> None:
    files = {
        ".github/workflows/a.yml": WORKFLOW.replace("SCRIPT", "nosuchtool test"),
        ".github/workflows/b.yml": WORKFLOW.replace("SCRIPT", "sh run/tests"),
        "run/tests": "python -m unittest\n",
        "test_it.py": PASSES,
    }
    found = await prepared(files, tmp_path, job=AnyJob())
    assert isinstance(found, Prepared), found
    assert [check.command for check in found.task.checks] == ["sh run/tests"]
    passed = [note for note in found.task.approximated if note.startswith("passed over: ")]
    reason = "the step `Run nosuchtool test` fails here without the program nosuchtool, which CI has"
    assert passed == [f"passed over: tests of a.yml ({reason})"]


async def test_a_job_that_needs_a_browser_is_passed_over(tmp_path: Path) -> None:
    fails = 'echo "browserType.launch: Executable doesn\'t exist at /tmp/.cache/ms-playwright/webkit-1/run"\nexit 1\n'
    files = {
        ".github/workflows/a.yml": WORKFLOW.replace("SCRIPT", "sh all/tests"),
        ".github/workflows/b.yml": WORKFLOW.replace("SCRIPT", "sh run/tests"),
        "all/tests": fails,
        "run/tests": "python -m unittest\n",
        "test_it.py": PASSES,
    }
    found = await prepared(files, tmp_path, job=AnyJob())
    assert isinstance(found, Prepared), found
    assert [check.command for check in found.task.checks] == ["sh run/tests"]
    assert any("fails here without a browser, which CI has" in note for note in found.task.approximated)


async def test_where_every_job_is_refused_the_first_refusal_is_the_ending(tmp_path: Path) -> None:
    files = {
        ".github/workflows/a.yml": WORKFLOW.replace("SCRIPT", "nosuchtool test"),
        ".github/workflows/b.yml": WORKFLOW.replace("SCRIPT", "nosuchprogram test"),
    }
    ended = await prepared(files, tmp_path, job=AnyJob())
    assert isinstance(ended, NoRepair)
    assert "the program nosuchtool" in ended.reason
    assert ended.next_step.startswith(
        "Ask the operator of Selfheal to install the program nosuchtool for the sandbox, or set `test:`"
    )


async def test_without_the_program_that_runs_the_tests_in_every_job_the_detected_tests_are_run(tmp_path: Path) -> None:
    files = {
        ".github/workflows/a.yml": WORKFLOW.replace("SCRIPT", "just tests"),
        "justfile": "tests *args:\n    pytest {{ if a == b { c } else { d } }}\n",
        "test_it.py": PASSES,
    }
    found = await prepared(files, tmp_path, job=AnyJob())
    assert isinstance(found, Prepared), found
    assert [(check.command, check.source) for check in found.task.checks] == [("python -m unittest discover", "detected")]
    assert any("fails here without the program just, which CI has" in note for note in found.task.approximated)


@pytest.mark.parametrize("seconds", [pytest.param(600.0, marks=pytest.mark.long), 0.0])
async def test_after_half_of_the_time_nothing_more_is_left_out(index: Index, tmp_path: Path, seconds: float) -> None:
    files = {"requirements-dev.txt": b"nosuch-of-mine\n", "test_it.py": PASSES.encode()}
    sandboxes = ProcessSandboxes(tmp_path / "open", PackageStore(tmp_path / "packages", index.access))
    async with sandboxes.open("case") as sandbox:
        case = Case("case", "sample", tarball(files))
        found = await prepare(case, sandbox, emit, policy=Policy(), budget=Budget(seconds=seconds))
    assert isinstance(found, Prepared) == (seconds > 0), found


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n".format("a" * 64)


@pytest.mark.long
async def test_files_of_git_lfs_without_their_content_are_named(tmp_path: Path) -> None:
    files = {"test_it.py": PASSES, ".gitattributes": "*.bin filter=lfs diff=lfs\n", "data/a b.bin": POINTER, "c.txt": "c\n"}
    found = await prepared(files, tmp_path / "one", command="python -m unittest")
    assert isinstance(found, Prepared), found
    (note,) = [note for note in found.task.approximated if "LFS" in note]
    assert "for data/a b.bin, so tests" in note
    assert "`git lfs pull`" in note
    found = await prepared({**files, "data/a b.bin": "content"}, tmp_path / "two", command="python -m unittest")
    assert isinstance(found, Prepared), found
    assert not [note for note in found.task.approximated if "LFS" in note]


PYPROJECT = b"""
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "mine"
version = "1.0"
dependencies = []
[project.optional-dependencies]
test = ["answering", "nosuch-of-mine", "from-git @ git+https://git.invalid/from-git"]
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    with serving(tmp_path / "index") as made:
        monkeypatch.setenv("PIP_INDEX_URL", made.url)
        yield made


@pytest.mark.long
async def test_a_test_dependency_that_cannot_be_had_and_an_absent_submodule_cost_only_their_tests(
    index: Index, tmp_path: Path
) -> None:
    index.add_wheel("answering")
    files = {
        "pyproject.toml": PYPROJECT,
        "backend.py": index.backend("mine", tmp_path / "executed", "Provides-Extra: test\\nRequires-Dist: answering; "
            "extra == 'test'\\nRequires-Dist: nosuch-of-mine; extra == 'test'\\n"
            "Requires-Dist: from-git @ git+https://git.invalid/from-git ; extra == 'test'\\n"),
        ".gitmodules": b'[submodule "data"]\n\tpath = vendor/data\n\turl = https://example.invalid/data.git\n',
        "test_it.py": b"""
import unittest
class Tests(unittest.TestCase):
    def test_has(self):
        import answering
        self.assertEqual(answering.answer, 42)
    def test_lacks_a_package(self):
        import nosuch_of_mine
    def test_lacks_a_package_from_git(self):
        import from_git
    def test_lacks_a_submodule(self):
        open("vendor/data/cases.txt")
    def test_lacks_something_else(self):
        open("cases.txt")
""",
    }  # fmt: skip

    sandboxes = ProcessSandboxes(tmp_path / "open", PackageStore(tmp_path / "packages", index.access))
    async with sandboxes.open("case") as sandbox:
        case = Case("case", "sample", tarball(files))
        prepared = await prepare(case, sandbox, emit, policy=Policy(), budget=Budget())
        assert isinstance(prepared, Prepared), prepared
        (check,) = prepared.task.checks
        async with sandbox.candidate() as workspace:
            run = await Runner(sandbox).run(workspace, check)
    assert {name.rpartition(".")[2]: verdict for name, verdict in run.verdicts.items()} == {
        "test_has": Verdict.PASSED,
        "test_lacks_a_package": Verdict.SKIPPED,
        "test_lacks_a_package_from_git": Verdict.SKIPPED,
        "test_lacks_a_submodule": Verdict.SKIPPED,
        "test_lacks_something_else": Verdict.FAILED,
    }
    notes = "\n".join(prepared.task.approximated)
    assert "`nosuch-of-mine` cannot be installed here, so tests that import it are skipped: Because nosuch-of-mine was" in notes
    assert notes.count("the submodule vendor/data is not here") == notes.count("git submodule update") == 1
    assert prepared.task.packages.without == ("from-git", "nosuch-of-mine")
    assert "`from-git` is not from a package index" in notes


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[NpmRegistry]:
    with serving_npm() as made:
        monkeypatch.setenv("npm_config_registry", made.url)
        npm.configured.cache_clear()
        yield made
    npm.configured.cache_clear()


def needs_node_99(registry: NpmRegistry, scripts: Mapping[str, str]) -> dict[str, str]:
    machine = "x64" if platform.machine() == "x86_64" else "arm64"
    registry.add(f"node-linux-{machine}", "99.1.0", files={"bin/node": "#!/bin/sh\necho v99.1.0\n"}, bin={"node": "bin/node"})
    registry.add("small")
    manifest = {"name": "a", "version": "1.0.0", "engines": {"node": ">=99"}, "dependencies": {"small": "1.0.0"}}
    return {"package.json": json.dumps({**manifest, "scripts": scripts}), "a.test.js": "require('node:test')\n"}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm")
async def test_the_node_that_runs_the_tests_is_the_one_that_is_named(tmp_path: Path, registry: NpmRegistry) -> None:
    found = await prepared(needs_node_99(registry, {"test": "node --test"}), tmp_path / "npm")
    assert isinstance(found, Prepared), found
    assert found.task.environment.startswith("Node.js 99.1.0")
    ended = await prepared(needs_node_99(registry, {}), tmp_path / "direct")  # `node --test`, which finds the sandbox's Node
    assert isinstance(ended, NoRepair), ended
    assert ended.reason.startswith("The tests need Node.js 99, but the sandbox has version ")


@pytest.mark.long
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm")
async def test_a_node_of_the_repository_that_never_answers_is_a_missing_one(
    tmp_path: Path, registry: NpmRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "SECONDS", 3.0)
    steps = "{run: npm ci, working-directory: web}, {run: npm test, working-directory: web}"
    files = {
        "web/package.json": json.dumps({"name": "a", "version": "1.0.0"}),
        "web/node_modules/.bin/node": "#!/bin/sh\nsleep 60\n",
        "package.json": json.dumps({"name": "b", "version": "1.0.0", "engines": {"node": ">=99"}}),
        ".github/workflows/a.yml": dedent(WORKFLOW.replace("{run: SCRIPT}", steps)),
    }
    members = []
    for name, text in files.items():
        header = tarfile.TarInfo(f"top/{name}")
        header.size, header.mode = len(text), 0o755
        members.append((header, text.encode()))
    sandboxes = ProcessSandboxes(tmp_path / "open", PackageStore(tmp_path / "packages", await configured()))
    async with sandboxes.open("case") as sandbox:
        case = Case("case", "sample", packed(members), jobs=(AnyJob(),))
        ended = await prepare(case, sandbox, emit, policy=Policy(), budget=Budget())
    assert isinstance(ended, NoRepair), ended
    assert ended.reason == "The tests need Node.js 99, but the sandbox has no program `node`."
