import os

from hypothesis import given, settings
from hypothesis import strategies as st

from routes import join


def test_two():
    assert join("a", "b") == "/a/b"


def test_an_empty_part_is_left_out():
    assert join("a", "", "b") == "/a/b"


@settings(derandomize=True, database=None)
@given(st.lists(st.sampled_from(["a", "b", ""])))
def test_there_are_never_two_slashes(parts):
    assert "//" not in join(*parts)


def test_it_is_prepared():
    assert os.environ["PREPARED"] == "yes"
