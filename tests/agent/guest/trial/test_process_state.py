"""What code under test leaves behind in a process that tries many changes."""

import functools
import sys
import threading
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from unittest.mock import MagicMock

import pytest

from agent.guest.trial.batch import ProcessState


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    made = ModuleType("kept")
    made.__file__ = str(tmp_path.resolve() / "kept.py")

    class Registry:
        known: ClassVar[dict[str, int]] = {"a": 1}

        def __init__(self) -> None:
            self.items = [1, 2]

    def remember(value: int, memory: list[int] = []) -> list[int]:  # noqa: B006 - what is to be noticed
        memory.append(value)
        return memory

    @functools.cache
    def doubled(value: int) -> int:
        return 2 * value

    Registry.__module__ = "kept"
    vars(made).update(
        table={"a": [1]}, order=[1, 2], count=0, Registry=Registry, registry=Registry(), remember=remember, doubled=doubled
    )
    sys.modules["kept"] = made
    yield made
    del sys.modules["kept"]


def keeper(tmp_path: Path) -> ProcessState:
    return ProcessState(str(tmp_path.resolve()), {"kept.py"})


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.table.update(b=2),
        lambda m: m.table.update(a=2),
        lambda m: m.order.reverse(),
        lambda m: m.Registry.known.clear(),
        lambda m: m.registry.items.pop(),
        lambda m: m.remember(1),
        lambda m: m.doubled(3),
    ],
    ids=["new key", "other value", "order", "a class's table", "an object's list", "a mutable default", "a cache"],
)
def test_small_changes_are_put_back(tmp_path: Path, module: ModuleType, change: Callable[[Any], None]) -> None:
    kept = keeper(tmp_path)
    change(module)
    assert kept.restore()
    assert (module.table, module.order, module.Registry.known) == ({"a": [1]}, [1, 2], {"a": 1})
    assert (module.registry.items, module.remember.__defaults__, module.doubled.cache_info().currsize) == ([1, 2], ([],), 0)


def test_names_of_modules_and_objects_get_their_values_again(tmp_path: Path, module: ModuleType) -> None:
    kept = keeper(tmp_path)
    count, items = module.count, module.registry.items
    module.count, module.more = 7, 8
    module.registry.items, module.registry.other = [3], 4
    del module.order
    assert kept.restore()
    assert (module.count, module.registry.items, module.order) == (count, items, [1, 2])
    assert module.registry.items is items
    assert not hasattr(module, "more")
    assert not hasattr(module.registry, "other")


def test_names_of_a_class_get_their_values_again_as_those_that_unittest_changes_with_each_test(
    tmp_path: Path, module: ModuleType
) -> None:
    class Tests(unittest.TestCase):
        def test(self) -> None:
            self.fail()

    Tests.__module__ = "kept"
    module.Tests = Tests
    suite = unittest.TestSuite([Tests("test")])
    suite.run(unittest.TestResult())
    kept, known = keeper(tmp_path), module.Registry.known
    module.Registry.known, module.Registry.more = {}, 1
    unittest.TestSuite([Tests("test")]).run(unittest.TestResult())
    assert kept.restore()
    assert module.Registry.known is known
    assert not hasattr(module.Registry, "more")


def test_objects_that_have_every_attribute_or_refuse_them_are_no_obstacle(tmp_path: Path, module: ModuleType) -> None:
    class Rows(list[int]):
        def copy(self) -> list[int]:
            raise TypeError("not this one")

    vars(module).update(marked=pytest.mark.long, mocked=MagicMock(), rows=Rows([1]))
    kept = keeper(tmp_path)
    module.order.append(3)
    assert kept.restore()
    assert module.order == [1, 2]


def test_a_thread_that_stays_ends_the_process(tmp_path: Path, module: ModuleType) -> None:
    kept, done = keeper(tmp_path), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not kept.restore()
    finally:
        done.set()
        thread.join()


def test_what_belongs_to_python_is_left_alone(tmp_path: Path, module: ModuleType) -> None:
    builtins = {"len": len}
    vars(module)["__builtins__"] = builtins
    kept = keeper(tmp_path)
    builtins["_"] = len
    assert kept.restore()
    assert "_" in builtins
