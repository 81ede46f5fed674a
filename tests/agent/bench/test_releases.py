"""Bugs between two releases: the older one under the newer one's tests, scored by the suite beside the authors' fix."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from agent.bench import packages
from agent.bench.lab import BadInput, Benchmark, Labs, NotPosed
from agent.bench.releases import release
from agent.contract.budget import Usage
from agent.contract.outcome import Evidence, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, FileChange
from agent.edits.changes import diff

pytestmark = pytest.mark.asyncio(loop_scope="session")

OLD = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 2\n"
NEW = OLD.replace("a - b", "a + b") + "\n\ndef half(a):\n    return a / 2\n"
TESTS = (
    "from shop import add, double\nimport shop\n\n\ndef test_add():\n    assert add(2, 3) == 5\n    assert add(2, 2) == 4\n\n\n"
    "def test_zero():\n    assert add(4, 0) == 4\n\n\ndef test_double():\n    assert double(4) == 8\n\n\n"
    "def test_half():\n    assert shop.half(4) == 2\n"
)


def sdist(version: str, code: str, tests: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        files = {
            "shop.py": code,
            "tests/test_shop.py": tests,
            "tox.ini": "[pytest]\naddopts = --no-such-option\n",
            "PKG-INFO": "x",
        }
        for path, text in files.items():
            header = tarfile.TarInfo(f"shop-{version}/{path}")
            header.size = len(text)
            tar.addfile(header, io.BytesIO(text.encode()))
    return packed.getvalue()


@pytest.fixture
def bug(tmp_path: Path) -> dict[str, object]:
    """One bug of a manifest whose releases are already in the cache."""
    hashes = {}
    for key, content in {"old": sdist("1.0", OLD, "def test_old():\n    assert 0\n"), "new": sdist("1.1", NEW, TESTS)}.items():
        hashes[key] = hashlib.sha256(content).hexdigest()
        (tmp_path / "cache").mkdir(exist_ok=True)
        (tmp_path / "cache" / hashes[key]).write_bytes(content)
    return {
        "id": "shop-a",
        "package": "shop",
        "old": "1.0",
        "new": "1.1",
        "sha256": hashes,
        "tests": ["tests"],
        "old_tests": ["tests"],
        "drop_files": [],
        "deselect": ["tests/test_shop.py::test_half"],
        "fail_to_pass": ["tests/test_shop.py::test_add"],
        "pytest_ini": "[pytest]\npythonpath = .\n",
        "test_deps": ["pytest"],
        "fix": {"unified_diff": diff((FileChange("shop.py", OLD, OLD.replace("a - b", "a + b")),))},
    }


def loaded(folder: Path, *bugs: object) -> Benchmark:
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(bugs))
    return packages.load(manifest, folder / "cache")


def repair(before: str, after: str) -> Repair:
    edits = (FileChange("shop.py", OLD, OLD.replace(before, after)),)
    return Repair(edits, "", Diagnosis("", "", 0.5, ""), Evidence((), ""), 0.9, Usage(), ReflectionLog(None, (), (), ()))


@pytest.mark.long
async def test_a_repair_is_set_beside_the_authors_fix(labs: Labs, bug: dict[str, object], tmp_path: Path) -> None:
    bench = loaded(tmp_path, bug)
    assert bench.groups == {"shop-a": "shop"}
    async with bench.trial("shop-a", labs) as trial:
        assert set(trial.specimen.files) == {"shop.py", "tests/test_shop.py", "pytest.ini", "conftest.py", "PKG-INFO"}
        assert trial.specimen.files["shop.py"].content == OLD.encode()
        same = await trial.judge(repair("a - b", "a + b"))
        assert same.heldout_correct is True
        assert same.details["equal_to_fix"] is True
        assert same.details["same_lines"] is True
        assert (same.details["changed_lines"], same.details["authors_changed_lines"]) == (2, 2)
        other = await trial.judge(repair("a - b", "b + a"))
        assert other.heldout_correct is True
        assert other.details["same_lines"] is False
        beside = await trial.judge(repair(OLD, OLD.replace("a - b", "a + b").replace("a * 2", "a * 3")))
        assert beside.heldout_correct is False
        assert [beside.details[key] for key in ("target_green", "nothing_else_red", "equal_to_fix")] == [True, False, False]
        half = await trial.judge(repair("a * 2", "a * 3"))
        assert half.heldout_correct is False
        assert [half.details[key] for key in ("target_green", "nothing_else_red", "equal_to_fix")] == [False, False, False]
        assert "tests/test_shop.py::test_double" in half.details["unlike"]


@pytest.mark.long
async def test_a_fix_that_does_not_turn_its_target_is_no_task(labs: Labs, bug: dict[str, object], tmp_path: Path) -> None:
    bench = loaded(tmp_path, {**bug, "fail_to_pass": ["tests/test_shop.py::test_double"]})
    with pytest.raises(NotPosed, match=r"the fix does not turn .*test_double from failing to passing"):
        async with bench.trial("shop-a", labs):
            pass
    bench = loaded(tmp_path, {**bug, "fix": {"unified_diff": str(bug["fix"]).replace("a - b", "a % b")}})
    with pytest.raises(NotPosed):
        async with bench.trial("shop-a", labs):
            pass


async def test_a_release_is_only_what_its_hash_says(bug: dict[str, object], tmp_path: Path) -> None:
    good = sdist("1.0", OLD, TESTS)
    name = hashlib.sha256(good).hexdigest()
    cache = tmp_path / "cache"
    (cache / name).write_bytes(good)
    assert (await release("shop", "1.0", name, cache))["shop.py"].content == OLD.encode()
    (cache / name).write_bytes(good + b"\0")
    with pytest.raises(NotPosed, match=r"no longer matches the hash of shop 1\.0; remove it"):
        await release("shop", "1.0", name, cache)


async def test_what_leads_outside_of_a_release_is_left_out(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in ("shop-1/../../evil.py", "shop-1/shop.py", "shop-1/sub/"):
            archive.writestr(path, "x = 1\n")
    name = hashlib.sha256(packed.getvalue()).hexdigest()
    (tmp_path / name).write_bytes(packed.getvalue())
    assert set(await release("shop", "1", name, tmp_path)) == {"shop.py"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not a manifest"),
        ("[]", "contains no bug"),
        ('[{"id": "x"}]', "missing required field"),
        ("{}", "is not a manifest"),
    ],
)
async def test_a_wrong_manifest_is_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(BadInput, match=said):
        packages.load(tmp_path / "manifest.json", tmp_path)
    with pytest.raises(BadInput, match="No such file"):
        packages.load(tmp_path / "other.json", tmp_path)
