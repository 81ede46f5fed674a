"""A test that must fail, run beside the real ones: where it is told as passed, nothing that this process tells is believed."""

import pytest
from _pytest.runner import runtestprotocol


class _MustFail(pytest.Item):
    def runtest(self):
        raise AssertionError("must fail")

    def reportinfo(self):
        return self.fspath, 0, self.name


def still_fails(session):
    """Whether a failing test is still reported as failed after every hook of the repository had its say; logged nowhere."""
    try:
        item = _MustFail.from_parent(session, name="must fail", nodeid="must fail")
        reports = runtestprotocol(item, log=False, nextitem=None)
    except Exception:
        return True  # a hook of the repository that cannot cope with this item has not turned it green
    return any(report.outcome == "failed" for report in reports)
