"""Tests that are collected once and run many times, each time in a fork; runs inside the sandbox.

A suite knows how to collect and to run one test by its id; it knows nothing of changes.
"""

import importlib.util
import os
import sys
import unittest


class Unavailable(Exception):
    """Nothing could be collected; the message says why."""


def with_pytest(args, ids, serve):
    """Collect `args` and call `serve(tests)`, where tests maps an id to a callable that says whether it passes."""
    import pytest

    class Loop:
        served = False

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session):
            wanted = set(ids)
            serve({i.nodeid: _PytestTest(i) for i in session.items if not wanted or i.nodeid in wanted})
            self.served = True
            return True

    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--capture=sys", "--continue-on-collection-errors"]
    if importlib.util.find_spec("xdist"):
        options.append("-n0")
    if importlib.util.find_spec("pytest_cov"):
        options.append("--no-cov")
    loop = Loop()
    code = pytest.main(options + list(args), plugins=[loop])
    if not loop.served:
        raise Unavailable("pytest ended with %s before it could run anything" % int(code))


class _PytestTest(object):
    def __init__(self, item):
        self.item = item

    def __call__(self):
        # The hooks without the report: formatting a traceback costs more than most tests.
        item = self.item
        passed = False
        try:
            item.ihook.pytest_runtest_setup(item=item)
            item.ihook.pytest_runtest_call(item=item)
            passed = not getattr(item, "_excinfo", None)  # unittest cases keep theirs
        except BaseException:
            pass
        try:
            item.ihook.pytest_runtest_teardown(item=item, nextitem=None)
        except BaseException:
            passed = False
        return passed


def with_unittest(args, ids, serve):
    """The same for plain unittest; `args` are folders that come first on the path, ids are dotted names."""
    for folder in args:
        sys.path.insert(0, os.path.abspath(folder))
    tests = {}
    for name in ids:
        suite = unittest.defaultTestLoader.loadTestsFromName(name)
        tests[name] = _UnittestTest(suite)
    serve(tests)


class _UnittestTest(object):
    def __init__(self, suite):
        self.suite = suite

    def __call__(self):
        result = unittest.TestResult()
        self.suite.run(result)
        return result.testsRun > 0 and result.wasSuccessful() and not result.skipped


SUITES = {"pytest": with_pytest, "unittest": with_unittest}
