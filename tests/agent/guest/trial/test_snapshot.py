"""The repository's files, put back between the runs of a search."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.guest.trial import snapshot
from agent.guest.trial.snapshot import Snapshot


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "data" / "__pycache__").mkdir(parents=True)
    (tmp_path / "data" / "a.html").write_text("one")
    (tmp_path / "data" / "b.html").write_text("two")
    return tmp_path


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_what_came_later_is_removed(root: Path) -> None:
    before, taken = names(root), Snapshot(str(root))
    (root / "data" / "c.db").write_text("3")
    (root / "cache" / "deep").mkdir(parents=True)
    (root / "cache" / "deep" / "d.py").write_text("4")
    (root / "link").symlink_to(root / "data")
    (root / "data" / "__pycache__" / "m.pyc").write_text("compiled")
    taken.restore()
    assert names(root) == sorted([*before, "data/__pycache__/m.pyc"])


def test_files_that_were_overwritten_replaced_or_removed_are_put_back(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one, two, taken = root / "data" / "a.html", root / "data" / "b.html", Snapshot(str(root))
    stamp, elsewhere = one.stat().st_mtime_ns, tmp_path_factory.mktemp("elsewhere") / "file"
    elsewhere.write_text("not ours")
    one.write_text("eno")  # of the same size
    os.utime(one, ns=(stamp, stamp))
    two.unlink()
    two.symlink_to(elsewhere)
    taken.restore()
    assert (one.read_text(), two.read_text(), two.is_symlink(), elsewhere.read_text()) == ("one", "two", False, "not ours")
    assert one.stat().st_mtime_ns == stamp  # so that what Python compiled from it stays valid
    one.unlink()
    two.unlink()
    two.mkdir()
    taken.restore()
    assert (one.read_text(), two.read_text()) == ("one", "two")


def test_nothing_is_written_through_a_link_that_took_the_place_of_a_folder(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (root / "latest").symlink_to("data/a.html")
    taken, elsewhere = Snapshot(str(root)), tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "a.html").write_text("not ours")
    (root / "data").rename(root / "moved")
    (root / "data").symlink_to(elsewhere)
    (root / "latest").unlink()
    (root / "latest").write_text("a file now")
    taken.restore()
    assert (elsewhere / "a.html").read_text() == "not ours"
    assert ((root / "data").is_symlink(), (root / "data" / "a.html").read_text(), (root / "moved").exists()) == (
        False,
        "one",
        False,
    )
    assert os.readlink(root / "latest") == "data/a.html"


def test_nothing_is_touched_where_there_are_too_many_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MOST", 3)
    taken = Snapshot(str(root))
    (root / "data" / "a.html").write_text("new")
    (root / "later").touch()
    taken.restore()
    assert (root / "data" / "a.html").read_text() == "new"
    assert (root / "later").exists()
