"""Expressions inside texts, and conditions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent.ci.expressions import ExpressionError, Scope, Status, Value, condition, evaluate, render, value_of

SCOPE = Scope(
    {"matrix": {"python": "3.12", "n": 3.0, "flags": [1, 2], "none": None}, "env": {"A": "x"}, "github": {"ref": "r"}}
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("plain { text } }} $ {{ x }}", "plain { text } }} $ {{ x }}"),
        ("${{ matrix.python }}", "3.12"),
        ("py${{matrix.python}}-${{ matrix.n }}${{env.A}}!", "py3.12-3x!"),
        ("a ${{ '}}' }} b", "a }} b"),
        ("a ${{ 'it''s }} ''' }} b", "a it's }} ' b"),
        ("${{ format('{{0}} {0}', '}}') }}}}", "{0} }}}}"),
        ("${{ '${{ x }}' }}", "${{ x }}"),
        ("${{ matrix.none }}|${{ true }}|${{ matrix.flags }}|${{ matrix }}", "|true|Array|Object"),
        ("it's ${{ env.A }}, isn't it", "it's x, isn't it"),
        ("${{\n  env.A\n}}\n", "x\n"),
    ],
)
def test_each_expression_is_replaced_by_its_value_as_text(template: str, text: str) -> None:
    assert render(template, SCOPE) == text


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("${{ matrix.n }}", 3.0),
        ("${{ matrix.flags }}", [1, 2]),
        ("${{ matrix.none }}", None),
        ("${{ 1 == 1 }}", True),
        (" ${{ matrix.n }}", " 3"),
        ("${{ matrix.n }}${{ matrix.n }}", "33"),
        ("${{ fromJSON('{\"a\":[1]}') }}", {"a": [1.0]}),
        ("text", "text"),
        ("", ""),
    ],
)
def test_a_whole_expression_keeps_its_type(template: str, value: Value) -> None:
    assert value_of(template, SCOPE) == value


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a ${{ env.A", "not closed.*at character 3"),
        ("${{ 'a }}", "not closed"),
        ("${{ env.A } }", "not closed"),
        ("${{ }}", "unexpected end"),
        ("${{ env.A }} ${{ nosuch.A }}", "the context 'nosuch' is not available here, at character 2"),
        ("${{ a", "not closed"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_the_place(template: str, message: str) -> None:
    for read in (render, value_of, condition):
        with pytest.raises(ExpressionError, match=message):
            read(template, SCOPE)


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        (None, ["success"]),
        ("", ["success"]),
        ("  ", ["success"]),
        ("env.A", ["success"]),
        ("env.A == 'y'", []),
        ("${{ env.A == 'x' }}", ["success"]),
        ("env.A == 'y' || env.A == 'x'", ["success"]),
        ("always()", ["success", "failure", "cancelled"]),
        ("${{ always() }}", ["success", "failure", "cancelled"]),
        ("Failure()", ["failure"]),
        ("!cancelled()", ["success", "failure"]),
        ("cancelled() || success()", ["success", "cancelled"]),
        ("env.A == 'y' || contains('x', format('{0}', failure()))", []),
        ("'always()'", ["success"]),  # a text, no call
        ("github.always", []),
        ("contains('a', 'a')", ["success"]),
        ("'false'", ["success"]),
        ("${{ false }} || false", ["success"]),  # a text that is not empty, as at GitHub
        ("${{ always() }} && false", ["success", "failure", "cancelled"]),
        ("${{ '' }}${{ matrix.none }}", []),
        ("${{ false }}\n", ["success"]),
    ],
)
def test_a_condition_without_a_status_function_asks_for_success_first(text: str | None, statuses: list[Status]) -> None:
    every: list[Status] = ["success", "failure", "cancelled"]
    assert [status for status in every if condition(text, Scope(SCOPE.contexts, status=status))] == statuses


def test_files_are_asked_for_with_every_pattern_as_text() -> None:
    asked: list[Sequence[str]] = []

    def files(patterns: Sequence[str], /) -> str:
        asked.append(patterns)
        return "d1"

    scope = Scope(SCOPE.contexts, files=files)
    assert render("key-${{ hashFiles('**/*.lock', matrix.n) }}-${{ hashfiles(env.A) }}", scope) == "key-d1-d1"
    assert asked == [["**/*.lock", "3"], ["x"]]


def test_names_are_met_without_regard_to_case_and_the_very_name_first() -> None:
    scope = Scope({"Env": {"path": "lower", "PATH": "upper"}, "n": {"A": 1, "a": 2}})
    assert evaluate("ENV.PATH", scope) == "upper"
    assert evaluate("env.Path", scope) == "lower"
    assert evaluate("toJSON(n)", scope) == '{\n  "A": 1,\n  "a": 2\n}'


def test_a_context_that_is_not_given_is_an_error_even_where_it_does_not_count() -> None:
    with pytest.raises(ExpressionError, match="the context 'needs' is not available here"):
        evaluate("false && needs.build", SCOPE)


def test_large_whole_numbers_of_python_are_numbers() -> None:
    scope = Scope({"n": {"huge": 10**400, "id": 12345678901}})
    assert evaluate("n.huge && n.huge > 1 && n.huge == 1e999", scope) is True
    assert render("${{ n.id }} ${{ n.huge }} ${{ toJSON(n.id) }}", scope) == "12345678901 Infinity 12345678901"
