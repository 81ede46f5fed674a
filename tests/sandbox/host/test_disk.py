"""Trees of any shape that hostile code makes cost its own attempt and nothing else."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import folders
from sandbox.base import Limits
from sandbox.host import disk
from sandbox.install import folder_cache
from sandbox.install.python import environments
from sandbox.install.python.interpreters import own
from sandbox.install.python.requirements import RequirementLines
from tests.app.waiting import until
from tests.tiers import long_but


def deep(top: Path, depth: int, name: str = "d") -> None:
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def closed(top: Path) -> None:
    for mode in (0o000, 0o300, 0o500, 0o100):
        folder = top / f"mode-{mode:o}" / "below"
        folder.mkdir(parents=True)
        (folder / "file").touch()
        folder.chmod(mode)
        folder.parent.chmod(mode)


def strange(top: Path) -> None:
    for name in (b"\xff\xfe", b"a\nb", b"-rf", b" ", b"*", b"x" * 255, "ü".encode()):
        os.mkdir(os.fsencode(top) + b"/" + name)
    os.mkfifo(top / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        here = os.open(top, os.O_RDONLY)
        one.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    (top / "loop").symlink_to("loop")
    (top / "up").symlink_to("..")
    (top / "root").symlink_to("/")
    with (top / "holes").open("wb") as file:
        file.truncate(1 << 40)
    os.link(top / "holes", top / "again")


def at_random(top: Path) -> None:
    chance = random.Random(int(os.environ.get("SELFHEAL_TEST_SEED", "0")))
    all_folders = [top]
    for number in range(300):
        here = chance.choice(all_folders[-20:])
        name = chance.choice(("d", "\udcff", "x" * 200, ".git", "node_modules")) + str(number)
        match chance.randrange(5):
            case 0 | 1 | 2:
                (here / name).mkdir()
                all_folders.append(here / name)
            case 3:
                (here / name).write_bytes(b"x" * chance.randrange(5000))
            case 4:
                (here / name).symlink_to(chance.choice(("..", "/etc", name, "\udcff")))
    for each in reversed(all_folders[1:]):
        each.chmod(chance.choice((0o755, 0o000, 0o300, 0o1777, 0o6755)))


SHAPES: dict[str, Callable[[Path], None]] = {
    "1,200 deep": lambda top: deep(top, 1200),
    "3,000 deep": lambda top: deep(top, 3000),
    "deep with long names": lambda top: deep(top, 300, "x" * 255),
    "without permissions": closed,
    "strange": strange,
    "at random": at_random,
    "wide": lambda top: [(top / str(number)).touch() for number in range(4_000)] and None,
}


@pytest.fixture(params=long_but(SHAPES, *(SHAPES.keys() - {"wide", "3,000 deep"})))
def shape(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    return SHAPES[request.param]


def test_it_is_removed(shape: Callable[[Path], None], hostile_path: Path) -> None:
    (hostile_path / "tree" / ".git").mkdir(parents=True)
    shape(hostile_path / "tree" / ".git")
    assert disk.remove(hostile_path / "tree")
    assert not list(hostile_path.iterdir())
    assert Path("/etc").is_dir()


def test_a_dead_workers_folder_is_swept(shape: Callable[[Path], None], hostile_path: Path) -> None:
    folder = folders.make(hostile_path, "dead")
    other = folders.make(hostile_path, "also-dead")
    shape(folder.path)
    for each in (folder, other):
        os.close(each.lock)
    folders.sweep(hostile_path)
    assert not list(hostile_path.iterdir())


async def test_it_is_no_environment_for_others_and_leaves_nothing(shape: Callable[[Path], None], hostile_path: Path) -> None:
    """It is either an environment like others, or none; the cache works after it, also in the next process."""
    recipe = environments.EnvironmentRecipe(own(), ("uv",), RequirementLines(("a==1",)), ())

    async def make(folder: Path) -> bool:
        (folder / environments.TREE / "lib" / ".git").mkdir(parents=True)
        shape(folder / environments.TREE / "lib" / ".git")
        return True

    entry = await environments.prepared(hostile_path, recipe, make)
    folder_cache.release(entry)
    folder_cache.remove_unfinished(hostile_path)
    folder_cache.prune(hostile_path)
    again = await environments.prepared(hostile_path, recipe, make)
    assert (again is None) == (entry is None)
    folder_cache.release(again)
    assert not list(hostile_path.glob("new-*"))
    for left in hostile_path.iterdir():
        assert disk.remove(left)


@pytest.mark.long
def test_what_cannot_be_walked_is_the_first_to_go(hostile_path: Path) -> None:
    for number, fill in enumerate((lambda _: None, SHAPES["3,000 deep"])):
        entry = folder_cache.create(hostile_path, f"{number}")
        fill(entry.folder)
        folder_cache.release(folder_cache.commit(entry))
    folder_cache.prune(hostile_path)
    assert [path.name[:2] for path in hostile_path.iterdir()] == ["0-"]


async def test_a_sandbox_whose_folder_stays_is_closed_all_the_same(hostile_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an attempt found must not be lost because a disk is slow."""
    monkeypatch.setattr(disk, "REMOVE_SECONDS", 0.0)
    async with folders.open_folder(hostile_path, "slow", Limits()) as (folder, _):
        closed(folder.path)
    assert folders.abandoned(hostile_path) == [folder.path]
    monkeypatch.undo()
    folders.sweep(hostile_path)
    assert folders.abandoned(hostile_path) == []


async def test_what_takes_too_long_is_stopped_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (programs := tmp_path / "bin").mkdir()
    started = tmp_path / "started"
    (rm := programs / "rm").write_text(f"#!/bin/sh\necho $$ > {started}\nexec /bin/sleep 100\n")
    rm.chmod(0o755)
    monkeypatch.setattr(disk, "_PATH", {"PATH": f"{programs}:/usr/bin:/bin"})
    monkeypatch.setattr(disk, "REMOVE_SECONDS", 2.0)
    (tree := tmp_path / "tree").mkdir()
    assert not disk.remove(tree)
    process = Path("/proc") / started.read_text().strip() / "stat"

    def is_gone() -> bool:
        try:
            return process.read_text().rpartition(")")[2].split()[0] in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return True

    await until(is_gone)
