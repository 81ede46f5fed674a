"""Who is believed when a log says several things, and that no log costs more than its size."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.ci.logs import Cause, LogReading, excerpt, read_log
from agent.ci.logs.readers.junit_xml import read_report
from agent.ci.logs.steps import HEAD, TAIL, read_steps


def failure_ids(reading: LogReading) -> set[str]:
    return set(reading.ids)


def is_infrastructure(reading: LogReading) -> bool:
    return reading.cause is Cause.INFRASTRUCTURE


STAMP = "2026-01-02T03:04:05.1234567Z "
PYTEST = """============================= test session starts ==============================
collected 1 item

tests/test_a.py F                                                        [100%]

=================================== FAILURES ===================================
____________________________________ test_a ____________________________________

    def test_a():
>       connect()
E       ConnectionRefusedError: [Errno 111] Connection refused

tests/test_a.py:3: ConnectionRefusedError
----------------------------- Captured stdout call -----------------------------
npm error code E503
curl: (6) Could not resolve host: index.example
src/a.py:1:8: F401 `os` imported but unused
fatal: unable to access 'https://git.invalid/': Could not resolve host: git.invalid
=========================== short test summary info ============================
FAILED tests/test_a.py::test_a - ConnectionRefusedError: [Errno 111] Connection refused
============================== 1 failed in 0.01s ==============================="""


def job(*steps: tuple[str, str, str]) -> str:
    """A GitHub log of steps: (command, what it printed, its error)."""
    lines: list[str] = []
    for command, printed, error in steps:
        lines += [f"##[group]Run {command}", f"\x1b[36;1m{command}\x1b[0m", "shell: /usr/bin/bash -e {0}", "##[endgroup]"]
        lines += printed.split("\n") + ([f"##[error]{error}"] if error else [])
    return "\ufeff" + "".join(f"{STAMP}{line}\n" for line in [*lines, "Post job cleanup."])


ENDED = "Process completed with exit code 1."


UNITTEST_QUIET = f"""{"=" * 70}
FAIL: test_a (t.T.test_a)
{"-" * 70}
Traceback (most recent call last):
  File "/home/runner/t.py", line 5, in test_a
    self.fail("src/a.py:3:5: F401 `os` imported but unused")
AssertionError:
src/a.py:3:5: F401 `os` imported but unused

{"-" * 70}
Ran 1 test in 0.000s

