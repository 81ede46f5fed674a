"""What docstrings promise, as far as it can be tried."""

import sys
import time

import pytest

from agent.guest.trial import examples
from agent.guest.trial.forks import Fork, TimeLimit

DOCUMENT = """Adds.

>>> add(1, 2)
3
>>> print(add(1, 1))
2

add(2, 3) == 5
add(0, 1) ➞ 1
add(1, 1) => 2  # why not
add(1, 3) = 5
other(1) == 3
"""


def kept(document: str, namespace: dict[str, object]) -> list[int]:
    """In a fork: the timers belong to the process."""

    def work(write: object) -> None:
        found = examples.parse(document, "add")
        write([examples.kept(found, namespace, TimeLimit()), len(found)])  # type: ignore[operator]

    fork = Fork(work)
    try:
        counts: list[int] = fork.receive(time.monotonic() + 20)
    finally:
        fork.end()
    return counts


@pytest.mark.parametrize(
    ("add", "wanted"),
    [(lambda a, b: a + b, [5, 5]), (lambda a, b: a - b, [0, 5]), (lambda a, b: 1 / 0, [0, 5])],
    ids=["right", "wrong", "raises"],
)
def test_promises_are_counted(add: object, wanted: list[int]) -> None:
    assert kept(DOCUMENT, {"add": add}) == wanted


def test_an_example_that_exits_is_not_taken_for_an_endless_one() -> None:
    def work(write: object) -> None:
        write(examples.outcome("exit(1)", "1", {"exit": sys.exit}, TimeLimit()))  # type: ignore[operator]

    fork = Fork(work)
    try:
        assert fork.receive(time.monotonic() + 20) == ["unlike", "SystemExit"]
    finally:
        fork.end()


def test_an_endless_example_is_not_kept() -> None:
    def add(a: int, b: int) -> int:
        while True:
            try:
                while True:
                    a += 1
            except BaseException:  # noqa: BLE001 - as hostile as it gets
                pass
        return a

    def honest(a: int, b: int) -> int:
        while a >= 0:
            a += 1
        return b

    assert kept(">>> add(1, 2)\n3\n", {"add": honest}) == [0, 1]
    fork = Fork(lambda write: write([TimeLimit().run(lambda: add(1, 2), 0.05, 1.0)]))
    try:
        assert fork.receive(time.monotonic() + 20) in ([None], None), "it got out, or the kernel has ended it"
    finally:
        fork.end()
