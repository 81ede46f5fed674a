"""A test that must fail, run among the real ones and told as they are: where it does not come out red, nothing is believed.

Its name is the supervisor's choice, new for every run, and its place is chance: code under test that turns verdicts green
without looking turns this one too.
"""

import random

import pytest
from _pytest.runner import runtestprotocol


class _MustFail(pytest.Item):
    def runtest(self):
        raise AssertionError("must fail")

    def repr_failure(self, excinfo, style=None):
        return "must fail"  # pytest's own would quote every frame of itself: a tenth of a second in every run

    def reportinfo(self):
        return self.path if hasattr(self, "path") else self.fspath, 0, self.name


def place(items):
    """The item after which it runs; None where there is none."""
    return random.SystemRandom().choice(items) if items else None


def reports(session, name, nodeid, nextitem):
    """The reports of its phases; none where a hook of the repository cannot cope with it, which turns nothing green."""
    try:
        # Beside the next test, so that what is set up for that one stays.
        item = _MustFail.from_parent(session if nextitem is None else nextitem.parent, name=name, nodeid=nodeid)
        return runtestprotocol(item, log=False, nextitem=nextitem)
    except Exception:
        return []
