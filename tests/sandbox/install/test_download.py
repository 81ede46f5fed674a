"""What is downloaded outside the sandbox is bounded while it is downloaded, and what was refused is not kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sandbox.base import MIB, InstallFailed, Limits, Packages
from sandbox.install.download import DownloadPolicy, DownloadRefused
from sandbox.install.packages import PackageStore
from sandbox.install.python import wheels
from sandbox.install.python.interpreters import own
from sandbox.install.python.requirements import RequirementLines
from sandbox.process import ProcessSandboxes
from tests.sandbox.conftest import tarball
from tests.sandbox.index import Index


def sets(*names: str) -> tuple[RequirementLines, ...]:
    """One set of requirements for each."""
    return tuple(RequirementLines((name,)) for name in names)


async def fetch(folder: Path, policy: DownloadPolicy, *names: str) -> tuple[list[str], tuple[str, ...], str]:
    """The wheels, what is missing, and the note."""
    async with wheels.fetched(folder, own(), sets(*names), policy) as found:
        return sorted(path.name.partition("-")[0] for path in found.folder.glob("*.whl")), found.missing, found.note


def add(index: Index, name: str, size: int, version: str = "1.0") -> None:
    index.add_wheel(name, "#" * size, version)


@pytest.mark.long
async def test_the_bytes_of_all_sets_count_together(index: Index, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        add(index, name, 2 * MIB)
    kept, _, _ = await fetch(tmp_path / "enough", DownloadPolicy(size=9 * MIB), "one", "two", "three")
    assert kept == ["one", "three", "two"]
    with pytest.raises(DownloadRefused, match=r"5 MiB on disk.*SELFHEAL_DOWNLOAD_MB"):
        await fetch(tmp_path / "little", DownloadPolicy(size=5 * MIB), "one", "two", "three")
    assert list((tmp_path / "little").iterdir()) == []


async def test_with_several_indexes_the_resolvers_files_count_too(
    index: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{index.url}/")
    add(index, "large", 3 * MIB)
    with pytest.raises(DownloadRefused, match="SELFHEAL_DOWNLOAD_MB"):
        await fetch(tmp_path / "wheels", DownloadPolicy(size=2 * MIB), "large")
    assert list((tmp_path / "wheels").iterdir()) == []


async def test_a_sandboxs_disk_bounds_its_downloads(index: Index, tmp_path: Path) -> None:
    add(index, "large", 3 * MIB)
    sandboxes = ProcessSandboxes(tmp_path / "open", PackageStore(tmp_path / "packages", index.access))
    async with sandboxes.open("small", Limits(disk=2 * MIB)) as sandbox:
        await sandbox.unpack(tarball({"a": b""}))
        with pytest.raises(InstallFailed, match=r"2 MiB on disk.*the sandbox's disk limit"):
            await sandbox.install(Packages(requirements=("large",)))
    assert list((tmp_path / "packages/wheels").iterdir()) == []


@dataclass
class Endless:
    """`sent` are the bytes that it could send."""

    url: str
    sent: int = 0
    paused: bool = False


@contextmanager
def endless(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endless]:
    """An index with a wheel that never ends; if it is `paused`, it sends nothing at all."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if told.paused:
                over.wait(30)
            self.send_response(200)
            page = self.path.endswith("/")
            self.send_header("Content-Type", "text/html" if page else "application/octet-stream")
            self.end_headers()
            if page:
                self.wfile.write(b'<a href="large-1.0-py3-none-any.whl">large-1.0-py3-none-any.whl</a>')
            while not page and not over.is_set():
                try:
                    told.sent += self.wfile.write(bytes(MIB))
                except OSError:
                    return

        def log_message(self, *args: object) -> None: ...

    over = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told = Endless(f"http://127.0.0.1:{server.server_port}/simple")
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", told.url)
    try:
        yield told
    finally:
        over.set()
        server.shutdown()
        server.server_close()


async def test_an_endless_download_is_stopped_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with endless(monkeypatch) as server:
        with pytest.raises(DownloadRefused, match="SELFHEAL_DOWNLOAD_MB"):
            await fetch(tmp_path / "wheels", DownloadPolicy(size=20 * MIB), "large")
        assert server.sent < 500 * MIB, "it is looked at ten times a second"
    assert list((tmp_path / "wheels").iterdir()) == []


async def test_an_index_that_does_not_answer_is_waited_for_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with endless(monkeypatch) as server:
        server.paused = True
        with pytest.raises(DownloadRefused, match=r"1 s .*SELFHEAL_DOWNLOAD_SECONDS"):
            await fetch(tmp_path / "wheels", DownloadPolicy(seconds=1.0), "large")
    assert list((tmp_path / "wheels").iterdir()) == []


