"""Pythons that uv brings: a real uv downloads one from a server of ours, once, and code runs on it in the jail."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import sysconfig
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sandbox.base import MIB, Command, Packages
from sandbox.host import disk
from sandbox.install import caches
from sandbox.install.download import DownloadPolicy
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.install.python import interpreters
from sandbox.install.python.interpreters import (
    UNPACKING,
    Interpreter,
    ManagedPythons,
    Version,
    choose,
    own,
    prune,
    pythons_in,
    runs_as,
)
from sandbox.local import LocalSandboxes
from sandbox.process import ProcessSandboxes
from tests.sandbox.conftest import no_bubblewrap, tarball

LEFT_OUT = ("site-packages", "test", "__pycache__", "idlelib", "tkinter", "config-", "ensurepip", "lib2to3")


@dataclass
class Mirror:
    url: str
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """This machine's own Python, packed as uv expects one: a folder `python` with `bin` and `lib`."""
    made = tmp_path_factory.mktemp("python") / "python.tar.gz"
    prefix, name = Path(os.path.realpath(sys.base_prefix)), f"python{sys.version_info[0]}.{sys.version_info[1]}"

    def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if any(part.startswith(LEFT_OUT) for part in Path(member.name).parts) else member

    with tarfile.open(made, "w:gz", compresslevel=1) as tar:
        tar.add(own().path, f"python/bin/{name}")
        tar.add(prefix / "lib" / name, f"python/lib/{name}", filter=wanted)
        for library in (prefix / "lib").glob("libpython*.so*"):
            tar.add(library, f"python/lib/{library.name}")
    return made.read_bytes()


