import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agent.guest_bundle import PACKAGE, guest_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "guest.pyz"
    path.write_bytes(guest_bundle())
    return path


def test_the_same_sources_give_the_same_bytes() -> None:
    first = guest_bundle()
    guest_bundle.cache_clear()
    assert guest_bundle() == first


def test_it_hides_no_module_of_a_repository() -> None:
    names = zipfile.ZipFile(io.BytesIO(guest_bundle())).namelist()
    assert {name.split("/")[0] for name in names} == {"__main__.py", PACKAGE}
    assert f"{PACKAGE}/run.py" in names


def test_an_unknown_subcommand_is_named(bundle: Path) -> None:
    for argument in ("gone", "../run", "_x"):
        done = subprocess.run([sys.executable, bundle, argument], capture_output=True, text=True, timeout=30)
        assert done.returncode == 2
        assert "usage" in done.stderr or argument in done.stderr


def test_it_runs_without_the_house_and_without_site_packages(bundle: Path) -> None:
    done = subprocess.run([sys.executable, "-I", "-S", bundle, "run"], input="{}", capture_output=True, text=True, timeout=30)
    assert "KeyError" in done.stderr  # it started and read its request
