import os

import pytest

from lines import Line


def test_one():
    assert Line(["a"]).serve() == "a"


def test_who_comes_first_is_served_first():
    assert Line(["a", "b"]).serve() == "a"


@pytest.mark.slow
def test_a_long_line():
    line = Line()
    for person in range(40):
        line.join(person)
    assert [line.serve() for _ in range(40)] == list(range(40))


def test_slow_is_told():
    assert os.environ["SLOW"] == "true"
