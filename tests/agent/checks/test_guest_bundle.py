import ast
import importlib.util
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.checks.guest_bundle import PACKAGE, guest_bundle
from sandbox.proof.prove import attacks_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "guest.zip"
    path.write_bytes(guest_bundle())
    return path


def test_the_same_sources_give_the_same_bytes() -> None:
    first = guest_bundle()
    guest_bundle.cache_clear()
    assert guest_bundle() == first


def test_it_hides_no_module_of_a_repository() -> None:
    names = zipfile.ZipFile(io.BytesIO(guest_bundle())).namelist()
    assert {name.split("/")[0] for name in names} == {"__main__.py", "__main__.pyc", PACKAGE}
    assert f"{PACKAGE}/run.py" in names


def test_an_unknown_subcommand_is_named(bundle: Path) -> None:
    for argument in ("gone", "../run", "_x", "text"):
        done = subprocess.run([sys.executable, bundle, argument], capture_output=True, text=True, timeout=30)
        assert done.returncode == 2
        assert "usage" in done.stderr or argument in done.stderr


def test_it_runs_without_the_house_and_without_site_packages(bundle: Path) -> None:
    done = subprocess.run([sys.executable, "-I", "-S", bundle, "run"], input="{}", capture_output=True, text=True, timeout=30)
    assert "KeyError" in done.stderr  # it started and read its request


def test_a_python_of_our_version_compiles_nothing_and_any_other_reads_the_source(bundle: Path, tmp_path: Path) -> None:
    program = "import sys; sys.path.insert(0, sys.argv[1]); from importlib import import_module as i; "
    program += "import zipimport; zipimport._compile_source = None; print(i('selfheal_guest.text').one_line('a\\nb', 9))"
    ours = subprocess.run([sys.executable, "-I", "-c", program, bundle], capture_output=True, text=True, timeout=30)
    assert ours.stdout == "a\n", ours.stderr
    other = tmp_path / "other.zip"
    other.write_bytes(bundle.read_bytes().replace(importlib.util.MAGIC_NUMBER, b"\x01\x02\r\n"))
    assert subprocess.run([sys.executable, "-I", "-c", program, other], capture_output=True, timeout=30).returncode == 1
    done = subprocess.run([sys.executable, "-I", "-S", other, "run"], input="{}", capture_output=True, text=True, timeout=30)
    assert "KeyError" in done.stderr


@pytest.mark.parametrize("bundled", [guest_bundle, attacks_bundle], ids=["guest", "attacks"])
def test_every_module_parses_on_python_3_8(bundled: Callable[[], bytes]) -> None:
    archive = zipfile.ZipFile(io.BytesIO(bundled()))
    names = [name for name in archive.namelist() if name.endswith(".py")]
    assert len(names) > 5
    for name in names:
        ast.parse(archive.read(name), name, feature_version=(3, 8))
