"""Real bugs of published packages: the older release under the newer release's tests, and the fix that the authors made.

The cases come from the data folder (`package-bugs.json`); releases are downloaded from the package index and checked by hash.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import data


class OutOfReach(Exception):
    """The package index does not give a release; the message says which."""


@dataclass(frozen=True, slots=True)
class PackageBug:
    """One case; `fix` is the authors' unified diff."""

    id: str
    data: dict[str, Any]

    @property
    def fix(self) -> str:
        return str(self.data["fix"]["unified_diff"])

    @property
    def red(self) -> frozenset[str]:
        return frozenset(self.data["fail_to_pass"])

    @property
    def requirements(self) -> tuple[str, ...]:
        return tuple(self.data["test_deps"])


def find(case: str) -> PackageBug:
    """Raises `DataMissing`."""
    return next(PackageBug(case, bug) for bug in data.load(data.PACKAGE_BUGS) if bug["id"] == case)


def red_files(bug: PackageBug, folder: Path) -> dict[str, bytes]:
    """The repository that shows the bug, as files. Raises `OutOfReach`."""
    case = bug.data
    old = _release(case["package"], case["old"], case["sha256"]["old"], folder / "old")
    new = _release(case["package"], case["new"], case["sha256"]["new"], folder / "new")
    for path in case["old_tests"]:
        _remove(old / path)
    for path in case["tests"]:
        (old / path).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (new / path).is_dir() else shutil.copy)(new / path, old / path)
    for path in (*case["drop_files"], "pytest.ini", ".pytest.ini", "tox.ini"):
        _remove(old / path)
    (old / "pytest.ini").write_text(case["pytest_ini"])
    if case["deselect"]:
        (old / "conftest.py").write_text(_leaving_out(case["deselect"]))
    # No workflow of the authors: the story brings its own.
    _remove(old / ".github")
    files = (file for file in sorted(old.rglob("*")) if file.is_file() and not file.is_symlink())
    return {str(file.relative_to(old)): file.read_bytes() for file in files if "__pycache__" not in file.parts}


def as_blocks(diff: str) -> str:
    """A unified diff as the SEARCH/REPLACE blocks in which a model would answer."""
    said = ["The authors' own fix."]
    path = ""
    for part in re.split(r"(?m)^(?=\+\+\+ |@@ )", diff):
        if part.startswith("+++ "):
            path = part[4:].split("\n", 1)[0].removeprefix("b/").strip()
        elif part.startswith("@@ "):
            lines = part.split("\n")[1:]
            lines = [line for line in lines if line[:1] in (" ", "+", "-")]
            before = [line[1:] for line in lines if line[0] in " -"]
            after = [line[1:] for line in lines if line[0] in " +"]
            said.append("\n".join([path, "<<<<<<< SEARCH", *before, "=======", *after, ">>>>>>> REPLACE"]))
    return "\n\n".join(said)


def _release(name: str, version: str, sha256: str, folder: Path) -> Path:
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(folder)]
    got = subprocess.run([*command, f"{name}=={version}"], capture_output=True, text=True)
    archives = [file for file in folder.iterdir() if file.is_file()]
    if got.returncode != 0 or not archives:
        raise OutOfReach(f"{name} {version} cannot be downloaded: {got.stderr.strip()[-300:]}")
    if hashlib.sha256(archives[0].read_bytes()).hexdigest() != sha256:
        raise OutOfReach(f"{archives[0].name} is not the release that the case was made from")
    with tarfile.open(archives[0]) as tar:
        tar.extractall(folder / "tree", filter="data")
    (top,) = (folder / "tree").iterdir()
    return top


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _leaving_out(ids: list[str]) -> str:
    """A conftest that leaves out what the newer tests ask beyond this one bug."""
    return (
        f"LEFT_OUT = {set(ids)!r}\n\n\n"
        "def pytest_collection_modifyitems(config, items):\n"
        "    out = [item for item in items if item.nodeid in LEFT_OUT]\n"
        "    items[:] = [item for item in items if item.nodeid not in LEFT_OUT]\n"
        "    config.hook.pytest_deselected(items=out)\n"
    )
