"""The canary test: a test that must fail, run among the real ones. If it is not reported as failed, no result is believed.

For pytest it is the twin of a randomly chosen real test: same name, same parent, same kind, run right after it, so code that
turns failing tests into passing ones also turns the canary. First it probes the tools that tests decide with: each must reject
what is false.
"""

from __future__ import annotations

import functools
import math
import operator
import unittest
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

CASE = unittest.TestCase()


class FalseSuccess(Exception):
    """A tool accepted what is false."""


def fail(*_: object) -> None:
    """The body of the canary. It raises an exception unless a tool was tampered with."""
    for probe in _PROBES:
        try:
            probe()
        except FalseSuccess:
            return  # the canary passes, which shows the tampering
        except BaseException:  # anything except a false success shows that the tool works
            continue
        return
    raise AssertionError("must fail")


def _probe_operators() -> None:
    if math.isclose(1.0, 2.0) or operator.eq(1, 2) or operator.truth(0) or operator.contains((1,), 2):
        raise FalseSuccess
    raise AssertionError


def _probe_unittest(method: str, *arguments: object) -> None:
    getattr(CASE, method)(*arguments)


def _probe_pytest(tool: str) -> None:
    import pytest

    if tool == "approx":
        if pytest.approx(1.0) == 2.0 or pytest.approx([1.0]) == [2.0]:
            raise FalseSuccess
        pytest.raises(ValueError, int)
    elif tool == "match":
        with pytest.raises(ValueError, match="one"):
            raise ValueError("other")
    else:
        pytest.fail("must fail")


# Assertions that `unittest` must reject.
_FALSE: tuple[tuple[Any, ...], ...] = (
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
_PROBES: list[Callable[[], None]] = [_probe_operators, *(functools.partial(_probe_unittest, *one) for one in _FALSE)]


def add_pytest_probes() -> None:
    """Also probe pytest's own tools; called if pytest runs the tests."""
    _PROBES.extend(functools.partial(_probe_pytest, tool) for tool in ("approx", "match", "fail"))


def run(session: pytest.Session, original: pytest.Item | None, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """Run the canary; returns the reports of its phases, or none if a hook of the repository fails on it (no result counts)."""
    from _pytest.runner import runtestprotocol

    try:
        # Under the parent of the next test, so that fixtures needed by that test stay set up.
        neighbour = original if nextitem is None else nextitem
        parent = session if original is None or neighbour is None else neighbour.parent
        return runtestprotocol(_twin(parent, original), log=False, nextitem=nextitem)
    except Exception:  # the repository's hooks
        return []


def _twin(parent: Any, original: pytest.Item | None) -> pytest.Item:
    import pytest

    name = original.name if original is not None else "test_it"
    if isinstance(original, pytest.Function) and isinstance(parent, (pytest.Module, pytest.Class)):
        from _pytest.fixtures import FuncFixtureInfo

        try:
            nothing = FuncFixtureInfo((), (), [], {})  # do not set up fixtures a second time
            return pytest.Function.from_parent(parent, name=name, callobj=_fail_named_like(original), fixtureinfo=nothing)
        except (TypeError, AttributeError):
            pass  # another version of pytest

    class MustFail(pytest.Item):
        def runtest(self) -> None:
            fail()

        def reportinfo(self) -> tuple[Any, int | None, str]:
            return self.path if hasattr(self, "path") else self.fspath, 0, self.name

    return MustFail.from_parent(parent, name=name)


def _fail_named_like(original: pytest.Function) -> Callable[..., None]:
    """`fail` with the name of the original test."""

    def test(*_: object) -> None:
        fail()

    test.__name__ = test.__qualname__ = getattr(original, "originalname", None) or original.name
    test.__module__ = getattr(getattr(original, "obj", None), "__module__", test.__module__)
    return test
