"""Crates: what a lock names, fetched with its digest and found by cargo without a network."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.base import KIB, MIB, Command, InstallFailed, Packages, SandboxUnavailable
from sandbox.install import caches, folder_cache
from sandbox.install.download import DownloadPolicy, DownloadRefused
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.install.sources import crates, upstreams
from sandbox.install.sources.crates import Crate
from sandbox.install.sources.fetch import Budget, SourcesUnavailable
from sandbox.install.sources.upstreams import Upstreams
from sandbox.local import LocalSandboxes
from tests.sandbox.conftest import packed, tarball
from tests.sandbox.index import Index
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
    return await provide_all((Crate("adding", "1.0.0", digest),), sources, folder, Budget(policy))


async def provide_all(found: tuple[Crate, ...], sources: Sources, folder: Path, budget: Budget) -> Path:
    entry = await crates.provide(found, sources.index, folder / "crates", budget)
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


async def test_a_crate_with_links_is_refused_and_writes_to_no_file_elsewhere(sources: Sources, tmp_path: Path) -> None:
    victim = tmp_path / "crates/victim"  # each link by itself stays in the crate; together they lead four folders up
    victim.parent.mkdir()
    victim.write_text("mine")
    top = "adding-1.0.0"
    links = {f"{top}/a/b/c": "../..", f"{top}/.cargo-checksum.json": "a/b/c/../../../victim"}
    digest = sources.add_crate("adding", "1.0.0", ADDS, links=links)
    with pytest.raises(InstallFailed, match=r"not safe to unpack.*is a link"):
        await provide(digest, sources, tmp_path)
    assert victim.read_text() == "mine"


async def test_a_crate_s_own_list_of_digests_is_replaced(sources: Sources, tmp_path: Path) -> None:
    digest = sources.add_crate("adding", "1.0.0", ADDS, {"adding-1.0.0/.cargo-checksum.json": "{}"})
    folder = await provide(digest, sources, tmp_path)
    assert digest in (folder / "vendor/adding-1.0.0/.cargo-checksum.json").read_text()
    digest = sources.add_crate("adding", "1.0.0", ADDS, {"adding-1.0.0/.cargo-checksum.json/a": ""})
    with pytest.raises(InstallFailed, match="not safe to unpack"):
        await provide(digest, sources, tmp_path)


async def test_two_crates_of_one_digest_are_both_laid_out(sources: Sources, tmp_path: Path) -> None:
    digest = sources.add_crate("adding", "1.0.0", ADDS)
    sources.pages["/crates/other/1.0.0/download"] = sources.pages["/crates/adding/1.0.0/download"]
    found = (Crate("adding", "1.0.0", digest), Crate("other", "1.0.0", digest))
    folder = await provide_all(found, sources, tmp_path, Budget(DownloadPolicy()))
    assert len(list(folder.glob("vendor/*/src/lib.rs"))) == 2


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
    with pytest.raises(DownloadRefused, match="with the crates, the downloads of this step take more than"):
        await provide(digest, sources, tmp_path, DownloadPolicy(size=100))


@pytest.mark.parametrize("files", [{"zeros": "0" * MIB}, {f"{number}/{number}/empty": "" for number in range(100)}])
async def test_what_crates_unpack_to_counts_too(sources: Sources, tmp_path: Path, files: dict[str, str]) -> None:
    top = "adding-1.0.0"
    digest = sources.add_crate("adding", "1.0.0", ADDS, {f"{top}/{path}": text for path, text in files.items()})
    assert len(sources.pages["/crates/adding/1.0.0/download"]) < 16 * KIB
    await provide(digest, sources, tmp_path / "enough", DownloadPolicy(size=2 * MIB))
    with pytest.raises(DownloadRefused, match=r"take more than 0\.75 MiB \(SELFHEAL_DOWNLOAD_MB"):
        await provide(digest, sources, tmp_path / "little", DownloadPolicy(size=3 * MIB // 4))
    assert not list((tmp_path / "little/crates").iterdir())


async def test_unpacking_ends_with_the_time_of_the_step(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = sources.add_crate("adding", "1.0.0", ADDS)
    budget = Budget(DownloadPolicy(seconds=60.0))

    async def late(*_: object) -> None:
        await fetched(*_)
        monkeypatch.setattr(budget, "_until", 0.0)

    fetched = budget.fetch
    monkeypatch.setattr(budget, "fetch", late)
    with pytest.raises(DownloadRefused, match=r"take more than 60 s \(SELFHEAL_DOWNLOAD_SECONDS"):
        await provide_all((Crate("adding", "1.0.0", digest),), sources, tmp_path, budget)


async def test_all_the_sources_of_a_step_share_what_is_left_of_it(sources: Sources, tmp_path: Path) -> None:
    digest = sources.add_crate("adding", "1.0.0", ADDS)
    found, policy = (Crate("adding", "1.0.0", digest),), DownloadPolicy(size=MIB, seconds=60.0)
    for budget in (Budget(policy, MIB - KIB), Budget(policy, 0, 60.0)):
        with pytest.raises(DownloadRefused):
            await provide_all(found, sources, tmp_path, budget)
    budget = Budget(policy, MIB // 2)
    await provide_all(found, sources, tmp_path / "one", budget)
    budget.take("the crates", MIB // 2 - 20 * KIB)
    with pytest.raises(DownloadRefused):
        await provide_all(found, sources, tmp_path / "two", budget)


@pytest.mark.parametrize("size", [2 * MIB, 8 * MIB])  # the wheel and pip's copy of it fit in both
async def test_wheels_leave_less_for_the_crates_of_their_step(
    index: Index, sources: Sources, tmp_path: Path, size: int
) -> None:
    index.add_wheel("large", "#" * MIB)
    digest = sources.add_crate("adding", "1.0.0", ADDS, {"adding-1.0.0/zeros": "0" * (2 * MIB)})
    policy = DownloadPolicy(size=size + MIB // 4)
    store = PackageStore(tmp_path / "packages", index.access, policy=policy, upstreams=Upstreams(sources.index, ""))
    async with LocalSandboxes(tmp_path / "open", store).open("crates") as sandbox:
        await sandbox.unpack(tarball({"Cargo.lock": lock(digest).encode()}))
        packages = Packages(requirements=("large",), crates=(".",))
        if size == 2 * MIB:
            with pytest.raises(DownloadRefused, match="with the crates"):
                await sandbox.install(packages)
        else:
            await sandbox.install(packages)


async def test_a_lock_that_is_a_link_is_refused(sources: Sources, tmp_path: Path) -> None:
    store = PackageStore(tmp_path / "packages", IndexAccess((), frozenset()), upstreams=Upstreams(sources.index, ""))
    async with LocalSandboxes(tmp_path / "open", store).open("crates") as sandbox:
        link, file = tarfile.TarInfo("a/Cargo.lock"), tarfile.TarInfo("a/real")
        link.type, link.linkname = tarfile.SYMTYPE, "real"
        await sandbox.unpack(packed([(link, b""), (file, b"")]))
        with pytest.raises(InstallFailed, match=r"Cargo\.lock is a link"):
            await sandbox.install(Packages(crates=(".",)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (lock("0" * 64, "git+https://github.com/a/b?rev=1#1"), "which is not the registry"),
        (lock("0" * 64, "registry+https://other.example/index"), "which is not the registry"),
        (lock("short"), "without a digest"),
        (lock("0" * 64).replace('"adding"\nversion', '"../adding"\nversion'), "without a digest"),
        ("version = ", "not valid TOML"),
        (f"version = {'1' * 5000}", "not valid TOML"),
        ('package = ["x"]', "a package that is no table"),
    ],
)
def test_what_is_not_of_the_registry_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(InstallFailed, match=why):
        crates.read_lock(text)


def test_a_dependency_of_another_source_is_to_be_vendored() -> None:
    with pytest.raises(SourcesUnavailable) as refused:
        crates.read_lock(lock("0" * 64, "git+https://github.com/a/b?rev=1#1"))
    assert refused.value.what_now.startswith("Commit the crates (`cargo vendor`)")


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


async def test_the_upstreams_are_those_of_cargos_and_gos_own_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARGO_HOME", str(tmp_path))
    monkeypatch.setenv("GOPROXY", "off,http://proxy.example.test/,direct")
    assert await upstreams.configured("", "") == Upstreams("", "http://proxy.example.test/")
    mirror = '[source.crates-io]\nreplace-with = "m"\n[source.m]\nregistry = "sparse+http://index.example.test/"\n'
    (tmp_path / "config.toml").write_text(mirror)
    assert await upstreams.configured("", "") == Upstreams("http://index.example.test/", "http://proxy.example.test/")
    assert await upstreams.configured("http://a/", "http://b/") == Upstreams("http://a/", "http://b/")
    (tmp_path / "config.toml").write_text("source = 1\n")
    assert (await upstreams.configured("", "http://b/")).crates == ""