async def test_the_time_of_all_sets_and_retries_counts_together(index: Index, tmp_path: Path) -> None:
    missing = [f"missing{number}" for number in range(10)]  # a quarter of a second each, and again for each retry
    with pytest.raises(DownloadRefused, match="SELFHEAL_DOWNLOAD_SECONDS"):
        await fetch(tmp_path / "wheels", DownloadPolicy(seconds=1.0), *missing)
    assert list((tmp_path / "wheels").iterdir()) == []


@pytest.mark.long
async def test_what_cannot_be_had_is_found_among_many_without_asking_for_each_alone(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"there{number}" for number in range(8)]
    for name in names:
        add(index, name, 100)
    fetched, calls = wheels.PipClient.fetch, list[RequirementLines]()

    async def counted(self: wheels.PipClient, lines: RequirementLines, settings: Mapping[str, str], into: Path) -> bool:
        calls.append(lines)
        return await fetched(self, lines, settings, into)

    monkeypatch.setattr(wheels.PipClient, "fetch", counted)
    asked = (RequirementLines((*names[:3], "nowhere", *names[3:7])),)
    async with wheels.fetched(tmp_path / "wheels", own(), asked) as found:
        assert found.missing == ("nowhere",)
        assert sorted(path.name.partition("-")[0] for path in found.folder.glob("*.whl")) == names[:7]
    assert len(calls) == 7, "all, then the halves of what fails"
    async with wheels.fetched(tmp_path / "wheels", own(), asked) as found:
        assert (found.missing, len(calls)) == (("nowhere",), 7), "it is known for a while"
    add(index, "nowhere", 100)
    monkeypatch.setattr(wheels, "RETRY_SECONDS", -1.0)
    async with wheels.fetched(tmp_path / "wheels", own(), asked) as found:
        assert (found.missing, len(calls)) == ((), 8)


@pytest.mark.long
async def test_what_one_worker_lacks_does_not_replace_what_another_has(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(index, "one", 100)
    asked, cache, download = (RequirementLines(("one", "two")),), tmp_path / "wheels", wheels._download_all

    async def overtaken(*given: Any) -> tuple[str, ...]:
        missing = await download(*given)
        monkeypatch.setattr(wheels, "_download_all", download)
        add(index, "two", 100)
        async with wheels.fetched(cache, own(), asked) as other:
            assert other.missing == ()
        return missing

    monkeypatch.setattr(wheels, "_download_all", overtaken)
    async with wheels.fetched(cache, own(), asked) as found:
        assert found.missing == ()
    async with wheels.fetched(cache, own(), asked) as found:
        assert (found.missing, len(found.digests)) == ((), 2)


async def test_an_index_without_any_of_many_is_not_asked_for_each(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[RequirementLines]()

    async def nothing(self: wheels.PipClient, lines: RequirementLines, settings: object, into: Path) -> bool:
        calls.append(lines)
        return False

    monkeypatch.setattr(wheels.PipClient, "fetch", nothing)
    async with wheels.fetched(tmp_path / "wheels", own(), (RequirementLines(tuple(f"a{n}" for n in range(64))),)) as found:
        assert (len(found.missing), len(calls)) == (64, 8)


@pytest.mark.long
async def test_what_is_larger_than_the_cache_is_used_once(index: Index, tmp_path: Path) -> None:
    add(index, "small", 1000)
    add(index, "large", 3 * MIB)
    policy = DownloadPolicy(cache=2 * MIB)
    await fetch(tmp_path / "wheels", policy, "small")
    before = list((tmp_path / "wheels").iterdir())
    kept, missing, _ = await fetch(tmp_path / "wheels", policy, "large")
    assert (kept, missing) == (["large"], ())
    assert list((tmp_path / "wheels").iterdir()) == before, "and it drives nothing else out"


@pytest.mark.long
async def test_a_refresh_that_is_refused_leaves_the_old_download(
    index: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add(index, "growing", 1000)
    await fetch(tmp_path / "wheels", DownloadPolicy(), "growing")
    add(index, "growing", 3 * MIB, "2.0")
    monkeypatch.setattr(wheels, "FRESH_SECONDS", -1.0)
    kept, missing, note = await fetch(tmp_path / "wheels", DownloadPolicy(size=2 * MIB), "growing")
    assert (kept, missing) == (["growing"], ())
    assert "could not be refreshed" in note
    assert len(list((tmp_path / "wheels").iterdir())) == 1


@pytest.mark.long
async def test_nothing_is_written_to_the_users_own_cache(
    index: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CACHE_HOME", "PIP_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{index.url}/")
    add(index, "small", 1000)
    await fetch(tmp_path / "wheels", DownloadPolicy(), "small")
    assert {path.name for path in (tmp_path / "home").glob("*")} <= {".rustup"}, "pip asks rustc for its version"
    (entry,) = (tmp_path / "wheels").iterdir()
    assert sorted(path.name for path in entry.iterdir()) == [wheels.DIGESTS, "small-1.0-py3-none-any.whl"]
