"""Which sandbox is handed out, and which one is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox import folders
from sandbox.backends import open_sandboxes
from sandbox.base import SandboxUnavailable
from sandbox.install import folder_cache
from sandbox.install.package_index import configured
from sandbox.install.python import interpreters
from sandbox.install.python.interpreters import choose, own


async def test_auto_is_local_and_untrusted_code_may_run_there(tmp_path: Path) -> None:
    for kind in ("auto", "local"):
        sandboxes = await open_sandboxes(kind, tmp_path)
        assert (sandboxes.isolation.name, sandboxes.isolation.untrusted) == ("local", True)


async def test_process_needs_somebody_who_trusts_the_code(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="trusted"):
        await open_sandboxes("process", tmp_path)
    sandboxes = await open_sandboxes("process", tmp_path, trusted=True)
    assert not sandboxes.isolation.untrusted


async def test_who_starts_clears_what_a_killed_worker_has_left(tmp_path: Path) -> None:
    left, used = (folder_cache.create(tmp_path / "packages/environments", "q") for _ in range(2))
    box = folders.make(tmp_path / "open", "left")
    for lock in (left.lock, box.lock):
        os.close(lock)  # as when their worker dies
    await open_sandboxes("local", tmp_path)
    assert not left.folder.exists()
    assert not box.path.exists()
    assert used.folder.exists()
    folder_cache.release(used)


async def test_the_index_is_read_from_the_package_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.invalid/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://other.invalid:8080/simple file:///wheels https://u:secret@third.invalid/")
    access = await configured()
    assert access.urls == ("https://mirror.invalid/simple", "http://other.invalid:8080/simple")
    assert access.hosts == {"mirror.invalid:443", "other.invalid:8080"}
    assert (await configured(("own.invalid", "own.invalid:81"))).hosts == {"own.invalid:443", "own.invalid:81"}


async def test_without_a_configured_index_it_is_the_clients_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from pip._internal.models.index import PyPI

    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    access = await configured()
    assert access.urls == (PyPI.simple_url,)
    assert access.hosts == {f"{PyPI.netloc}:443", f"{PyPI.file_storage_domain}:443"}


async def test_the_nearest_interpreter_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = own()
    assert await choose(None) == await choose("nonsense") == await choose(mine.version) == mine
    for minor, answer in (("3.12", '["/opt/p/python3.12", "/opt/p", "3.12.9"]'), ("3.13", None)):
        program = tmp_path / f"python{minor}"
        program.write_text(f"#!/bin/sh\necho '{answer}'\n" if answer else "#!/bin/sh\nexit 127\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(interpreters, "_usual_locations", lambda name: [])  # whatever else this machine has
    monkeypatch.setattr(interpreters.sys, "version_info", (3, 9, 0))
    old = tmp_path / "python3.6"
    old.write_text('#!/bin/sh\necho \'["/opt/o/python3.6", "/opt/o", "3.6.15"]\'\n')
    old.chmod(0o755)
    assert (await choose("3.6")).version != "3.6.15", "it cannot run our code"
    assert (await choose("3.13")).version == "3.12.9"  # 3.13 is only the stand-in of a version manager
