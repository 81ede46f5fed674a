from __future__ import annotations

import configparser

import pytest

from agent.source.ini import read_ini


def test_the_sections_of_a_file_are_read_whatever_their_percent_signs() -> None:
    parser = read_ini("[a]\nkey = 100%(x)s\n  more\n[a]\nother: 1\n")
    assert dict(parser["a"]) == {"key": "100%(x)s\nmore", "other": "1"}


@pytest.mark.timeout(20)  # the standard parser needs minutes
@pytest.mark.parametrize("blank", [" ", "\t", "\r", "\u2003"])
def test_a_line_that_costs_quadratic_time_is_refused_with_its_number(blank: str) -> None:
    with pytest.raises(configparser.Error, match="line 2 has 200 blanks"):
        read_ini("[a]\nkey" + blank * 70_000 + "x\n")


def test_a_repeated_section_is_refused_on_request() -> None:
    with pytest.raises(configparser.DuplicateSectionError):
        read_ini("[a]\n[a]\n", strict=True)
