"""Tests that are collected once and run many times, each time in a fork; runs inside the sandbox.

A suite knows how to collect and to run one test by its id; it knows nothing of changes.
"""

import os
import sys
import unittest

from .text import identity


class Unavailable(Exception):
    """Nothing could be collected; the message says why."""


def silence():
    """Take the answer channel away from everything that runs later; returns its descriptor and the repository's root."""
    answers = os.dup(1)
    os.set_inheritable(answers, False)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    return answers, os.path.realpath(os.getcwd())


def preload(reader):
    """Import the test runner once for all forks: the larger part of a fresh start."""
    if reader == "pytest":
        try:
            import _pytest.runner  # noqa: F401
            import pytest  # noqa: F401
        except ImportError:
            pass  # `collect` says so


def collect(plan, root, ids, serve):
    """Collect what the plan names and call `serve(tests)`; tests maps ids to callables that say whether one passes.

    Raises Unavailable.
    """
    os.chdir(os.path.join(root, plan.get("cwd", ".")))
    sys.path.insert(0, os.getcwd())
    if plan["reader"] == "pytest":
        _with_pytest(root, [os.path.join(root, arg) for arg in plan["args"]], set(ids), serve)
    else:
        serve({name: _UnittestTest(unittest.defaultTestLoader.loadTestsFromName(name)) for name in ids})


def _with_pytest(root, args, wanted, serve):
    try:
        import pytest

        from . import collector
    except ImportError:
        raise Unavailable("pytest is not installed") from None

    class Loop:
        served = False
        pytest_addoption = staticmethod(collector.pytest_addoption)

        # Set where a loaded plugin has declared them: an option on the command line is an error where it has not.

        @pytest.hookimpl(hookwrapper=True)
        def pytest_load_initial_conftests(self, early_config):
            if hasattr(early_config.known_args_namespace, "no_cov"):
                early_config.known_args_namespace.no_cov = True
            yield

        @pytest.hookimpl(hookwrapper=True)
        def pytest_cmdline_main(self, config):
            collector.in_one_process(config.option)
            yield

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session):
            # The same ids as the collector's: relative to the repository's root.
            prefix = os.path.relpath(os.path.realpath(str(session.config.rootdir)), root).replace(os.sep, "/")
            prefix = "" if prefix == "." or prefix.startswith("..") else prefix + "/"
            tests = {identity(prefix + item.nodeid): _PytestTest(item) for item in session.items}
            serve({name: test for name, test in tests.items() if name in wanted})
            self.served = True
            return True

    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--capture=sys",
        "--tb=no",
        "--continue-on-collection-errors",
    ]
    loop = Loop()
    code = pytest.main(options + list(args), plugins=[loop])
    if not loop.served:
        raise Unavailable("pytest ended with %s before it could run anything" % int(code))


class _PytestTest(object):
    def __init__(self, item):
        self.item = item

    def __call__(self):
        from _pytest.runner import runtestprotocol  # where pytest's own loop and its plugins get it

        reports = runtestprotocol(self.item, log=False, nextitem=None)
        return all(report.passed and not hasattr(report, "wasxfail") for report in reports)


class _UnittestTest(object):
    def __init__(self, suite):
        self.suite = suite

    def __call__(self):
        result = unittest.TestResult()
        self.suite.run(result)
        return result.testsRun > 0 and result.wasSuccessful() and not result.skipped
