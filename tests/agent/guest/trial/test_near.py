"""Calls near those of the tests."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import typing

from agent.guest.trial.inputs import RecordedCall
from agent.guest.trial.near import near_calls


def call(*args: object, passing: bool = False) -> RecordedCall:
    return RecordedCall(0, args, {}, passing)


def made(*calls: RecordedCall) -> list[tuple[str, int, tuple[object, ...]]]:
    return [(how, of, each.args) for each, how, of in near_calls(calls)]


def test_numbers_have_neighbours_and_others_beyond_all_tested_ones() -> None:
    found = made(call(20), call(64))
    assert {("beside", 0, (21,)), ("beside", 1, (63,)), ("beyond", 1, (90,)), ("beyond", 0, (8,))} <= set(found)
    assert all(args[0] > 64 or args[0] < 20 for how, _, args in found if how == "beyond")  # type: ignore[operator]


def test_a_call_keeps_its_other_arguments() -> None:
    assert {args[1] for how, _, args in made(call("ab", 5)) if args[0] != "ab"} == {5}
    assert ("ab", 6) in [args for _, _, args in made(call("ab", 5))]


def test_texts_keep_the_kind_of_their_characters() -> None:
    found = {args[0] for _, _, args in made(call("a1"))}
    assert {"b1", "a2", "aa1", "1"} <= found
    assert "a:" not in found


def test_containers_and_days_have_neighbours() -> None:
    day = datetime.date(2024, 2, 29)
    assert ("beside", 0, (day + datetime.timedelta(1),)) in made(call(day))
    found = [args[0] for _, _, args in made(call([7, 9]))]
    assert [8, 9] in found
    assert [9] in found
    assert [7, 9, 9] in found
    assert {"n": 8} in [args[0] for _, _, args in made(call({"n": 7}))]


class Plain:
    def __init__(self, name: str) -> None:
        self.name, self._secret = name, "x"


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str
    size: int


class Planet(enum.Enum):
    EARTH = 7

    def __init__(self, mass: int) -> None:
        self.mass = mass


class Pair(typing.NamedTuple):
    name: str
    size: int


def test_objects_have_neighbours_that_differ_in_a_public_attribute() -> None:
    plain, frozen, pair = Plain("a"), Frozen("a", 7), Pair("a", 7)
    found = [args[0] for _, _, args in made(call(plain), call(frozen), call(pair))]
    assert {(each.name, each._secret) for each in found if isinstance(each, Plain)} == {
        ("b", "x"),
        ("e", "x"),
        ("aa", "x"),
        ("", "x"),
    }
    assert {Frozen("b", 7), Frozen("a", 8), Pair("b", 7), Pair("a", 8)} <= {
        each for each in found if not isinstance(each, Plain)
    }
    assert 8 in [args[0].size for _, _, args in made(call(Slotted(7)))]  # type: ignore[attr-defined]
    assert (plain.name, frozen.name) == ("a", "a")
    assert not made(call(Planet.EARTH))
    assert Planet.EARTH.mass == 7


def test_boundary_values_have_no_neighbours() -> None:
    assert not [each for each in made(call(None), call(""), call([]), call(True)) if each[0] == "beside"]


def test_a_value_is_put_into_those_of_passing_tests() -> None:
    found = made(call("../x", passing=True), call("a/b", passing=True), call("c", passing=False))
    assert ("holds", 0, ("a/b/../x",)) in found
    assert all(of != 2 for how, of, _ in found if how == "holds"), "a failing test's value is not known to be refused"


def test_the_same_calls_are_made_again() -> None:
    assert made(call("ab", 5), call([1, 2], 9)) == made(call("ab", 5), call([1, 2], 9))
