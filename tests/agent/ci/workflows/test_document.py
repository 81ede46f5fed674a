"""Bounded YAML: whatever comes ends in nodes or in a sentence, quickly."""

from __future__ import annotations

import random

import pytest

from agent.ci.workflows.document import (
    DEPTH_LIMIT,
    NODE_LIMIT,
    Items,
    Keys,
    Scalar,
    WorkflowProblem,
    plain,
    read_document,
    text_of,
)


def read(text: str) -> object:
    node = read_document(text)
    assert not isinstance(node, WorkflowProblem), str(node)
    return plain(node)


def refused(text: str) -> WorkflowProblem:
    problem = read_document(text)
    assert isinstance(problem, WorkflowProblem)
    return problem


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("True", True),
        ("tRUE", "tRUE"),
        ("~", None),
        ("", None),
        ("NULL", None),
        ("nULL", "nULL"),
        ("3.10", 3.1),
        ('"3.10"', "3.10"),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2024-01-02", "2024-01-02"),
        (".5e1", 5),
        ("-.inf", float("-inf")),
        ("9" * 400, float("inf")),
        ("0x" + "f" * 400, float("inf")),
        ("1" * 5000, float("inf")),
    ],
)
def test_scalars_are_those_of_yaml_1_2(written: str, value: object) -> None:
    found = read(f"a: {written}")
    assert found == {"a": value}
    assert isinstance(found, dict)
    assert type(found["a"]) is type(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.1, "3.1"),
        (1e21, "1e+21"),
        (1.5e-9, "1.5e-9"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (12345678901234567890.0, "12345678901234567000"),
        (-0.0, "0"),
        (-2.5, "-2.5"),
        (True, "true"),
        (None, ""),
        (float("nan"), "NaN"),
        (123456789.123, "123456789.123"),
    ],
)
def test_numbers_become_text_as_github_writes_them(value: float, text: str) -> None:
    assert text_of(value) == text


def test_nodes_know_their_lines() -> None:
    node = read_document("a:\n  - b\n  - c: d\n")
    assert isinstance(node, Keys)
    [entry] = node.entries
    assert (entry.key, entry.line) == ("a", 1)
    assert isinstance(entry.value, Items)
    first, second = entry.value.nodes
    assert first == Scalar("b", 2)
    assert isinstance(second, Keys)
    assert second.entries[0].line == 3


def test_aliases_stand_for_their_anchor_and_an_anchor_may_be_set_anew() -> None:
    assert read("a: &x [1]\nb: *x\nc: &x two\nd: *x") == {"a": [1], "b": [1], "c": "two", "d": "two"}


def test_merge_keys_are_ordinary_keys() -> None:
    assert read("a: &x {b: 1}\nc: {<<: *x}") == {"a": {"b": 1}, "c": {"<<": {"b": 1}}}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", None, "empty"),
        ("# nothing", None, "empty"),
        ("a: 1\n---\nb: 2", 2, "more than one"),
        ("a: [1", None, "not valid YAML"),
        ("a: 1\nb: *x", 2, "no anchor"),
        ("a: &x [*x]", 1, "alias to itself"),
        ("a: &x {b: *x}", 1, "alias to itself"),
        ("a: 1\nA: 2", 2, "'A' is already defined"),
        ("? [a]\n: b", 1, "key must be text"),
        ("a: \x00", None, "characters"),
        ("a: \udcff", None, "characters"),
        ("a: \x07", None, "characters"),
        ("\t- a", 1, "not valid YAML"),
        ("a: @b", 1, "not valid YAML"),
    ],
)
def test_bad_input_is_said_with_its_line(text: str, line: int | None, said: str) -> None:
    problem = refused(text)
    assert said in problem.sentence
    assert line is None or problem.line == line


def test_a_bomb_of_aliases_is_refused_by_what_it_expands_to() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    problem = refused("\n".join(rows))
    assert str(NODE_LIMIT) in problem.sentence
    assert problem.line == 5  # 10⁵ values


def test_a_bomb_of_keys_is_refused_too() -> None:
    rows = ["a0: &a0 {x: y}"] + [f"a{i}: &a{i} {{b: *a{i - 1}, c: *a{i - 1}}}" for i in range(1, 40)]
    assert str(NODE_LIMIT) in refused("\n".join(rows)).sentence


def test_a_bomb_of_one_long_text_is_refused_too() -> None:
    rows = ["a: &a " + "x" * 100_000] + [f"b{i}: *a" for i in range(100)]
    assert str(NODE_LIMIT) in refused("\n".join(rows)).sentence


def test_a_large_file_without_aliases_is_read() -> None:
    assert read("a: " + "x" * 500_000)


def test_aliases_below_the_limit_are_read() -> None:
    assert read("a: &a [1, 2]\nb: [*a, *a]") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}


def test_a_file_of_ten_megabytes_is_refused() -> None:
    assert "512 KiB" in refused("a: b\n" * 2_000_000).sentence


def test_the_size_is_counted_in_bytes() -> None:
    assert "512 KiB" in refused("a: " + "é" * 300 * 1024).sentence


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "? " * 100_000, "[" * 200 + "]" * 200])
def test_deep_nesting_is_refused(text: str) -> None:
    assert f"{DEPTH_LIMIT} levels" in refused(text).sentence or "not valid YAML" in refused(text).sentence


def test_nesting_through_aliases_is_no_way_around_the_node_limit() -> None:
    assert read("a: " + "[" * 90 + "1" + "]" * 90)


def test_noise_never_raises() -> None:
    chance = random.Random(4)
    pieces = [
        "a",
        ":",
        " ",
        "\n",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "|\n",
        ">",
        "'",
        '"',
        "!!int ",
        "?",
        "${{",
        "}}",
        "#",
        "\t",
        ",",
    ]
    for _ in range(3000):
        text = "".join(chance.choices(pieces, k=chance.randrange(1, 30)))
        node = read_document(text)
        if not isinstance(node, WorkflowProblem):
            plain(node)
