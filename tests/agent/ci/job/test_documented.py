"""docs/reproduce.md says what a replay can do: no name that the code knows is missing there, and no other one stands there."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from agent.ci.expressions import functions
from agent.ci.job import actions, services
from agent.ci.runners import dispatch

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "reproduce.md").read_text()


def row(start: str) -> set[str]:
    """What stands in backticks in the last cell of a row, or in the line, that begins so."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(start)]
    return set(re.findall(r"`([^`]+)`", line.removeprefix(start)))


@pytest.mark.parametrize(
    ("start", "known"),
    [
        ("| a toolchain is made ready", actions._TOOLCHAINS),
        ("| nothing |", actions._NOTHING),
        ("| a linter's command line", actions._LINTERS),
        ("By their name without the owner:", services.IMAGES),
        ("`gmake`", [name for name in dispatch._RUNNERS if name != "gmake"]),
    ],
)
def test_the_names_of_the_code_are_those_of_the_page(start: str, known: Iterable[str]) -> None:
    assert row(start) == set(known)


def test_the_functions_of_expressions_are_on_the_page() -> None:
    assert {name.lower() for name in row("| expressions |")} == set(functions._FUNCTIONS)
