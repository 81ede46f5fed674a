"""Environments that are shared: made once, sealed, and never used when anything is odd about them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.install import folder_cache
from sandbox.install.python import environments
from sandbox.install.python.environments import TREE, EnvironmentRecipe
from sandbox.install.python.interpreters import Interpreter
from sandbox.install.python.requirements import RequirementLines

RECIPE = EnvironmentRecipe(
    Interpreter("/p/python", "/p", "3.12.1"), ("uv", "--option"), RequirementLines(("one",)), (("one-1.whl", "00"),)
)


class Maker:
    """Fills the folder, and counts how often it had to."""

    def __init__(self, answer: bool = True) -> None:
        self.answer, self.made = answer, 0

    async def __call__(self, folder: Path) -> bool:
        self.made += 1
        (folder / TREE / "lib").mkdir()
        (folder / TREE / "lib" / "one.py").write_text("value = 1\n")
        (folder / TREE / "python").symlink_to("/p/python")
        await asyncio.sleep(0)
        return self.answer


async def tree(cache: Path, make: Maker, recipe: EnvironmentRecipe = RECIPE) -> Path | None:
    held = await environments.prepared(cache, recipe, make)
    if held is None:
        return None
    folder_cache.release(held)
    return held.folder / TREE


async def test_it_is_made_once_for_all_who_need_the_same(tmp_path: Path) -> None:
    make = Maker()
    first = await tree(tmp_path / "cache", make)
    assert first == await tree(tmp_path / "cache", make)
    assert first is not None
    assert (first / "lib/one.py").read_text() == "value = 1\n"
    assert make.made == 1


@pytest.mark.parametrize(
    "other",
    [
        replace(RECIPE, interpreter=Interpreter("/p/python", "/p", "3.12.2")),
        replace(RECIPE, installer=("uv", "--other")),
        replace(RECIPE, wheels=(("one-1.whl", "01"),)),
        replace(RECIPE, wheels=(("one-1.whl", "00"), ("two-1.whl", "02"))),
        replace(RECIPE, lines=RequirementLines(("one", "two"))),
        replace(RECIPE, lines=RequirementLines(("one",), ("one<2",))),
        replace(RECIPE, lines=RequirementLines(("one",), (), (("one", "--hash=sha256:00"),))),
    ],
)
async def test_whatever_differs_makes_another_one(other: EnvironmentRecipe, tmp_path: Path) -> None:
    make = Maker()
    assert await tree(tmp_path, make) != await tree(tmp_path, make, other)
    assert make.made == 2


async def test_the_order_of_what_is_asked_for_does_not_matter(tmp_path: Path) -> None:
    one, other = (replace(RECIPE, lines=RequirementLines(lines)) for lines in (("a", "b"), ("b", "a", "b")))
    assert one.key == other.key


async def test_it_is_ours_and_nobody_else_may_write_it(tmp_path: Path) -> None:
    class Loose(Maker):
        async def __call__(self, folder: Path) -> bool:
            done = await super().__call__(folder)
            (folder / TREE / "lib" / "one.py").chmod(0o6777)
            (folder / TREE / "lib").chmod(0o777)
            if os.geteuid() == 0:
                for path in (folder / TREE, folder / TREE / "lib", folder / TREE / "lib" / "one.py", folder / TREE / "python"):
                    os.lchown(path, 60_700, 60_700)
            return done

    made = await tree(tmp_path, Loose())
    assert made is not None
    for path in (made, *made.rglob("*")):
        what = path.lstat()
        assert what.st_uid == os.geteuid()
        assert path.is_symlink() or not what.st_mode & 0o6022


def overwrite(made: Path) -> None:
    file = made / "lib/one.py"
    before = file.stat()
    file.write_text("value = 2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def add(made: Path) -> None:
    (made / "lib/evil.pth").write_text("import os")


def redirect(made: Path) -> None:
    (made / "python").unlink()
    (made / "python").symlink_to("/q/python")


def open_up(made: Path) -> None:
    (made / "lib").chmod(0o777)


def forget_the_seal(made: Path) -> None:
    (made.parent / environments.SEAL).unlink()


def let_others_seal(made: Path) -> None:
    (made.parent / environments.SEAL).chmod(0o666)


@pytest.mark.parametrize("tamper", [overwrite, add, redirect, open_up, forget_the_seal, let_others_seal])
async def test_one_that_was_tampered_with_is_made_anew(tamper: Callable[[Path], None], tmp_path: Path) -> None:
    make = Maker()
    first = await tree(tmp_path, make)
    assert first is not None
    tamper(first)
    again = await tree(tmp_path, make)
    assert again != first
    assert make.made == 2
    assert not first.exists(), "and the spoilt one is removed"


async def test_what_could_not_be_made_is_not_kept(tmp_path: Path) -> None:
    assert await tree(tmp_path, Maker(answer=False)) is None

    class Broken(Maker):
        async def __call__(self, folder: Path) -> bool:
            raise KeyError

    with pytest.raises(KeyError):
        await tree(tmp_path, Broken())

    class WithPipe(Maker):
        async def __call__(self, folder: Path) -> bool:
            os.mkfifo(folder / TREE / "pipe")
            return True

    assert await tree(tmp_path, WithPipe()) is None
    assert not list(tmp_path.iterdir())


async def test_makers_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    makers = [Maker() for _ in range(4)]
    found = await asyncio.gather(*(environments.prepared(tmp_path, RECIPE, make) for make in makers))
    for held in found:
        assert held is not None
        assert (held.folder / TREE / "lib/one.py").read_text() == "value = 1\n", "held, it stays, though others are newer"
        folder_cache.release(held)
    after = Maker()
    assert await tree(tmp_path, after) is not None
    assert not after.made


def test_what_a_killed_maker_left_is_never_used(tmp_path: Path) -> None:
    """Killed when the tree is there but not sealed."""
    program = f"""
        import asyncio, os, signal
        from pathlib import Path
        from sandbox.install.python import environments
        from tests.sandbox.install.python.test_environments import RECIPE, Maker
        environments._seal = lambda folder: os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(environments.prepared(Path({str(tmp_path)!r}), RECIPE, Maker()))
        """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=60, cwd=Path(__file__).parents[4])
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert (left / TREE / "lib/one.py").exists()
    make = Maker()
    made = asyncio.run(tree(tmp_path, make))
    assert make.made == 1
    assert made != left / TREE
