import inspect

import pytest

import weights

typing_extensions = pytest.importorskip("typing_extensions")


def test_hints_can_be_read():
    assert typing_extensions.get_type_hints(weights.grams) == {"kilos": float, "return": int}


def test_overloads_are_told():
    # Red only in the leg that has the typed extra; skipped in all others.
    assert typing_extensions.get_overloads(weights.heavier), inspect.getsource(weights.heavier)
