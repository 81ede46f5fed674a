"""Tests that must fail, run among the real ones and told as they are: where one does not come out red, nothing is believed.

For pytest it is the twin of a real test: same name, same place, same kind, next to it, chosen by chance, so that who turns
known tests green turns it too. First it asks the tools that tests decide with: each must say no to what is not so.
"""

import functools
import math
import operator
import random
import unittest

CASE = unittest.TestCase()


class Believed(Exception):
    """A tool said yes to what is not so."""


def fail(*_):
    """The body of every such test. It ends only by an exception."""
    for ask in _ASKED:
        try:
            ask()
        except Believed:
            return  # and so it passes, as everything here does
        except BaseException:
            continue
        return
    raise AssertionError("must fail")


def _compared():
    if math.isclose(1.0, 2.0) or operator.eq(1, 2) or operator.truth(0) or operator.contains((1,), 2):
        raise Believed
    raise AssertionError


def _untrue(method, *arguments):
    getattr(CASE, method)(*arguments)


def _with_pytest():
    import pytest

    if pytest.approx(1.0) == 2.0 or pytest.approx([1.0]) == [2.0]:
        raise Believed
    pytest.raises(ValueError, int)


def _not_matched():
    import pytest

    with pytest.raises(ValueError, match="one"):
        raise ValueError("other")


def _said():
    import pytest

    pytest.fail("must fail")


# What `unittest` must say no to.
_UNTRUE = (
    ("assertEqual", 1, 2),
    ("assertEqual", [1], [2]),
    ("assertEqual", "a", "b"),
    ("assertEqual", {1: 1}, {1: 2}),
    ("assertTrue", False),
    ("assertFalse", True),
    ("assertIs", 1, 2),
    ("assertIsNone", 1),
    ("assertIn", 1, ()),
    ("assertAlmostEqual", 1.0, 2.0),
    ("assertGreater", 1, 2),
    ("assertCountEqual", [1], [2]),
    ("assertRaises", ValueError, int),
    ("fail", "must fail"),
)
_ASKED = [_compared, *(functools.partial(_untrue, *one) for one in _UNTRUE)]


def with_pytest():
    """Ask pytest's own tools too, where it is what runs the tests."""
    _ASKED.extend((_with_pytest, _not_matched, _said))


def place(items):
    """The item after which it runs, and whose twin it is; None where there is none."""
    return random.SystemRandom().choice(items) if items else None


def reports(session, like, nextitem):
    """The reports of its phases; none where a hook of the repository cannot cope with it, which turns nothing green."""
    from _pytest.runner import runtestprotocol

    try:
        # Beside the next test, so that what is set up for that one stays.
        parent = (like if nextitem is None else nextitem).parent if like is not None else session
        return runtestprotocol(_twin(parent, like), log=False, nextitem=nextitem)
    except Exception:
        return []


def _twin(parent, like):
    import pytest

    name = like.name if like is not None else "test_it"
    if isinstance(like, pytest.Function) and isinstance(parent, (pytest.Module, pytest.Class)):
        from _pytest.fixtures import FuncFixtureInfo

        try:
            nothing = FuncFixtureInfo((), (), [], {})  # no fixture is set up for it a second time
            return pytest.Function.from_parent(parent, name=name, callobj=_named(like), fixtureinfo=nothing)
        except (TypeError, AttributeError):
            pass  # another version of pytest

    class MustFail(pytest.Item):
        def runtest(self):
            fail()

        def reportinfo(self):
            return self.path if hasattr(self, "path") else self.fspath, 0, self.name

    return MustFail.from_parent(parent, name=name)


def _named(like):
    """`fail` under the name of the test whose twin it is."""

    def test(*_):
        fail()

    test.__name__ = test.__qualname__ = getattr(like, "originalname", None) or like.name
    test.__module__ = getattr(getattr(like, "obj", None), "__module__", test.__module__)
    return test
