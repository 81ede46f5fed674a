"""Changed functions put into living ones, and back."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from agent.guest.trial import hot_swap

CODE = """\
import functools

LIMIT = 3

def plain(a, b=2, *, c=LIMIT):
    return a + b + c

def wrapped(f):
    @functools.wraps(f)
    def inner(*a):
        return f(*a) * 3
    return inner

@wrapped
def decorated(x):
    return x + 1

class Base:
    def value(self):
        return 1

class Child(Base):
    def value(self):
        return super().value() + 1
"""


@pytest.fixture
def module(tmp_path: Path) -> tuple[ModuleType, hot_swap.Swapper]:
    path = tmp_path / "spliced.py"
    path.write_text(CODE)
    spec = importlib.util.spec_from_file_location("spliced", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded, hot_swap.Swapper(str(path), hot_swap.live_functions())


def edit(before: str, after: str, function: str) -> dict[str, object]:
    start = CODE.index(before)
    line = CODE[: CODE.index(function)].count("\n") + 1
    return {"path": "spliced.py", "line": line, "start": start, "end": start + len(before), "text": after}


@pytest.mark.parametrize(
    ("change", "call", "was", "becomes"),
    [
        (edit("a + b + c", "a * b * c", "def plain"), lambda m: m.plain(5), 10, 30),
        (edit("b=2", "b=20", "def plain"), lambda m: m.plain(5), 10, 28),
        (edit("c=LIMIT", "c=LIMIT + 1", "def plain"), lambda m: m.plain(5), 10, 11),
        (edit("x + 1", "x - 1", "def decorated"), lambda m: m.decorated(2), 9, 3),
        (edit("f(*a) * 3", "f(*a) * 2", "def wrapped"), lambda m: m.decorated(2), 9, 6),
        (
            edit("super().value() + 1", "super().value() + 5", "    def value(self):\n        return super"),
            lambda m: m.Child().value(),
            2,
            6,
        ),
    ],
    ids=["body", "default", "keyword default", "below a decorator", "a decorator's wrapper", "method with super"],
)
def test_a_change_goes_in_and_out(
    module: tuple[ModuleType, hot_swap.Swapper],
    change: dict[str, object],
    call: Callable[[ModuleType], int],
    was: int,
    becomes: int,
) -> None:
    loaded, swapper = module
    assert call(loaded) == was
    undo = swapper.swap([change])
    assert call(loaded) == becomes
    undo()
    assert call(loaded) == was


def test_two_changes_go_in_together(module: tuple[ModuleType, hot_swap.Swapper]) -> None:
    loaded, swapper = module
    undo = swapper.swap(
        [edit("+ c", "- c", "def plain"), edit("a + b", "a * b", "def plain"), edit("x + 1", "x", "def decorated")]
    )
    assert (loaded.plain(5), loaded.decorated(2)) == (7, 6)
    undo()
    assert (loaded.plain(5), loaded.decorated(2)) == (10, 9)


@pytest.mark.parametrize(
    "change",
    [
        edit("LIMIT = 3", "LIMIT = 4", "LIMIT"),
        edit("b=2", "b=unknown", "def plain"),
        edit("class Child(Base)", "class Child", "def plain"),
    ],
    ids=["module level", "a default that cannot be worked out", "outside of its function"],
)
def test_what_cannot_be_swapped_is_refused_and_leaves_nothing(
    module: tuple[ModuleType, hot_swap.Swapper], change: dict[str, object]
) -> None:
    loaded, swapper = module
    with pytest.raises(hot_swap.NotSwappable):
        swapper.swap([change])
    assert loaded.plain(5) == 10


def test_broken_syntax_is_refused_and_leaves_nothing(module: tuple[ModuleType, hot_swap.Swapper]) -> None:
    loaded, swapper = module
    with pytest.raises(SyntaxError):
        swapper.swap([edit("x + 1", "x +", "def decorated"), edit("a + b + c", "a", "def plain")])
    assert (loaded.plain(5), loaded.decorated(2)) == (10, 9)
