"""Hostile expressions end with a refusal that names what is too much."""

from __future__ import annotations

import json
import sys

import pytest

from agent.ci.expressions import ExpressionError, Scope, Unknown, Value, condition, evaluate, render

BIG = "x" * 600_000
SCOPE = Scope(
    {
        "env": {"BIG": BIG, "DIGITS": "9" * 1_000_000, "DEEP": "[" * 90 + "]" * 90},
        "list": [BIG, BIG],
        "held": {"a": BIG},
    }
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" + " " * 21_000, "longer than 21000 characters"),
        ("(" * 60 + "1" + ")" * 60, "deeper than 50 levels"),
        ("!" * 20_000, "deeper than 50 levels"),
        ("(" * 20_999, "deeper than 50 levels"),
        ("env" + "[env" * 5000, "deeper than 50 levels"),
        ("format('{0}{0}', env.BIG)", "longer than 1048576 characters"),
        ("format('" + "{0}" * 5000 + "', env.BIG)", "longer than 1048576 characters"),
        ("join(list, ',')", "longer than 1048576 characters"),
        ("toJSON(list)", "longer than 1048576 characters"),
        (" || ".join(["!contains(env.BIG, 'x')"] * 500), "too much work"),
        (" || ".join(["env.BIG == 'y'"] * 500), "too much work"),
        (" || ".join(["!toJSON(env.BIG)"] * 500), "too much work"),
        (" || ".join(["!toJSON(held)"] * 500), "too much work"),
        (f"fromJSON('{'[' * 200}{']' * 200}')", "deeper than 100 levels"),
        (f"fromJSON('{'[' * 9000}{']' * 9000}')", "deeper than 100 levels"),
        ("fromJSON('" + '{"a":' * 3000 + "1" + "}" * 3000 + "')", "deeper than 100 levels"),
        ("fromJSON('1" + "0" * 9000 + "x')", "not valid JSON"),
    ],
)
def test_what_costs_too_much_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        evaluate(text, SCOPE)


def test_a_template_of_many_expressions_is_bounded_as_one() -> None:
    with pytest.raises(ExpressionError, match="longer than"):
        render("${{ env.BIG }}" * 1000, SCOPE)
    with pytest.raises(ExpressionError, match="too much work"):
        render("${{ contains(env.BIG, 'y') }}" * 300, SCOPE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" == ".join(["1"] * 4000), True),
        (" && ".join(["1"] * 4000), 1.0),
        (" < ".join(["0"] * 4001), False),
        ("env.DIGITS == 'x' || env.DIGITS > 1e300", True),
        ("fromJSON(env.DEEP)[0][0] == null", False),
        ("toJSON(fromJSON(env.DEEP)) == ''", False),
        ("github" + ".x" * 40, None),
    ],
)
def test_what_is_only_long_is_evaluated(text: str, value: Value) -> None:
    assert evaluate(text, Scope({**SCOPE.contexts, "github": {}})) == value


def test_the_deepest_expression_needs_little_of_the_stack() -> None:
    deepest = "1 < 2 == !(" * 24 + "1" + ")" * 24

    def beneath(frames: int) -> Value:
        return beneath(frames - 1) if frames else evaluate(deepest, SCOPE)

    assert sys.getrecursionlimit() >= 1000
    assert isinstance(beneath(300), bool)


def test_values_that_contain_themselves_are_not_followed_for_ever() -> None:
    loop: dict[str, Value] = {}
    loop["self"] = loop
    scope = Scope({"loop": loop})
    with pytest.raises(ExpressionError, match="deeper than 100 levels"):
        evaluate("toJSON(loop)", scope)
    assert evaluate("loop.self.self == loop", scope) is True


def test_deep_values_are_written_up_to_the_limit_and_unknowns_in_them_found() -> None:
    value: Value = Unknown("deep")
    for _ in range(100):
        value = [value]
    assert evaluate("toJSON(x)", Scope({"x": value})) == Unknown("deep")
    text = evaluate("toJSON(fromJSON(env.DEEP))", SCOPE)
    assert isinstance(text, str)
    assert json.dumps(json.loads(text)) == "[" * 90 + "]" * 90


def test_a_message_names_the_place_and_stays_short_on_hostile_texts() -> None:
    with pytest.raises(ExpressionError, match=r"^unexpected '#', at character 5001 of '…1 \|\| ") as found:
        condition("1 || " * 1000 + "#" + " || 1" * 1000, SCOPE)
    assert len(str(found.value)) < 200
    with pytest.raises(ExpressionError) as found:
        evaluate("a" * 20_000 + "\n\x1b[31m", SCOPE)
    assert len(str(found.value)) < 250
    assert "\n" not in str(found.value)
    assert "\x1b" not in str(found.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("github.ref ==", "unexpected end, at character 14 of 'github.ref =='"),
        ("1 + 1", r"unexpected '\+', at character 3"),
        ("'abc", "a string in single quotes is not closed, at character 1"),
        ("nope(1)", "'nope' is not a function, at character 1"),
        ("1 == contains('a')", "'contains' takes at least 2 arguments but got 1, at character 6"),
        ("join(1, 2, 3)", "'join' takes at most 2 arguments but got 3"),
        ("case(true, 1)", "'case' takes at least 3 arguments"),
        ("case(true, 1, false, 2)", "'case' takes pairs of a condition and a value"),
        ("1 == fromJSON('{')", "the argument of fromJSON is not valid JSON .*at character 6 of"),
        ("format('{0} {1}', 1)", r"the format string uses value 1 \(counted from 0\) of 1, at character 1"),
        ("format('{', 1)", "has an unmatched brace"),
    ],
)
def test_a_refusal_is_one_sentence_with_the_place(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        evaluate(text, Scope({"github": {}}))
