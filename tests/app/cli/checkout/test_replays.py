"""Jobs modelled on those of popular Python projects, replayed in the real sandbox to what the real tools said fails.

The judge is `tests/data/replays/record.py`: it ran each job by hand, with the real tools, and uses nothing of ours.
"""

from __future__ import annotations

import json
import os
import runpy
import shlex
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from langgraph.checkpoint.memory import InMemorySaver
from platformdirs import user_cache_path

from agent.case import Case
from agent.ci.job.contexts import Run
from agent.ci.job.selection import FailedJob
from agent.contract.budget import Budget
from agent.contract.events import AnyEvent
from agent.contract.outcome import ConfirmedFailure
from agent.engine import Engine
from app.cli.checkout import checkout
from sandbox.base import InstallFailed, Limits, Packages, SandboxUnavailable
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.local import LocalSandboxes
from tests.app.cli import program
from tests.tiers import long_but

ROOT = Path(__file__).resolve().parents[4]
REPLAYS = ROOT / "tests" / "data" / "replays"
CACHE = user_cache_path("selfheal-tests")  # downloads are kept from run to run
# Those that a person names by other words than GitHub does, or whose failing step only a run tells.
ASKED = ("composite/unit", "monorepo/api", "reusable/tests", "tox/minimum")
QUICK = ("matrix/plain",)  # of those that a job names, in `make test`
LEGS = sorted(f"{script.parent.name}/{script.stem}" for script in REPLAYS.glob("*/*.sh"))


@dataclass(frozen=True)
class Recorded:
    """One leg as it went when it was recorded, and its repository."""

    name: str  # "tox/minimum"
    folder: Path

    @property
    def workflow(self) -> str:
        return f".github/workflows/{self.name.partition('/')[0]}.yml"

    @property
    def told(self) -> dict[str, Any]:
        return json.loads((REPLAYS / f"{self.name}.json").read_text())

    @property
    def selection(self) -> list[str]:
        """The options with which a person asks for it."""
        line = next(line for line in (REPLAYS / f"{self.name}.sh").read_text().splitlines() if line.startswith("# Person: "))
        return shlex.split(line.removeprefix("# Person: "))

    def failed_job(self) -> FailedJob:
        """As GitHub tells of it."""
        told = self.told
        return FailedJob(
            told["job"],
            (self.folder / self.workflow).read_text(),
            self.workflow,
            told["failed_step"],
            tuple(told["conclusions"].items()),
            Run(sha="1" * 40, branch="main", repository="example/repository"),
        )


@pytest.fixture(scope="module", params=long_but(LEGS, *QUICK))
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return at(request.param, tmp_path_factory.mktemp("checkout"))


def at(name: str, folder: Path) -> Recorded:
    runpy.run_path(str(REPLAYS / "record.py"))["repository"](name.partition("/")[0], folder / "repository")
    return Recorded(name, folder / "repository")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    folder = tmp_path_factory.mktemp("sandboxes")
    sandboxes = LocalSandboxes(folder / "open", PackageStore(CACHE / "selfheal" / "packages", await configured()))
    async with AsyncExitStack() as closing:
        try:
            opened = await closing.enter_async_context(sandboxes.open("probe"))
            await opened.install(Packages(requirements=("pytest",)))
        except (SandboxUnavailable, InstallFailed) as missing:
            pytest.skip(f"needs bubblewrap and a package index: {missing}")
        yield Engine(sandboxes, None, InMemorySaver(), Budget(), Limits())


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
async def test_a_failed_job_fails_here_as_it_did(recorded: Recorded, engine: Engine) -> None:
    said: list[AnyEvent] = []

    async def emit(event: AnyEvent) -> None:
        said.append(event)

    case = Case(recorded.name, "replay", checkout.packed(recorded.folder), jobs=(recorded.failed_job(),))
    seen = await engine.reproduce(case, emit=emit)
    assert isinstance(seen.result, ConfirmedFailure), (seen.result, said)
    assert list(seen.result.failing) == recorded.told["failing"], seen.result.notes


@pytest.mark.parametrize("name", long_but(ASKED))
def test_a_person_sees_the_same_in_their_checkout(name: str, engine: Engine, tmp_path: Path) -> None:
    recorded = at(name, tmp_path)
    done = reproduce(recorded.folder, *recorded.selection, "--json")
    told = json.loads(done.stdout)
    assert told["failing"] == recorded.told["failing"], (told, done.stderr)
    assert (done.returncode, told["outcome"]) == (0, "reproduced")
    assert any(step["does"] == "fails" for job in told["jobs"] for step in job["steps"])


def reproduce(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    return program.run(("reproduce", str(folder), *options), ROOT, {**environment, "XDG_CACHE_HOME": str(CACHE)}, 200)
