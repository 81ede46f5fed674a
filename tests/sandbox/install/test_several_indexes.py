"""Dependency confusion: with several package indexes, nobody replaces a project of the first by a higher version elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sandbox.base import InstallFailed, Packages
from sandbox.install.download import DownloadPolicy, IndexStrategy
from sandbox.install.package_index import IndexAccess, configured
from sandbox.install.packages import PackageStore
from sandbox.install.python import interpreters, wheels
from sandbox.install.python.interpreters import Interpreter, own
from sandbox.install.python.requirements import RequirementLines
from sandbox.local import LocalSandboxes
from tests.sandbox.conftest import no_bubblewrap, tarball
from tests.sandbox.index import Index, serving
from tests.sandbox.install.test_packages import python

ANSWER = "import private; print(private.answer)"


def with_password(index: Index) -> str:
    return index.url.replace("://", "://somebody:secret@")


@pytest.fixture
def indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Index, Index]]:
    """The operator's own, and one where anybody may publish: there, its project has a higher version, and the same one."""
    with serving(tmp_path / "first") as first, serving(tmp_path / "second") as second:
        first.add_wheel("private", "answer = 'ours'")
        for version in ("1.0", "2.0"):
            second.add_wheel("private", "answer = 'theirs'", version)
        second.add_wheel("public")
        monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", first.url)
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", second.url)
        monkeypatch.setenv("PIP_RETRIES", "0")
        yield first, second


async def downloaded(
    tmp_path: Path, *requirements: str, strategy: IndexStrategy = "first", python: Interpreter | None = None
) -> tuple[set[str], tuple[str, ...]]:
    """The wheels that the download step finds, with who wrote them, and what is missing."""
    sets = (RequirementLines(requirements),)
    async with wheels.fetched(tmp_path / "wheels", python or own(), sets, DownloadPolicy(strategy=strategy)) as found:
        made = {path.name: path.read_bytes() for path in found.folder.glob("*.whl")}
    return {f"{name.partition('-py3')[0]}{' theirs' * (b'theirs' in content)}" for name, content in made.items()}, found.missing


async def test_a_project_is_downloaded_from_the_first_index_that_has_it(indexes: tuple[Index, Index], tmp_path: Path) -> None:
    assert await downloaded(tmp_path, "private", "public") == ({"private-1.0", "public-1.0"}, ())
    assert not [path for path in indexes[1].requests if path.endswith(".whl") and "private" in path]


async def test_what_the_first_index_lacks_in_this_version_is_missing(indexes: tuple[Index, Index], tmp_path: Path) -> None:
    assert await downloaded(tmp_path, "private>=2", "public") == ({"public-1.0"}, ("private>=2",))


@pytest.mark.long
async def test_an_operator_may_want_the_highest_version(indexes: tuple[Index, Index], tmp_path: Path) -> None:
    assert await downloaded(tmp_path, "private", strategy="best") == ({"private-2.0 theirs"}, ())
    assert await downloaded(tmp_path, "private") == ({"private-1.0"}, ()), "a cached answer of the other kind is none"


@pytest.mark.parametrize("extra", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_so_it_is_for_a_python_that_is_too_old_for_the_workers_pip(
    indexes: tuple[Index, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: bool
) -> None:
    old = replace(own(), version="3.8.18")
    if not extra:
        monkeypatch.delenv("PIP_EXTRA_INDEX_URL")
    assert await downloaded(tmp_path, "private", python=old) == ({"private-1.0"}, ())
    newest = "private-2.0 theirs" if extra else "private-1.0"
    assert await downloaded(tmp_path, "private", strategy="best", python=old) == ({newest}, ())


@pytest.mark.long
async def test_without_uv_only_the_first_index_is_asked(
    indexes: tuple[Index, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreters, "uv_binary", lambda: None)
    assert await downloaded(tmp_path, "private", "public") == ({"private-1.0"}, ("public",))
    assert indexes[1].requests == []


async def test_a_first_index_that_fails_is_not_passed_over(
    indexes: tuple[Index, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(500)

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        assert await downloaded(tmp_path, "private") == (set(), ("private",))
        server.shutdown()


@pytest.mark.long
async def test_an_index_with_a_password_is_the_first_too_and_keeps_it(
    indexes: tuple[Index, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = indexes
    monkeypatch.setenv("PIP_INDEX_URL", with_password(first))
    assert await downloaded(tmp_path, "private", "public") == ({"private-1.0", "public-1.0"}, ())
    access = await configured()
    assert (access.urls, access.hosts) == ((), frozenset()), "inside, where it cannot be used, the second would be the first"
    assert (await configured(strategy="best")).urls == (second.url,)
    monkeypatch.setenv("PIP_INDEX_URL", second.url)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", with_password(first))
    assert (await configured()).urls == (second.url,)


async def test_with_no_index_none_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert (await configured()).urls == ()


@pytest.mark.parametrize(
    ("client", "strategy", "answer"),
    [
        ("uv", "first", "ours"),
        pytest.param("pip", "first", "ours", marks=pytest.mark.long),
        pytest.param("uv", "best", "theirs", marks=pytest.mark.long),
    ],
)
async def test_what_is_built_inside_gets_the_first_indexs_project(
    client: str,
    strategy: IndexStrategy,
    answer: str,
    indexes: tuple[Index, Index],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_bubblewrap()
    if client == "pip":
        monkeypatch.setattr(interpreters, "uv_binary", lambda: None)
    first, second = indexes
    first.add_source("sourceful", tmp_path / "executed", "private")
    access = IndexAccess((first.url, second.url), first.access.hosts | second.access.hosts)
    store = PackageStore(tmp_path / "packages", access, policy=DownloadPolicy(strategy=strategy))
    async with LocalSandboxes(tmp_path / "open", store).open("build") as sandbox:
        await sandbox.unpack(tarball({"a": b""}))
        installed = await sandbox.install(Packages(requirements=("sourceful",)))
        assert installed.built == ("sourceful",)
        assert await python(sandbox, ANSWER) == answer


@pytest.mark.long
async def test_a_build_without_a_usable_first_index_fails_and_takes_nothing_from_the_second(
    indexes: tuple[Index, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_bubblewrap()
    first, second = indexes
    second.add_source("sourceful", tmp_path / "executed", "private")
    monkeypatch.setenv("PIP_INDEX_URL", with_password(first))
    store = PackageStore(tmp_path / "packages", await configured())
    async with LocalSandboxes(tmp_path / "open", store).open("build") as sandbox:
        await sandbox.unpack(tarball({"a": b""}))
        with pytest.raises(InstallFailed):
            await sandbox.install(Packages(requirements=("sourceful",)))
    assert not [path for path in second.requests if path.endswith(".whl")]


@pytest.mark.long
async def test_the_operators_constraints_hold(
    indexes: tuple[Index, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes[0].add_wheel("private", "answer = 'ours'", "3.0")
    (constraints := tmp_path / "operators.txt").write_text("private<2\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))
    assert await downloaded(tmp_path, "private", "public") == ({"private-1.0", "public-1.0"}, ())
