"""What npm brings: from the registry alone, by nobody's scripts, once for everybody who asks for the same."""

from __future__ import annotations

import json
import platform
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agent.ci.project.runtimes import versions
from sandbox.base import Command, Completed, InstallFailed, Packages, Sandbox, SandboxUnavailable, Workspace
from sandbox.install.node import manifests, npm, scripts
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.local import LocalSandboxes
from sandbox.process import ProcessSandboxes
from tests.sandbox.conftest import tarball
from tests.standins.npm import NpmRegistry, serving

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm")
SMALL = {"name": "small", "version": "1.0.0", "dependencies": {"is-number": "7.0.0"}}


async def install(sandbox: Sandbox, files: Mapping[str, str], *folders: str, as_of: str | None = None) -> str:
    await sandbox.unpack(tarball({name: text.encode() for name, text in files.items()}))
    try:
        return " ".join((await sandbox.install(Packages(node=folders or (".",), as_of=as_of))).notes)
    except InstallFailed as failed:
        if any(sign in failed.output for sign in ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN")):
            pytest.skip("needs a package registry")
        raise


async def ask(workspace: Workspace, script: str) -> Completed:
    return await workspace.run(Command(("/usr/bin/env", "node", "-e", script), 30.0))


@needs_npm
@pytest.mark.parametrize("kind", ["local", "process"])
async def test_the_code_finds_what_its_manifest_names(tmp_path: Path, kind: str) -> None:
    store = PackageStore(tmp_path / "cache", await configured())
    sandboxes = LocalSandboxes(tmp_path / "open", store) if kind == "local" else ProcessSandboxes(tmp_path / "open", store)
    try:
        async with sandboxes.open("npm") as sandbox:
            await install(sandbox, {"web/package.json": json.dumps(SMALL), ".npmrc": "registry=http://192.0.2.1/\n"}, "web")
            async with sandbox.candidate() as workspace:
                said = await ask(workspace, "console.log(require('./web/node_modules/is-number')(5))")
                assert (said.exit_code, said.stdout) == (0, b"true\n"), said.stderr
                assert all("node_modules" not in entry.path for entry in await workspace.files())
    except SandboxUnavailable as missing:
        pytest.skip(f"needs bubblewrap: {missing}")


@pytest.fixture
async def store(tmp_path: Path) -> LocalSandboxes:
    return LocalSandboxes(tmp_path / "open", PackageStore(tmp_path / "cache", await configured()))


@needs_npm
async def test_the_same_lock_is_downloaded_once_for_all_attempts(
    store: LocalSandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    really = npm.NpmInstaller.run

    async def counted(self: npm.NpmInstaller, start: npm.Start, *told: str) -> bool:
        made.append(True)
        return await really(self, start, *told)

    monkeypatch.setattr(npm.NpmInstaller, "run", counted)
    try:
        seconds = []
        for _ in range(2):
            async with store.open("npm") as sandbox:
                started = time.monotonic()
                await install(sandbox, {"package.json": json.dumps(SMALL)})
                seconds.append(time.monotonic() - started)
                async with sandbox.candidate() as workspace:
                    assert (await ask(workspace, "require('is-number')")).exit_code == 0
    except SandboxUnavailable as missing:
        pytest.skip(f"needs bubblewrap: {missing}")
    assert len(made) == 1
    print("cold, warm:", seconds)


@pytest.mark.long
@needs_npm
async def test_what_one_candidate_writes_among_its_modules_no_other_sees(store: LocalSandboxes) -> None:
    try:
        async with store.open("npm") as sandbox:
            await install(sandbox, {"package.json": json.dumps(SMALL)})
            async with sandbox.candidate() as one:
                spoil = "require('fs').writeFileSync('node_modules/is-number/index.js', 'module.exports = 1')"
                assert (await ask(one, spoil)).exit_code == 0
            async with sandbox.candidate() as other:
                assert (await ask(other, "if (!require('is-number')(5)) throw 1")).exit_code == 0
    except SandboxUnavailable as missing:
        pytest.skip(f"needs bubblewrap: {missing}")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[NpmRegistry]:
    with serving() as registry:
        real = npm.configured()
        hosts = frozenset({registry.host})
        here = replace(real, url=f"{registry.url}/", hosts=hosts, named=hosts)
        monkeypatch.setattr(npm, "configured", lambda: here)
        monkeypatch.setattr(scripts, "OPTIONS", (*scripts.OPTIONS, "--fetch-retries=0"))
        yield registry


def try_lock(packages: Mapping[str, Mapping[str, object]], **manifest: object) -> dict[str, str]:
    """A manifest and its lock; a package is called by its name alone."""
    top = {"name": "top", "version": "1.0.0", **manifest}
    entries = {"": top, **{f"node_modules/{name}": entry for name, entry in packages.items()}}
    lock = {**top, "lockfileVersion": 3, "requires": True, "packages": entries}
    return {"package.json": json.dumps(top), "package-lock.json": json.dumps(lock)}


async def modules(sandboxes: LocalSandboxes, files: Mapping[str, str]) -> tuple[str, list[str]]:
    """(what the install step notes, the packages that the code then has)."""
    try:
        async with sandboxes.open("npm") as sandbox:
            note = await install(sandbox, files)
            async with sandbox.candidate() as workspace:
                listed = await workspace.run(Command(("ls", "node_modules"), 20.0))
                return note, listed.stdout.decode().split()
    except SandboxUnavailable as missing:
        pytest.skip(f"needs bubblewrap: {missing}")


@pytest.mark.long
@needs_npm
async def test_what_the_registry_failed_to_give_is_told_and_asked_for_again(
    store: LocalSandboxes, registry: NpmRegistry
) -> None:
    packages = {
        "wanted": registry.add("wanted"),
        "helper": {**registry.add("helper"), "optional": True},
        "foreign": {**registry.add("foreign", os=["none"]), "optional": True},
    }
    files = try_lock(packages, dependencies={"wanted": "1.0.0"}, optionalDependencies={"helper": "1.0.0", "foreign": "1.0.0"})
    registry.failing.add("helper")
    note, found = await modules(store, files)
    assert found == ["wanted"]
    assert "npm left out 1 optional packages for this platform: helper" in note
    registry.failing.clear()
    assert await modules(store, files) == ("", ["helper", "wanted"]), "nothing incomplete was kept"
    asked = len(registry.asked)
    assert await modules(store, files) == ("", ["helper", "wanted"])
    assert len(registry.asked) == asked, "what is whole is kept, although what is for another system is not there"


@pytest.mark.long
@needs_npm
async def test_what_is_there_for_the_sake_of_another_systems_package_may_be_missing_with_it(
    store: LocalSandboxes, registry: NpmRegistry
) -> None:
    packages = {
        "watcher": {**registry.add("watcher", dependencies={"foreign": "1.0.0", "below": "1.0.0"}), "optional": True},
        "foreign": {**registry.add("foreign", os=["none"]), "optional": True},
        "below": {**registry.add("below"), "optional": True},
    }
    note, found = await modules(store, try_lock(packages, optionalDependencies={"watcher": "1.0.0"}))
    assert (note, found) == ("", [])


@pytest.mark.long
@needs_npm
async def test_without_a_lock_too_what_is_missing_is_not_kept(store: LocalSandboxes, registry: NpmRegistry) -> None:
    registry.add("wanted")
    registry.add("helper")
    manifest = {"name": "top", "dependencies": {"wanted": "1.0.0"}, "optionalDependencies": {"helper": "1.0.0"}}
    files = {"package.json": json.dumps(manifest)}
    registry.failing.add("helper")
    note, found = await modules(store, files)
    assert ("helper" in note, found) == (True, ["wanted"])
    registry.failing.clear()
    assert await modules(store, files) == ("", ["helper", "wanted"])


@pytest.mark.long
@needs_npm
async def test_a_lock_that_does_not_fit_is_told_and_what_took_its_place_is_not_kept(
    store: LocalSandboxes, registry: NpmRegistry
) -> None:
    old = registry.add("wanted", "1.0.0")
    registry.add("wanted", "2.0.0")
    files = try_lock({"wanted": old}, dependencies={"wanted": "1.0.0"})
    files["package.json"] = json.dumps({"name": "top", "version": "1.0.0", "dependencies": {"wanted": "2.0.0"}})
    for _ in range(2):
        asked = len(registry.asked)
        note, found = await modules(store, files)
        assert (found, len(registry.asked) > asked) == (["wanted"], True)
        assert "`npm ci` refused the lock" in note


async def project(files: Mapping[str, object]) -> manifests.Project:
    async def read(path: str) -> bytes:
        if path not in files:
            raise FileNotFoundError(path)
        return json.dumps(files[path]).encode()

    return await manifests.read(".", read, frozenset({"registry.example:443"}))


@pytest.mark.parametrize(
    "spec",
    [
        "git+ssh://git@host.example/a.git", "git://host.example/a", "https://host.example/a.tgz", "file:../a", "owner/repo",
        "github:owner/repo", "link:../../etc",
    ],
)  # fmt: skip
async def test_a_dependency_from_elsewhere_is_refused_by_its_name(spec: str) -> None:
    with pytest.raises(InstallFailed, match="odd"):
        await project({"package.json": {"devDependencies": {"odd": spec}}})
    lock = {"packages": {"": {}, "node_modules/a": {"version": "1.0.0", "dependencies": {"odd": spec}}}}
    with pytest.raises(InstallFailed, match="odd"):
        await project({"package.json": {}, "package-lock.json": lock})


@pytest.mark.parametrize("spec", ["1.0.0", "^1 || ~2.3", "latest", ">=1 <2", "npm:other@^2", "*", ""])
async def test_versions_tags_and_aliases_are_the_registrys(spec: str) -> None:
    assert not (await project({"package.json": {"dependencies": {"a": spec}}})).locked


@pytest.mark.parametrize("resolved", ["git+https://host.example/a.git#abc", "file:a.tgz", "ssh://host.example/a"])
async def test_a_lock_that_leads_elsewhere_is_refused(resolved: str) -> None:
    lock = {"packages": {"node_modules/a": {"resolved": resolved}}}
    with pytest.raises(InstallFailed, match="not the registry"):
        await project({"package.json": {}, "package-lock.json": lock})


@pytest.mark.parametrize(
    "resolved", ["https://other.example/a.tgz", "https://registry.example:8443/a.tgz", "https://[/", "http://a:x/"]
)
async def test_a_lock_whose_packages_are_at_another_host_is_refused_by_its_name(resolved: str) -> None:
    lock: dict[str, object] = {"packages": {"node_modules/a": {"resolved": "https://registry.example/a.tgz"}}}
    assert (await project({"package.json": {}, "package-lock.json": lock})).locked
    lock = {"packages": {"node_modules/a": {"resolved": resolved}}}
    with pytest.raises(InstallFailed, match="not the registry") as refused:
        await project({"package.json": {}, "package-lock.json": lock})
    assert resolved in str(refused.value)


@pytest.mark.parametrize("spec", ["git+https://host.example/a.git", "file:../a", "./a", "..", "a.tgz", "$a/git:b"])
@pytest.mark.parametrize("deep", [0, 1, 50])
async def test_overrides_and_peers_from_elsewhere_are_refused_too(spec: str, deep: int) -> None:
    with pytest.raises(InstallFailed, match="odd"):
        await project({"package.json": {"peerDependencies": {"odd": spec}}})
    overrides: dict[str, object] = {"odd": spec}
    for _ in range(deep):
        overrides = {"above": overrides, ".": "1.0.0", "own": "$@scope/own"}
    with pytest.raises(InstallFailed, match="odd"):
        await project({"package.json": {"overrides": overrides}})
    overrides = {"above": {"fine": "1.0.0", "own": "$@scope/own"}}
    assert not (await project({"package.json": {"overrides": overrides}})).locked


async def test_workspaces_of_a_lock_are_shown_by_their_manifests_alone() -> None:
    lock = {"packages": {"": {}, "packages/a": {}, "node_modules/a": {"resolved": "packages/a", "link": True}}}
    found = await project({"package.json": {}, "package-lock.json": lock, "packages/a/package.json": {"name": "a"}})
    assert set(found.files) == {"package.json", "package-lock.json", "packages/a/package.json"}


async def test_a_workspace_is_kept_once_however_often_it_is_named() -> None:
    aliases = [f"p{'/.' * count}" for count in range(300)]
    lock = {"packages": {alias: {} for alias in aliases}}
    found = await project({"package.json": {}, "package-lock.json": lock, "p/package.json": {"name": "x" * 1_000_000}})
    assert set(found.files) == {"package.json", "package-lock.json", "p/package.json"}


async def test_more_workspaces_or_text_than_anybody_has_are_refused() -> None:
    files: dict[str, object] = {f"p{number}/package.json": {"name": "x" * 1_000_000} for number in range(20)}
    lock: dict[str, object] = {"packages": {f"p{number}": {} for number in range(20)}}
    with pytest.raises(InstallFailed, match="larger than 16 MiB"):
        await project({"package.json": {}, "package-lock.json": lock, **files})
    many = {f"p{number}/package.json": {} for number in range(1001)}
    lock = {"packages": {f"p{number}": {} for number in range(1001)}}
    with pytest.raises(InstallFailed, match="names 1001 workspaces"):
        await project({"package.json": {}, "package-lock.json": lock, **many})


@pytest.mark.parametrize("member", ["../outside", "/etc", "a/../../b"])
async def test_a_workspace_outside_of_its_folder_is_refused(member: str) -> None:
    with pytest.raises(InstallFailed, match="outside"):
        await project({"package.json": {}, "package-lock.json": {"packages": {member: {}}}})


async def test_what_is_only_approximated_is_said() -> None:
    lock = {"packages": {"node_modules/a": {"hasInstallScript": True}}}
    assert (await project({"package.json": {}, "package-lock.json": lock})).notes == (
        "the install scripts of these packages are not run: a",
    )
    assert "yarn.lock is ignored" in (await project({"package.json": {}, "yarn.lock": 1})).notes[0]


@pytest.mark.parametrize("text", [[], "x", {"packages": []}])
async def test_a_manifest_or_lock_of_another_form_is_refused_by_its_name(text: object) -> None:
    with pytest.raises(InstallFailed, match=r"package-lock\.json"):
        await project({"package.json": {}, "package-lock.json": text})


@needs_npm
@pytest.mark.parametrize(
    ("wanted", "got", "note"),
    [
        ("*", "1.0.0", "before 2021-01-01"),
        pytest.param("2.0.0", "2.0.0", "do not fit", marks=pytest.mark.long),
        pytest.param("1.0.0", "1.0.0", "", marks=pytest.mark.long),
    ],
)
async def test_without_a_lock_the_versions_are_those_of_a_day(
    store: LocalSandboxes, registry: NpmRegistry, wanted: str, got: str, note: str
) -> None:
    locked = registry.add("dated", "1.0.0", "2020-06-01")
    registry.add("dated", "2.0.0", "2022-06-01")
    files = {"package.json": json.dumps({**SMALL, "dependencies": {"dated": wanted}})}
    if not note:  # a lock counts more than the day
        files = try_lock({"dated": locked}, dependencies={"dated": wanted})
    try:
        for _ in range(2):  # the second time from the cache
            async with store.open("npm") as sandbox:
                said = await install(sandbox, files, as_of="2021-01-01")
                assert note in said
                assert bool(note) == bool(said)
                assert (await ask(sandbox.base, "console.log(require('dated'))")).stdout.decode().strip() == got
    except SandboxUnavailable as missing:
        pytest.skip(f"needs bubblewrap: {missing}")


@pytest.mark.long
@needs_npm
async def test_scripts_run_with_the_wanted_version_of_node(store: LocalSandboxes, registry: NpmRegistry) -> None:
    machine = "x64" if platform.machine() == "x86_64" else "arm64"
    script = {"bin/node": "#!/bin/sh\necho v99.1.0\n"}
    registry.add(f"node-linux-{machine}", "99.1.0", files=script, bin={"node": "bin/node"})
    registry.add("small")
    manifest = {"name": "top", "version": "1.0.0", "dependencies": {"small": "1.0.0"}, "scripts": {"test": "node"}}
    try:
        for _ in range(2):  # the second time from the cache
            async with store.open("npm") as sandbox:
                await sandbox.unpack(tarball({"package.json": json.dumps(manifest).encode()}))
                installed = await sandbox.install(Packages(node=(".",), node_version="99"))
                said = await sandbox.base.run(Command(("/usr/bin/env", "npm", "test", "--silent"), 30.0))
                assert (installed.notes, said.stdout.strip()) == ((), b"v99.1.0")
                assert await versions(sandbox.base, ("Node.js",)) == {"Node.js": "99.1.0"}
        async with store.open("npm") as sandbox:
            await sandbox.unpack(tarball({"package.json": json.dumps(manifest).encode()}))
            installed = await sandbox.install(Packages(node=(".",), node_version="98"))
            assert "Node.js 98 is not in npm's registry" in installed.notes[0]
            assert (await ask(sandbox.base, "require('small')")).exit_code == 0
    except SandboxUnavailable as missing:
        pytest.skip(f"needs bubblewrap: {missing}")
