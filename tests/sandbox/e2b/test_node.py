"""JavaScript in a machine: npm's registry is told, reached by an allowed way, and by nobody's scripts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from sandbox.base import Command, InstallFailed, Packages, Workspace
from sandbox.e2b.sandboxes import E2BSandboxes
from sandbox.install.node import npm
from tests.sandbox.conftest import tarball
from tests.sandbox.registry import Registry, serving
from tests.standins.e2b import E2B

pytestmark = [
    pytest.mark.optional(reason="the machines of the local E2B need root"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm"),
    pytest.mark.asyncio(loop_scope="module"),
]
MANIFEST = {"name": "store", "version": "1.0.0", "dependencies": {"answering": "^1.0.0"}}
REPOSITORY = {"web/package.json": json.dumps(MANIFEST).encode(), "web/index.js": b"console.log(require('answering'))"}
WANTED = Packages(node=("web",))
CLOSED = {"allow_internet_access": False}


@pytest.fixture
def registry(e2b: E2B, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    with serving() as made:
        made.add("answering", "module.exports = 42", scripts={"postinstall": "exit 1"})
        e2b.machines.ports.append(made.port)
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", made.url)
        npm.configured.cache_clear()
        yield made
    npm.configured.cache_clear()


async def said(workspace: Workspace) -> str:
    ended = await workspace.run(Command(("/usr/bin/env", "node", "web/index.js"), 30.0))
    return (ended.stdout + ended.stderr).decode().strip()


@pytest.mark.long
async def test_the_code_finds_what_its_manifest_names_and_the_way_is_closed(
    e2b: E2B, registry: Registry, sandboxes: E2BSandboxes
) -> None:
    async with sandboxes.open("npm") as sandbox:
        await sandbox.unpack(tarball(REPOSITORY))
        await sandbox.install(WANTED)
        assert e2b.machine.rules == CLOSED
        async with sandbox.candidate() as workspace:
            assert await said(workspace) == "42"
    assert "/answering" in registry.requests


@pytest.mark.long
async def test_a_worker_without_npm_has_the_registry_of_the_machine(
    e2b: E2B, registry: Registry, sandboxes: E2BSandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npm, "is_installed", lambda: False)
    e2b.machines.environment["NPM_CONFIG_REGISTRY"] = registry.url
    async with sandboxes.open("npm") as sandbox:
        await sandbox.unpack(tarball(REPOSITORY))
        await sandbox.install(WANTED)
        assert e2b.machine.rules == CLOSED
        async with sandbox.candidate() as workspace:
            assert await said(workspace) == "42"


@pytest.mark.long
async def test_a_template_without_node_refuses_early_and_names_the_way_out(e2b: E2B, sandboxes: E2BSandboxes) -> None:
    e2b.machines.lacks = (str(shutil.which("node")),)
    async with sandboxes.open("npm") as sandbox:
        await sandbox.unpack(tarball(REPOSITORY))
        with pytest.raises(InstallFailed, match=r"template 'selfheal' does not have; rebuild it"):
            await sandbox.install(WANTED)


async def test_a_registry_with_a_password_is_refused_and_its_password_stays_here(
    e2b: E2B, registry: Registry, sandboxes: E2BSandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://me:s3cr3t@127.0.0.1/")
    npm.configured.cache_clear()
    async with sandboxes.open("npm") as sandbox:
        await sandbox.unpack(tarball(REPOSITORY))
        with pytest.raises(InstallFailed, match="registry"):
            await sandbox.install(WANTED)
        told = [one.config.envs for one in e2b.machine.processes.values()]
        assert "s3cr3t" not in repr(told)
