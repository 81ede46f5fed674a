"""Crates: what a lock names, fetched with its digest and found by cargo without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.base import Command, InstallFailed, Packages, SandboxUnavailable
from sandbox.install import caches, folder_cache
from sandbox.install.download import DownloadPolicy, DownloadRefused
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.install.sources import crates
from sandbox.install.sources.crates import Crate
from sandbox.install.sources.fetch import SourcesUnavailable
from sandbox.install.sources.upstreams import Upstreams
from sandbox.local import LocalSandboxes
from tests.sandbox.conftest import tarball
from tests.standins.sources import Sources, serving

ADDS = "pub fn add(a: i64, b: i64) -> i64 { a + b }\n"
MANIFEST = '[package]\nname = "top"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nadding = "1"\n'
CODE = "#[test]\nfn adds() { assert_eq!(adding::add(2, 2), 4); }\n"


@pytest.fixture
def sources() -> Iterator[Sources]:
    with serving() as served:
        yield served


def lock(digest: str, source: str = "registry+https://github.com/rust-lang/crates.io-index") -> str:
    own = '[[package]]\nname = "top"\nversion = "0.1.0"\ndependencies = [\n "adding",\n]\n'
    return (
        f'version = 3\n\n[[package]]\nname = "adding"\nversion = "1.0.0"\nsource = "{source}"\nchecksum = "{digest}"\n\n{own}'
    )


async def provide(digest: str, sources: Sources, folder: Path, policy: DownloadPolicy = DownloadPolicy()) -> Path:
    entry = await crates.provide((Crate("adding", "1.0.0", digest),), sources.index, folder / "crates", policy)
    folder_cache.release(entry)
    return entry.folder


async def test_what_a_lock_names_is_laid_out_as_vendored_sources_once(sources: Sources, tmp_path: Path) -> None:
    digest = sources.add_crate("adding", "1.0.0", ADDS)
    sources.failing.add("/crates/adding/1.0.0/download")  # asked again
    folder = await provide(digest, sources, tmp_path)
    assert (folder / "vendor/adding-1.0.0/src/lib.rs").read_text() == ADDS
    assert digest in (folder / "vendor/adding-1.0.0/.cargo-checksum.json").read_text()
    assert 'directory = "vendor"' in (folder / "home/config.toml").read_text()
    assert len(sources.asked) == 3
    assert await provide(digest, sources, tmp_path) == folder
    assert len(sources.asked) == 3, "from the cache"
    assert [state.name for state in caches.states(tmp_path)] == ["crates"]


async def test_another_content_than_the_lock_s_is_refused(sources: Sources, tmp_path: Path) -> None:
    sources.add_crate("adding", "1.0.0", ADDS)
    with pytest.raises(InstallFailed, match="does not have the digest"):
        await provide("0" * 64, sources, tmp_path)
    assert not list((tmp_path / "crates").iterdir())


async def test_a_crate_that_leaves_its_folder_is_refused(sources: Sources, tmp_path: Path) -> None:
    digest = sources.add_crate("adding", "1.0.0", ADDS, {"adding-1.0.0/../../evil": "x"})
    with pytest.raises(InstallFailed, match="not safe to unpack"):
        await provide(digest, sources, tmp_path)


async def test_an_index_that_is_not_there_or_lacks_a_crate_is_named(sources: Sources, tmp_path: Path) -> None:
    digest = sources.add_crate("adding", "1.0.0", ADDS)
    del sources.pages["/crates/adding/1.0.0/download"]
    with pytest.raises(SourcesUnavailable, match="404") as lacks:
        await provide(digest, sources, tmp_path)
    assert "SELFHEAL_CRATES_INDEX" in lacks.value.what_now
    sources.pages.clear()
    with pytest.raises(SourcesUnavailable, match="could not be fetched from"):
        await provide(digest, sources, tmp_path)


async def test_downloads_have_a_bound(sources: Sources, tmp_path: Path) -> None:
    digest = sources.add_crate("adding", "1.0.0", ADDS)
    with pytest.raises(DownloadRefused, match="the crates takes more than"):
        await provide(digest, sources, tmp_path, DownloadPolicy(size=100))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (lock("0" * 64, "git+https://github.com/a/b?rev=1#1"), "which is not the registry"),
        (lock("0" * 64, "registry+https://other.example/index"), "which is not the registry"),
        (lock("short"), "without a digest"),
        (lock("0" * 64).replace('"adding"\nversion', '"../adding"\nversion'), "without a digest"),
        ("version = ", "not valid TOML"),
    ],
)
def test_what_is_not_of_the_registry_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(InstallFailed, match=why):
        crates.read_lock(text)


def test_locks_of_old_and_new_versions_are_read() -> None:
    source = "registry+https://github.com/rust-lang/crates.io-index"
    old = f'[[package]]\nname = "adding"\nversion = "1.0.0"\nsource = "{source}"\n[metadata]\n'
    old += f'"checksum adding 1.0.0 ({source})" = "{"0" * 64}"\n'
    expected = (Crate("adding", "1.0.0", "0" * 64),)
    assert crates.read_lock(old) == crates.read_lock(lock("0" * 64)) == expected


@pytest.mark.optional(reason="needs cargo, which `make setup` does not install")
@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
@pytest.mark.parametrize("is_locked", [True, False])
async def test_cargo_builds_with_them_without_a_network(sources: Sources, tmp_path: Path, is_locked: bool) -> None:
    digest = sources.add_crate("adding", "1.0.0", ADDS)
    files = {"Cargo.toml": MANIFEST, "src/lib.rs": CODE, **({"Cargo.lock": lock(digest)} if is_locked else {})}
    store = PackageStore(tmp_path / "packages", IndexAccess((), frozenset()), upstreams=Upstreams(sources.index, ""))
    try:
        async with LocalSandboxes(tmp_path / "open", store).open("crates") as sandbox:
            await sandbox.unpack(tarball({name: text.encode() for name, text in files.items()}))
            installed = await sandbox.install(Packages(crates=(".",)))
            assert ("Cargo.lock is missing" in " ".join(installed.notes)) is not is_locked
            async with sandbox.candidate() as workspace:
                ended = await workspace.run(Command(("/usr/bin/env", "cargo", "test", "--locked"), 120.0))
                assert ended.exit_code == 0, ended.stderr.decode()
                assert b"test adds ... ok" in ended.stdout
                spoils = await workspace.run(Command(("/bin/sh", "-c", "echo > $CARGO_HOME/config.toml"), 20.0))
                assert spoils.exit_code, "read-only"
    except SandboxUnavailable as missing:
        pytest.skip(f"needs bubblewrap: {missing}")


@pytest.mark.optional(reason="needs cargo, which `make setup` does not install")
@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
async def test_a_lock_that_cargo_cannot_write_is_named(sources: Sources, tmp_path: Path) -> None:
    sources.pages["/index/config.json"] = b'{"dl": "http://127.0.0.1:9/"}'
    store = PackageStore(tmp_path / "packages", IndexAccess((), frozenset()), upstreams=Upstreams(sources.index, ""))
    try:
        async with LocalSandboxes(tmp_path / "open", store).open("crates") as sandbox:
            await sandbox.unpack(tarball({"Cargo.toml": MANIFEST.encode(), "src/lib.rs": CODE.encode()}))
            with pytest.raises(SourcesUnavailable, match=r"Cargo\.lock is missing, and cargo could not write it"):
                await sandbox.install(Packages(crates=(".",)))
    except SandboxUnavailable as missing:
        pytest.skip(f"needs bubblewrap: {missing}")
