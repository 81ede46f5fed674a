"""The legs of a matrix are those that GitHub makes; the longer cases are the examples of its documentation."""

from __future__ import annotations

from typing import Any

import pytest

from agent.ci.expressions import Unknown
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.matrix import LEG_LIMIT, MatrixLeg, evaluated, legs


def made(matrix: Any) -> tuple[MatrixLeg, ...]:
    found = legs(matrix)
    assert isinstance(found, tuple), found
    return found


def values(matrix: Any) -> list[Any]:
    return [dict(leg.values) for leg in made(matrix)]


def test_axes_multiply_in_the_order_they_are_written() -> None:
    assert [leg.shown for leg in made({"version": [10, 12], "os": ["u", "w"]})] == [
        ("10", "u"),
        ("10", "w"),
        ("12", "u"),
        ("12", "w"),
    ]


def test_include_adds_to_what_it_matches_and_else_is_a_leg_of_its_own() -> None:
    found = values(
        {
            "fruit": ["apple", "pear"],
            "animal": ["cat", "dog"],
            "include": [
                {"color": "green"},
                {"color": "pink", "animal": "cat"},
                {"fruit": "apple", "shape": "circle"},
                {"fruit": "banana"},
                {"fruit": "banana", "animal": "cat"},
            ],
        }
    )
    assert found == [
        {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
        {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
        {"fruit": "pear", "animal": "cat", "color": "pink"},
        {"fruit": "pear", "animal": "dog", "color": "green"},
        {"fruit": "banana"},
        {"fruit": "banana", "animal": "cat"},
    ]


def test_what_an_include_adds_is_not_in_the_name_but_a_leg_of_its_own_shows_all() -> None:
    matrix = {"os": ["u"], "include": [{"os": "u", "more": "x"}, {"more": "y", "os": "w"}]}
    assert [leg.shown for leg in made(matrix)] == [("u",), ("w", "y")]


def test_an_include_alone_makes_the_legs() -> None:
    assert values({"include": [{"a": 1}, {"b": None}]}) == [{"a": 1}, {"b": None}]


def test_exclude_matches_in_part_and_comes_before_include() -> None:
    found = values(
        {
            "os": ["macos", "windows"],
            "version": [12, 14, 16],
            "environment": ["staging", "production"],
            "exclude": [
                {"os": "macos", "version": 12, "environment": "production"},
                {"os": "windows", "version": 16},
            ],
            "include": [{"os": "windows", "version": 16, "environment": "staging"}],
        }
    )
    assert len(found) == 10
    assert {"os": "macos", "version": 12, "environment": "production"} not in found
    assert found[-1] == {"os": "windows", "version": 16, "environment": "staging"}


@pytest.mark.parametrize(
    ("excluded", "left"),
    [
        ({"v": "3.1"}, [3.11]),
        ({"v": 3.10}, [3.11]),
        ({"v": "3.10"}, [3.11]),
        ({"v": "x"}, [3.1, 3.11]),
        ({"v": None}, [3.1, 3.11]),
    ],
)
def test_values_are_compared_as_expressions_compare_them(excluded: Any, left: list[float]) -> None:
    assert [leg["v"] for leg in values({"v": [3.10, 3.11], "exclude": [excluded]})] == left


def test_text_is_compared_without_case() -> None:
    assert values({"os": ["Ubuntu", "macOS"], "exclude": [{"os": "MACOS"}]}) == [{"os": "Ubuntu"}]


def test_objects_are_values_and_are_matched_in_part() -> None:
    linux, windows = {"name": "linux", "runner": "u"}, {"name": "windows", "runner": "w"}
    found = made({"os": [linux, windows], "deps": [["a", "b"]], "exclude": [{"os": {"name": "windows"}}]})
    assert [dict(leg.values) for leg in found] == [{"os": linux, "deps": ["a", "b"]}]
    assert found[0].shown == ("linux", "u", "a", "b")


def test_lists_are_matched_by_their_items() -> None:
    assert values({"deps": [["a"], ["b"]], "exclude": [{"deps": ["b"]}]}) == [{"deps": ["a"]}]


def test_empty_values_are_not_shown() -> None:
    assert made({"a": [""], "b": [None], "c": [False], "d": [0]})[0].shown == ("false", "0")


def test_without_a_matrix_there_is_one_leg() -> None:
    assert made(None) == (MatrixLeg({}),)


def test_what_only_github_knows_stays_unknown() -> None:
    unknown = Unknown("needs.x.outputs.y")
    assert legs(unknown) == unknown
    assert legs({"a": [1], "b": unknown}) == unknown
    assert legs({"a": [1], "include": unknown}) == unknown
    assert values({"a": [1, unknown], "include": [{"a": 2}]}) == [{"a": 1}, {"a": unknown}, {"a": 2}]


def test_templates_are_replaced_wherever_they_stand() -> None:
    matrix = evaluated({"a": "${{ x }}", "b": [{"c": "${{ y }}"}, "z"]}, lambda template: [template])
    assert matrix == {"a": ["${{ x }}"], "b": [{"c": ["${{ y }}"]}, "z"]}


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ([1], "not a mapping"),
        ("x", "not a mapping"),
        ({"a": "x"}, "'a' of the matrix is not a list"),
        ({"a": {"b": 1}}, "not a list"),
        ({"a": []}, "does not contain any values"),
        ({}, "no legs"),
        ({"a": [1], "exclude": [{"a": 1}]}, "no legs"),
        ({"a": [1], "exclude": [{"b": 1}]}, "'b' does not match any key"),
        ({"a": [1], "exclude": [{}]}, "with values"),
        ({"a": [1], "include": [{}]}, "with values"),
        ({"a": [1], "include": {"a": 1}}, "not a list"),
        ({"a": [1], "include": ["a"]}, "not a mapping"),
        ({"a": list(range(300))}, f"300 legs; GitHub allows {LEG_LIMIT}"),
        ({"a": list(range(300)), "exclude": [{"a": -1}] * 5000}, "too many includes and excludes: 5000"),
        ({str(axis): list(range(100)) for axis in range(50)}, f"more than {LEG_LIMIT} legs"),
    ],
)
def test_a_matrix_that_cannot_be_is_a_problem(matrix: Any, said: str) -> None:
    problem = legs(matrix)
    assert isinstance(problem, WorkflowProblem)
    assert said in problem.sentence


def test_excludes_may_bring_a_large_product_below_the_limit() -> None:
    matrix = {"a": list(range(300)), "exclude": [{"a": number} for number in range(44)]}
    assert len(made(matrix)) == LEG_LIMIT