@contextmanager
def mirror(archive: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Mirror]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            there.asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(archive)))
            self.end_headers()
            self.wfile.write(archive)

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there = Mirror(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    major, minor, patch = own().parts
    arch = platform.machine()
    told = {
        f"cpython-{own().version}-linux-{arch}-gnu": {
            "name": "cpython", "arch": {"family": arch, "variant": None}, "os": "linux", "libc": "gnu",
            "major": major, "minor": minor, "patch": patch, "prerelease": "", "variant": None, "build": "1",
            "url": f"{there.url}/python.tar.gz", "sha256": hashlib.sha256(archive).hexdigest(),
        }
    }  # fmt: skip
    (tmp_path / "downloads.json").write_text(json.dumps(told))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", (tmp_path / "downloads.json").as_uri())
    try:
        yield there
    finally:
        server.shutdown()
        server.server_close()


def needs_uv() -> None:
    if interpreters.uv_binary() is None:
        pytest.skip("uv is not installed")


@pytest.mark.parametrize("kind", ["local", "process"])
async def test_a_python_that_is_missing_is_downloaded_once_and_runs_the_code(
    kind: str, archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_uv()
    no_bubblewrap()
    shared = sysconfig.get_config_var("Py_ENABLE_SHARED")
    if (
        kind == "local"
        and shared
        and not list(Path("/usr/lib").glob(f"*/libpython{sys.version_info[0]}.{sys.version_info[1]}*"))
    ):
        pytest.skip("this machine's Python looks for its own library where a jail does not show it; a downloaded one does not")
    wanted = own().minor
    with mirror(archive, monkeypatch, tmp_path) as there:
        # Whoever has this version anyway would not download it.
        monkeypatch.setattr(interpreters, "own", other)
        monkeypatch.setattr(interpreters, "_usual_locations", lambda name: [])
        monkeypatch.setenv("PATH", "/nowhere")
        pythons = ManagedPythons(tmp_path / "cache/pythons")
        store = PackageStore(tmp_path / "cache", IndexAccess((), frozenset()), pythons)
        found = await choose(f"{wanted[0]}.{wanted[1]}", pythons)
        assert found.minor == wanted
        assert Path(found.prefix).is_relative_to((tmp_path / "cache").resolve())
        assert await choose(f"{wanted[0]}.{wanted[1]}", pythons) == found
        assert await choose(f"{wanted[0]}.{wanted[1]}", ManagedPythons(tmp_path / "cache/pythons", downloads=False)) == found
        assert there.asked == ["/python.tar.gz"]
        sandboxes = (LocalSandboxes if kind == "local" else ProcessSandboxes)(tmp_path / "open", store)
        async with sandboxes.open("managed") as sandbox:
            await sandbox.unpack(tarball({"a.py": b"import json, sys; print(sys.base_prefix)"}))
            installed = await sandbox.install(Packages(python=f"{wanted[0]}.{wanted[1]}"))
            ran = await sandbox.base.run(Command((sandbox.base.python, "a.py"), timeout=30.0))
        assert (installed.python, installed.notes) == (found.version, ())
        assert ran.stdout.decode().strip() == found.prefix, ran.stderr


def other() -> Interpreter:
    """The worker's own Python, were it another one."""
    return Interpreter("/nowhere/python", "/nowhere", "3.7.0")


async def test_what_cannot_be_had_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_uv()
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", (tmp_path / "nothing.json").as_uri())
    pythons = ManagedPythons(tmp_path / "pythons")
    assert await pythons.fetched((3, 15)) is None
    asked: list[object] = []
    monkeypatch.setattr(interpreters, "uv_binary", lambda: asked.append(1))
    assert await pythons.fetched((3, 15)) is None
    assert not asked


async def test_downloads_can_be_turned_off(archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_uv()
    with mirror(archive, monkeypatch, tmp_path) as there:
        assert await ManagedPythons(tmp_path / "pythons", downloads=False).fetched(own().minor) is None
        assert there.asked == []


async def test_an_installed_one_is_found_by_uv_before_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[Version, Interpreter] = {(3, 13): Interpreter("/p/bin/python3.13", "/p", "3.13.5")}
    pythons = ManagedPythons(tmp_path, downloads=False, _found=found)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(interpreters, "own", other)
    monkeypatch.setattr(interpreters, "_usual_locations", lambda name: [])
    for wish in ("3.13", "3.13.1", "3.13t", ">=3.13", "3.13 - 3.14", "pypy3.13", "3.14-dev"):
        assert (await choose(wish, pythons)).version == "3.13.5", wish


@pytest.mark.parametrize(
    ("wanted", "version", "same"),
    [
        (None, "3.11.7", True), ("3.11", "3.11.7", True), ("3.11.7", "3.11.7", True), ("3.x", "3.11.7", True),
        ("3.14-dev", "3.14.0", True), ("3.1", "3.11.7", False), ("3.11.4", "3.11.7", False), ("3.13", "3.11.7", False),
        ("3.13t", "3.13.5", False), ("pypy3.10", "3.10.2", False),
    ],
)  # fmt: skip
def test_another_version_than_the_wanted_one_is_told(wanted: str | None, version: str, same: bool) -> None:
    assert runs_as(wanted, version) is same


async def test_a_python_beyond_a_bound_is_refused_with_the_setting_and_nothing_of_it_stays(
    archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_uv()
    wanted = own().minor
    for policy, setting in (
        (DownloadPolicy(size=MIB), "SELFHEAL_DOWNLOAD_MB"),
        (DownloadPolicy(cache=MIB), "SELFHEAL_CACHE_MB"),
    ):
        with mirror(archive, monkeypatch, tmp_path):
            pythons = ManagedPythons(tmp_path / "pythons", policy=policy)
            assert await pythons.fetched(wanted) is None
        assert setting in pythons.refusal(f"{wanted[0]}.{wanted[1]}")
        assert pythons.refusal("3.8") == pythons.refusal(None) == ""
        assert disk.size(tmp_path / "pythons", MIB) < MIB // 10, "only what uv needs itself"


@pytest.mark.long
async def test_the_oldest_pythons_make_room_unless_somebody_has_chosen_them(
    archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_uv()
    folder = tmp_path / "pythons"
    used, unused = (folder / f"cpython-3.{minor}.1-linux" for minor in (8, 9))
    for path in (used, unused, folder / UNPACKING / "left"):
        (path / "bin").mkdir(parents=True)
        (path / "bin/python").write_bytes(bytes(MIB))
    other_worker = ManagedPythons(folder)
    assert other_worker.hold(Interpreter(str(used / "bin/python"), str(used), "3.8.1"))
    pythons = ManagedPythons(folder)
    with mirror(archive, monkeypatch, tmp_path):
        assert await pythons.fetched(own().minor) is not None
    (made,) = set(pythons_in(folder)) - {used, unused}
    assert list((folder / UNPACKING).iterdir()) == [], "what a killed download has left is gone"
    prune(folder, disk.size(made, 1 << 40) + MIB // 2)
    assert set(pythons_in(folder)) == {used, made}
    prune(folder, 0)
    assert set(pythons_in(folder)) == {used, made}, "both are in use"


@pytest.mark.long
async def test_a_python_that_was_cleared_is_downloaded_again(
    archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_uv()
    first = ManagedPythons(tmp_path / "pythons")
    monkeypatch.setattr(interpreters, "own", other)
    monkeypatch.setattr(interpreters, "_usual_locations", lambda name: [])
    wanted = f"3.{sys.version_info[1]}"
    with mirror(archive, monkeypatch, tmp_path) as there:
        monkeypatch.setenv("PATH", "/nowhere")
        found = await choose(wanted, first)
        known = ManagedPythons(tmp_path / "pythons")
        await known.installed()
        for lock in first._held.values():
            os.close(lock)  # as when its process ends
        assert caches.clear(tmp_path, "pythons").removed >= 1
        assert await choose(wanted, known) == found
        assert len(there.asked) == 2
    assert caches.clear(tmp_path, "pythons").in_use == 1
