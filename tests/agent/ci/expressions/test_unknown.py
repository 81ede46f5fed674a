"""What only GitHub knows makes a result unknown where the result depends on it, and nowhere else."""

from __future__ import annotations

import pytest

from agent.ci.expressions import Scope, Unknown, Value, condition, evaluate, render, value_of

SCOPE = Scope(
    {
        "secrets": Unknown("secrets"),
        "matrix": {"os": "linux"},
        "steps": {"cache": {"outputs": {"hit": Unknown("steps.cache.outputs.hit"), "key": "k"}}},
        "env": {"LIST": "[1]", "TOKEN": Unknown("secrets.TOKEN", truth=True)},
        "mixed": ["a", Unknown("mixed.1"), "c"],
    }
)
HIT, MIXED, X = Unknown("steps.cache.outputs.hit"), Unknown("mixed.1"), Unknown("secrets.X")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("secrets.X", X),
        ("secrets['X']", X),
        ("secrets[0]", Unknown("secrets.0")),
        ("secrets", Unknown("secrets")),
        ("secrets.*", Unknown("secrets.*")),
        ("steps.cache.outputs.hit", HIT),
        ("steps.cache.outputs.hit.deeper", Unknown("steps.cache.outputs.hit.deeper")),
        ("matrix[secrets.X]", X),
        ("'linux' == matrix.os[secrets.X]", False),
        ("!secrets.X", X),
        ("!!secrets.X", X),
        ("secrets.X == 'a'", X),
        ("'a' != secrets.X", X),
        ("1 < secrets.X", X),
        ("secrets.X == secrets.X", X),
        ("1 == 2 == secrets.X", X),
    ],
)
def test_what_is_made_of_it_is_unknown_under_its_name(text: str, value: Value) -> None:
    assert evaluate(text, SCOPE) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("false && secrets.X", False),
        ("'' && secrets.X", ""),
        ("true && secrets.X", X),
        ("true || secrets.X", True),
        ("'a' || secrets.X", "a"),
        ("false || secrets.X", X),
        ("secrets.X || 'a'", Unknown("secrets.X", truth=True)),
        ("secrets.X || ''", X),
        ("secrets.X && 'a'", X),
        ("secrets.X && ''", Unknown("secrets.X", truth=False)),
        ("secrets.X && matrix.os == 'windows' && secrets.Y", Unknown("secrets.X", truth=False)),
        ("secrets.X && false || 'a'", "a"),
        ("(secrets.X || 'a') && 'b'", "b"),
        ("!(secrets.X || 'a')", False),
        ("!(secrets.X && 0)", True),
        ("secrets.X || secrets.Y", X),
        ("secrets.X && secrets.Y", X),
        ("env.TOKEN && 'given' || 'missing'", "given"),
        ("!env.TOKEN", False),
        ("env.TOKEN == 'x'", Unknown("secrets.TOKEN")),
        ("secrets.X && fromJSON('broken')", X),
        ("success() || secrets.X", True),
        ("failure() && secrets.X", False),
    ],
)
def test_an_operand_that_decides_makes_the_others_matter_no_more(text: str, value: Value) -> None:
    assert evaluate(text, SCOPE) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("contains('abc', secrets.X)", X),
        ("contains(secrets.X, 'a')", X),
        ("contains(matrix, secrets.X)", False),
        ("contains(mixed, 'C')", True),
        ("contains(mixed, 'd')", MIXED),
        ("contains(fromJSON('[]'), secrets.X)", False),
        ("contains(fromJSON('[1]'), secrets.X)", X),
        ("startsWith(secrets.X, 'a')", X),
        ("endsWith('a', secrets.X)", X),
        ("endsWith(matrix, secrets.X)", False),
        ("format('{0}', secrets.X)", X),
        ("format('{1}', secrets.X, 'b')", "b"),
        ("format(secrets.X, 'b')", X),
        ("join(mixed)", MIXED),
        ("join(secrets.X, ',')", X),
        ("join(fromJSON(env.LIST), secrets.X)", "1"),
        ("join(fromJSON('[1,2]'), secrets.X)", X),
        ("toJSON(steps)", HIT),
        ("toJSON(steps.cache.outputs.key)", '"k"'),
        ("fromJSON(secrets.X)", X),
        ("fromJSON(secrets.X).y", Unknown("secrets.X.y")),
        ("case(true, 'a', secrets.X == 1, 'b', 'c')", "a"),
        ("case(false, secrets.X, 'c')", "c"),
        ("case(secrets.X == 1, 'b', 'c')", X),
        ("hashFiles(secrets.X)", X),
        ("hashFiles('**/*.lock')", Unknown("hashFiles")),
    ],
)
def test_a_function_is_unknown_where_what_it_looks_at_is(text: str, value: Value) -> None:
    assert evaluate(text, SCOPE) == value


def test_filters_keep_unknown_members_apart() -> None:
    scope = Scope({"a": [{"b": 1}, Unknown("a.1"), {"b": 3}], "c": {"d": Unknown("c.d")}})
    assert evaluate("a.*.b", scope) == (1, Unknown("a.1.b"), 3)
    assert evaluate("a.*.b.*", scope) == Unknown("a.1.b.*")
    assert evaluate("c.*", scope) == (Unknown("c.d"),)
    assert evaluate("contains(a.*.b, 3)", scope) is True


def test_a_text_with_an_unknown_is_unknown_under_its_name() -> None:
    assert render("k-${{ matrix.os }}-${{ secrets.X }}-${{ secrets.Y }}", SCOPE) == X
    assert render("${{ env.TOKEN }}", SCOPE) == Unknown("secrets.TOKEN")  # not empty, which is not known of what is made of it
    assert render("k-${{ matrix.os }}", SCOPE) == "k-linux"
    assert value_of("${{ secrets.X }}", SCOPE) == X
    assert value_of("a ${{ secrets.X }}", SCOPE) == X


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("secrets.X", X),
        ("${{ secrets.X != '' }}", X),
        ("secrets.X || true", True),
        ("secrets.X && matrix.os == 'windows'", False),
        ("env.TOKEN", True),
        ("steps.cache.outputs.hit != 'true'", HIT),
        ("always() || secrets.X", True),
        ("failure() && secrets.X", False),
        ("${{ secrets.X }} == 'a'", True),  # a text that is not empty, as at GitHub
    ],
)
def test_a_condition_is_decided_as_far_as_it_can_be(text: str, holds: bool | Unknown) -> None:
    assert condition(text, SCOPE) == holds


def test_a_condition_that_no_longer_counts_is_not_asked_for_the_unknown() -> None:
    failed = Scope(SCOPE.contexts, status="failure")
    assert condition("secrets.X", failed) is False
    assert condition("failure() && secrets.X", failed) == X
