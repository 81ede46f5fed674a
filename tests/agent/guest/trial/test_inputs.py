"""How values are told apart when calls are repeated."""

import copy
import re
import typing
import uuid
from collections import deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath

import pytest

from agent.guest.trial.inputs import as_text, fits


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (date(2018, 5, 16), date(2018, 5, 17)),
        (datetime(2018, 5, 16, 3, tzinfo=UTC), datetime(2018, 5, 16, 4, tzinfo=UTC)),
        (timedelta(1), timedelta(2)),
        (Decimal("1.5"), Decimal("1.6")),
        (Decimal("inf"), Decimal("-inf")),
        (Fraction(1, 3), Fraction(2, 3)),
        (uuid.UUID(int=3), uuid.UUID(int=4)),
        (PurePosixPath("a/b"), PurePosixPath("a/c")),
        (re.compile("a"), re.compile("b")),
        (range(3), range(4)),
        (deque([1, 2]), deque([1, 3])),
        (Slotted(1), Slotted(2)),
        (ValueError("one"), ValueError("other")),
        (int, str),
        (len, max),
    ],
)
def test_values_that_differ_are_told_apart(one: object, other: object) -> None:
    assert as_text(one) != as_text(other)
    assert as_text([one]) == as_text([copy.deepcopy(one)])


@pytest.mark.parametrize("value", [2, 2.0, True + 1, Decimal("2"), Decimal("2.00"), Fraction(4, 2)])
def test_equal_numbers_are_told_alike(value: object) -> None:
    assert as_text(value) == as_text(2)


def test_what_cannot_be_copied_is_told_by_its_class() -> None:
    class Stubborn:
        __slots__ = ()

        def __reduce_ex__(self, protocol: object) -> tuple[str, ...]:
            raise RuntimeError

    assert as_text(Stubborn()) == as_text(Stubborn()) != as_text(object())


class _Options(typing.TypedDict):
    depth: int


@pytest.mark.parametrize("hint", [typing.Any, typing.Any | None, _Options, list[_Options]])
def test_a_hint_that_no_value_can_be_checked_against_says_nothing(hint: object) -> None:
    assert fits([{"depth": 1}], hint) is None