FAILED (failures=1)"""


def test_a_failure_in_the_first_line_of_a_log_is_read_to_its_end() -> None:
    """`unittest -q` prints nothing before the failures."""
    assert read_log(job(("python -m unittest -q", UNITTEST_QUIET, ENDED))).ids == ("t.T.test_a",)


def test_what_a_failing_test_printed_makes_no_other_class() -> None:
    reading = read_log(job(("pytest", PYTEST, ENDED)))
    assert reading.cause is Cause.TEST
    assert not is_infrastructure(reading)
    assert failure_ids(reading) == {"tests/test_a.py::test_a"}


def test_the_same_words_of_a_client_are_infrastructure() -> None:
    reading = read_log(job(("npm ci", "npm error code E503\nnpm error 503 Service Unavailable", ENDED)))
    assert is_infrastructure(reading)
    assert reading.evidence == "npm error code E503"
    assert reading.ids == ()


@pytest.mark.parametrize(
    "said",
    [
        "AssertionError: 503 Service Unavailable",
        "my script: connection refused",
        "test_no_space_left_on_device ... ok",
        "the API rate limit exceeded page is shown",
        "expected 'curl: (6) Could not resolve host' in the output",
    ],
)
def test_words_of_trouble_alone_are_no_infrastructure(said: str) -> None:
    assert not is_infrastructure(read_log(job(("./check", said, ENDED))))


def test_a_broken_network_explains_what_could_not_be_found() -> None:
    none = "ERROR: No matching distribution found for idna"
    retry = "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(x)': /simple/idna/"
    assert read_log(job(("pip install idna", none, ENDED))).cause is Cause.DEPENDENCY
    assert is_infrastructure(read_log(job(("pip install idna", f"{retry}\n{none}", ENDED))))


def test_a_lost_runner_outranks_an_unfinished_run_but_not_a_finished_one() -> None:
    lost = "The runner has received a shutdown signal. This can happen when the runner service is stopped."
    assert is_infrastructure(read_log(job(("pytest", PYTEST[:200], lost))))
    assert read_log(job(("pytest", PYTEST, lost))).cause is Cause.TEST


def test_only_the_failing_step_is_read() -> None:
    reading = read_log(
        job(
            ("pip install x", "ERROR: No matching distribution found for optional", ""),
            ("pytest", PYTEST, ENDED),
            ("./upload", "curl: (22) The requested URL returned error: 503", ENDED),
        )
    )
    assert (reading.cause, failure_ids(reading)) == (Cause.TEST, {"tests/test_a.py::test_a"})


def test_a_step_that_only_annotates_is_not_the_failing_one() -> None:
    annotated = "::error file=app/a.py,line=1::app/a.py:1:8: F401 `os` imported but unused"
    reading = read_log(job(("ruff check || true", annotated, ""), ("pytest", PYTEST, ENDED)))
    assert (reading.cause, failure_ids(reading)) == (Cause.TEST, {"tests/test_a.py::test_a"})


def test_a_green_run_of_tests_leaves_the_word_to_the_linter_after_it() -> None:
    green = (
        "============================= test session starts ==============================\na.py:1:1: F401 printed by a test\n"
    )
    green += "============================== 3 passed in 0.01s ==============================="
    reading = read_log(job(("make check", f"{green}\napp/a.py:3:1: F841 Local variable `x` is assigned to", ENDED)))
    assert (reading.cause, failure_ids(reading)) == (Cause.LINT, {"app/a.py:3:1 F841"})


def test_a_report_with_entities_is_not_expanded() -> None:
    bomb = '<!DOCTYPE t [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    case = '<testcase classname="A" name="b"><failure message="&b;"/></testcase>'
    assert read_report(f"<testsuite>{case.replace('&b;', 'no')}</testsuite>") == ("A.b",)
    assert read_report(f"{bomb}<testsuite>{case}</testsuite>") == ()
    assert read_report("<testsuite>" + "<testsuite>" * 100_000) == ()


def test_a_group_that_a_tool_opens_begins_no_step() -> None:
    printed = "##[group]Run hooks\nsomething\n##[endgroup]\n" + PYTEST
    assert len(read_steps(job(("make", printed, ENDED)))) == len(read_steps(job(("make", PYTEST, ENDED))))


def test_logs_without_marks_with_carriage_returns_colours_and_prefixes_read_the_same() -> None:
    wanted = read_log(job(("pytest", PYTEST, ENDED))).ids
    shapes = [
        PYTEST,
        PYTEST.replace("\n", "\r\n"),
        "downloading 1%\rdownloading 100%\r" + PYTEST,
        "\n".join(f"\x1b[31m{line}\x1b[0m" for line in PYTEST.split("\n")),
        "\n".join(f"test (3.11)\tRun pytest\t{STAMP}{line}" for line in PYTEST.split("\n")),
    ]
    for shape in shapes:
        assert read_log(shape).ids == wanted


def test_workflow_commands_that_are_not_shown_yet_are_read() -> None:
    reading = read_log(
        "::error title=ruff (F401),file=/x/app/a.py,line=1,col=8::app/a.py:1:8: F401 `os` imported but unused%0A help"
    )
    assert failure_ids(reading) == {"app/a.py:1:8 F401"}


def test_a_forged_summary_inside_of_a_test_names_no_failure() -> None:
    forged = PYTEST.replace(
        "npm error code E503",
        "=========================== short test summary info ============================\nFAILED tests/b.py::ghost - x",
    )
    assert failure_ids(read_log(forged)) == {"tests/test_a.py::test_a"}


UV_503 = """error: Failed to fetch: `http://index.invalid/simple/idna/`
  Caused by: HTTP status server error (503 Service Unavailable) for url (http://index.invalid/simple/idna/)"""
UV_NONE = """  × No solution found when resolving dependencies:
  ╰─▶ Because there is no version of requests==99.9 and you require requests==99.9, we can conclude"""
USAGE = """ERROR: usage: __main__.py [options] [file_or_dir]
__main__.py: error: unrecognized arguments: --gone
  inifile: None"""
HANGING = f"""{PYTEST.partition(chr(10))[0]}
tests/test_slow.py::test_slow
+++++++++++++++++++++++++++++++++++ Timeout ++++++++++++++++++++++++++++++++++++

~~~~~~~~~~~~~~~~~~~~ Stack of MainThread (140089909192384) ~~~~~~~~~~~~~~~~~~~~~"""
TAP = """TAP version 13
# Subtest: a
    # Subtest: b
    not ok 1 - b
      ---
      error: 'no'
      ...
not ok 1 - a
# fail 1"""


@pytest.mark.parametrize(
    ("printed", "cause", "ids"),
    [
        (UV_503, Cause.INFRASTRUCTURE, set()),
        (UV_NONE, Cause.DEPENDENCY, {"requests==99.9"}),
        (USAGE, Cause.TEST, {"unrecognized arguments: --gone"}),
        (HANGING, Cause.TIMEOUT, {"tests/test_slow.py::test_slow"}),
        (TAP, Cause.TEST, {"a > b"}),
    ],
)
def test_shapes_of_other_versions_than_the_corpus_holds(printed: str, cause: Cause, ids: set[str]) -> None:
    reading = read_log(job(("run", printed, ENDED)))
    assert (reading.cause, failure_ids(reading)) == (cause, ids)


def test_texts_are_cleaned_and_bounded() -> None:
    evil = "\u202e\x1b]0;title\x07\x00" + "é" * 5000
    log = PYTEST.replace("[Errno 111] Connection refused", evil).replace("test_a.py::test_a", f"test_a.py::test_a[{evil}]")
    reading = read_log(log * 3)
    told = "".join((reading.evidence, *reading.ids))
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert all(len(each) <= 1000 for each in reading.ids)


def test_failures_are_bounded() -> None:
    lines = "\n".join(f"app/a.py:{at}:1: F401 `x` imported but unused" for at in range(1, 5000))
    assert len(read_log(lines).ids) == 500


def test_a_huge_log_is_read_at_its_head_and_tail() -> None:
    huge = "tests/test_many.py ............................................\n" * 200_000 + PYTEST
    assert len(huge) > HEAD + TAIL
    assert failure_ids(read_log(huge)) == {"tests/test_a.py::test_a"}


PIECES = (
    "a", " ", "=", "_", "-", "*", ".", ":", "::", "1:", "/", "[", "]", "(", ")", " - ", "FAILED ", "ERROR ", "a.a", "a:1",
    "error: ",
    "'", "`", '"', "<testsuites", 'File "', "    at ", "● ", "✖ ", " > ", "❯ ", "Because ", "---- ", "1 passed, ", "1) ",
    "npm error ",
    "\x1b", "\x1b[", "\x1b]", "\r", "::error ", "##[error]", "\t",
)  # fmt: skip


@pytest.mark.timeout(60)  # a reader that is not linear needs hours for this
def test_no_line_is_expensive() -> None:
    starts = (
        "", "FAILED tests/a.py::t[", "=", "__ ", "app/a.py:1:1: ", "  ● ", " FAIL  a.js", "npm error ", "ERROR: ",
        "error[E0001]: ",
        "thread '", "fatal: ",
    )  # fmt: skip
    log = "\n".join(
        start + piece * (2_200 // len(piece)) + end for start in starts for piece in PIECES for end in ("", "!", "\x00")
    )
    read_log(f"{PYTEST[:80]}\n{log}\n{PYTEST}")
    excerpt(log)
    for piece in PIECES:  # and not in their number
        read_log((piece * 30 + "\n") * 2_000)


def test_every_log_of_the_corpus_is_read_when_it_is_cut_anywhere() -> None:
    for log in sorted((Path(__file__).parents[3] / "data" / "logs").glob("*/log.txt"))[::7]:
        text = log.read_text()
        for part in range(1, 6):
            read_log(text[: len(text) * part // 6])
            read_log(text[len(text) * part // 6 :])
