"""`selfheal cache`: what is kept of packages, and clearing what nobody uses."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from sandbox.base import MIB
from sandbox.install import folder_cache
from sandbox.install.folder_cache import CacheEntry
from tests.app.cli.test_main import selfheal


def cache(tmp_path: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    variables = {"SELFHEAL_DATA_DIR": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "user")}
    return selfheal("cache", *argv, cwd=tmp_path, SELFHEAL_CACHE_MB="7", **variables)


def entry(folder: Path, key: str, size: int) -> CacheEntry:
    """One that is in use until it is released."""
    held = folder_cache.create(folder, key)
    (held.folder / "file").write_bytes(bytes(size))
    return folder_cache.commit(held)


@pytest.fixture
def service(tmp_path: Path) -> Path:
    return tmp_path / "data/sandboxes/packages"


def test_the_caches_of_service_and_command_line_are_shown(tmp_path: Path, service: Path) -> None:
    user = tmp_path / "user/selfheal/packages"
    for folder, key, size in ((service / "wheels", "a", MIB), (service / "wheels", "b", MIB), (user / "environments", "c", 10)):
        folder_cache.release(entry(folder, key, size))
    os.utime(next((service / "wheels").glob("a-*")), (0, 86_400))
    (service / "pythons/cpython-3.12.1-linux").mkdir(parents=True)
    (service / "pythons/.temp").mkdir()
    found = {row["path"]: row for row in json.loads(cache(tmp_path, "--json").stdout)}
    assert list(found) == [str(service / "wheels"), str(service / "pythons"), str(user / "environments")]
    wheels = found[str(service / "wheels")]
    assert (wheels["name"], wheels["entries"], wheels["size"], wheels["bound"]) == ("wheels", 2, 2 * MIB, 7 * MIB)
    assert wheels["oldest"] == "1970-01-02T00:00:00Z" < wheels["newest"]
    assert found[str(service / "pythons")]["entries"] == 1
    shown = cache(tmp_path)
    assert shown.returncode == 0
    for said in ("wheels", "2.0 MiB", "7.0 MiB", "1970-01-02T00:00:00Z", str(user / "environments")):
        assert said in shown.stdout


def test_what_nobody_uses_is_cleared_and_what_is_in_use_stays(tmp_path: Path, service: Path) -> None:
    folder_cache.release(entry(service / "wheels", "a", MIB))
    used = entry(service / "wheels", "b", MIB)
    folder_cache.release(entry(service / "environments", "c", 10))
    left = folder_cache.create(service / "wheels", "d")
    os.close(left.lock)  # as when its worker dies
    done = cache(tmp_path, "clear", "wheels")
    assert (done.returncode, done.stdout) == (0, "wheels: removed 2 entries (1.0 MiB); 1 in use stays\n")
    assert list((service / "wheels").iterdir()) == [used.folder]
    folder_cache.release(used)
    done = cache(tmp_path, "clear")
    assert done.returncode == 0
    assert done.stdout.splitlines()[:2] == ["wheels: removed 1 entry (1.0 MiB)", "environments: removed 1 entry (0.0 MiB)"]
    assert [list(folder.iterdir()) for folder in service.iterdir()] == [[], []]


def test_without_a_cache_nothing_is_made(tmp_path: Path) -> None:
    assert cache(tmp_path).stdout == "No caches yet.\n"
    assert json.loads(cache(tmp_path, "--json").stdout) == []
    assert cache(tmp_path, "clear").returncode == 0
    assert not list(tmp_path.iterdir())


def test_an_unknown_cache_is_wrong_use(tmp_path: Path) -> None:
    done = cache(tmp_path, "clear", "whels")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "selfheal: there is no cache 'whels'; the caches are wheels, environments, modules, crates, go-modules, e2b, pythons\n"
    )
