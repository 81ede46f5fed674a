"""A real package of the registry with a fault in it, healed by the engine: sandbox, Node, npm and vitest are real."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent.contract.blobs import MemoryBlobs
from agent.contract.budget import Budget
from agent.contract.events import AnyEvent, Degraded
from agent.contract.outcome import Repair
from agent.engine import Case, Engine
from agent.models.router import Models, ModelSettings
from app.cli.checkout import checkout
from sandbox.base import Limits, SandboxUnavailable
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.local import LocalSandboxes
from tests.standins.model import Asked, Reply, ScriptedModel

PACKAGE = "ms@2.1.3"
RIGHT, WRONG = (
    "  if (msAbs >= s) {\n    return Math.round(ms / s) + 's';",
    "  if (msAbs > s) {\n    return Math.round(ms / s) + 's';",
)
FIX = f"""Cause: a whole second is not told as one
Change: a second is told as seconds

index.js
<<<<<<< SEARCH
{WRONG}
=======
{RIGHT}
>>>>>>> REPLACE
"""
TEST = """\
import { describe, expect, it } from 'vitest'
import ms from '../index.js'

describe('ms', () => {
  it('tells a whole second', () => expect(ms(1000)).toBe('1s'))
  it('tells less than a second', () => expect(ms(500)).toBe('500ms'))
  it('reads minutes', () => expect(ms('2m')).toBe(120000))
})
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package's own files, with the fault, and tests that vitest runs."""
    if shutil.which("npm") is None:
        pytest.skip("needs node and npm")
    packed = subprocess.run(
        ["npm", "pack", PACKAGE, "--silent"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    if packed.returncode:
        pytest.skip(f"needs a package registry: {packed.stderr.strip()[-200:]}")
    shutil.unpack_archive(tmp_path / packed.stdout.strip(), tmp_path, filter="data")
    folder = tmp_path / "package"
    source = (folder / "index.js").read_text()
    assert RIGHT in source
    (folder / "index.js").write_text(source.replace(RIGHT, WRONG))
    manifest = json.loads((folder / "package.json").read_text())
    manifest |= {"scripts": {"test": "vitest run"}, "devDependencies": {"vitest": "^2"}}
    (folder / "package.json").write_text(json.dumps(manifest, indent=2))
    (folder / "tests").mkdir()
    (folder / "tests" / "ms.test.mjs").write_text(TEST)
    return folder


@pytest.mark.long
async def test_a_package_of_the_registry_is_healed_by_the_model_rung(tmp_path: Path, package: Path) -> None:
    asked: list[str] = []
    told: list[AnyEvent] = []

    async def emit(event: AnyEvent) -> None:
        told.append(event)

    def answer(question: Asked) -> Reply:
        asked.append(question.prompt)
        if "TOOL read_span" in question.prompt:
            return Reply('{"cause": "a whole second is told as milliseconds", "where": ["index.js"], "confidence": 0.9}')
        return Reply(FIX if "You repair code" in question.prompt else '{"accept": true, "reason": "", "input": "the next one"}')

    sandboxes = LocalSandboxes(tmp_path / "open", PackageStore(tmp_path / "cache", await configured()))
    async with ScriptedModel(answer) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "sk-none", timeout=60.0))
        engine = Engine(sandboxes, models, InMemorySaver(), Budget(seconds=300.0), Limits())
        try:
            result = await engine.heal(Case("ms", "ms", checkout.packed(package)), blobs=MemoryBlobs(), emit=emit)
        except SandboxUnavailable as missing:
            pytest.skip(f"needs bubblewrap: {missing}")
    assert isinstance(result, Repair), result
    (edit,) = result.edits
    assert edit.path == "index.js"
    assert edit.after == (edit.before or "").replace(WRONG, RIGHT)
    (proof,) = result.evidence.checks
    assert proof.target == ("tests/ms.test.mjs::ms > tells a whole second",)
    assert (proof.base_red, proof.with_red, proof.without_red, proof.with_green) == (1, 0, 1, 3)
    assert "index.js, lines" in asked[0], asked[0]
    assert WRONG.split("\n")[0] in asked[0]
    assert "expect(ms(1000)).toBe('1s')" in asked[0]
    assert not [event.text for event in told if isinstance(event, Degraded)]
