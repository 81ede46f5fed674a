"""A report of failures that is too long keeps whole lines, and of a traceback what the assertion says."""

from __future__ import annotations

from agent.contract.verdicts import Failure, VerdictId
from agent.prompts.failures import as_text

DETAILS = "\n".join(
    [
        *(f"tests/test_a.py:{n}: in helper_{n}" for n in range(30)),
        ">       assert found == wanted",
        "E       assert 'one' == 'other'",
        "E         the rest of the difference",
        "tests/test_a.py:12: AssertionError",
    ]
)


def test_a_long_traceback_is_cut_at_line_ends_and_keeps_its_assertion() -> None:
    text = as_text([Failure(VerdictId("tests/test_a.py::test_x"), "AssertionError: assert 'one' == 'other'", DETAILS)], 150)
    lines = text.splitlines()
    assert len(text) < 3 * 160
    assert ">       assert found == wanted" in lines
    assert "E       assert 'one' == 'other'" in lines
    assert set(lines[3:]) <= set(DETAILS.splitlines()), "no line is cut"


def test_warnings_are_left_out_beside_an_exception() -> None:
    warned = "/tests/test_a.py:12: DeprecationWarning: late\n  a.late(1)\nNote: read on\n"
    traceback = (
        'Traceback (most recent call last):\n  File "tests/test_a.py", line 13, in test_x\n    1 / 0\nZeroDivisionError: x\n'
    )
    both, alone = [as_text([Failure(VerdictId("exit"), "exit code 1", each)], 300) for each in (warned + traceback, warned)]
    assert "Warning" not in both
    assert "a.late(1)" not in both
    assert "Note: read on" in both
    assert "ZeroDivisionError: x" in both
    assert "DeprecationWarning: late" in alone


def test_messages_beyond_the_room_are_left_out_whole() -> None:
    many = [Failure(VerdictId(f"tests/test_a.py::test_{n}"), f"AssertionError: {n} " + "x" * 50) for n in range(10)]
    lines = as_text(many, 100).splitlines()
    assert 1 <= len(lines) < 10
    assert all(line.endswith("x" * 50) for line in lines[:-1])


def test_one_endless_message_is_bounded() -> None:
    assert len(as_text([Failure(VerdictId("a"), "m" * 10_000)], 100)) < 400


def test_a_traceback_too_long_for_the_room_does_not_hide_a_later_one() -> None:
    details = ["a.py:1: E\nE   first", "\n".join(f"b.py:{number}: {'x' * 200}" for number in range(40)), "c.py:1: E\nE   third"]
    found = [Failure(VerdictId(f"test_{at}"), f"message {at}", text) for at, text in enumerate(details)]
    told = as_text(found, 400)
    assert "E   first" in told
    assert "b.py" not in told
    assert "E   third" in told


def test_what_a_docstring_example_should_give_and_gives_is_told() -> None:
    details = "002     >>> f(1)\nExpected:\n    2\n    3\nGot:\n    4\n\n/m.py:4: DocTestFailure"
    lines = as_text([Failure(VerdictId("m.py::m.f"), "DocTestFailure", details)], 100).splitlines()
    assert lines[-6:] == ["Expected:", "    2", "    3", "Got:", "    4", "/m.py:4: DocTestFailure"]


def test_long_messages_hide_no_other_failure() -> None:
    noise = "AssertionError: assert '" + "<div>" * 400 + "' == ''"
    long = [Failure(VerdictId(f"tests/test_html.py::test_{n}"), f"{noise} {n}", f"{noise}\n" * 30) for n in range(3)]
    telling = Failure(VerdictId("tests/test_lexer.py::test_end"), "DID NOT RAISE", ">   parse(text)\nE   Failed: DID NOT RAISE")
    text = as_text([*long, telling], 400)
    assert all(str(each.id).rpartition("::")[2] in text for each in (*long, telling))
    assert "test_end: DID NOT RAISE" in text
    assert "--- tests/test_lexer.py::test_end" in text
    assert len(text) < 400 * 4


def test_messages_that_do_not_fit_are_counted() -> None:
    found = [Failure(VerdictId(f"tests/test_a.py::test_{n}"), f"ValueError: {n}" * 9, "") for n in range(40)]
    text = as_text(found, 100)
    named = sum(f"test_{n}:" in text for n in range(40))
    assert 0 < named < 12
    assert text.endswith(f"… and {40 - named} more")
