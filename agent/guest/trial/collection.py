"""Tests that are collected once and run many times, in forks or again and again in one; runs inside the sandbox.

A suite knows how to collect and to run one test by its id; it knows nothing of changes. A test has two ways to run:
`test()` once, as its own runner would, and `test.again()`, cheap and repeatable, which leaves set up what outlives one test.
"""

import contextlib
import copy
import os
import sys
import unittest

from .text import identity

COPIED = (list, dict, set, bytearray, tuple)  # arguments that a test may share with its next run


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
    """Collect what the plan names and call `serve(tests)`; tests maps ids to tests. Raises Unavailable."""
    os.chdir(os.path.join(root, plan.get("cwd", ".")))
    sys.path.insert(0, os.getcwd())
    if plan["reader"] == "pytest":
        _with_pytest(root, [os.path.join(root, arg) for arg in plan["args"]], set(ids), serve)
    else:
        serve({name: _UnittestTest(name) for name in ids})


def _with_pytest(root, args, wanted, serve):
    try:
        import pytest

        from . import collector
    except ImportError:
        raise Unavailable("pytest is not installed") from None

    class Loop:
        served = False
        collected, broken = set(), set()
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

        def pytest_collectreport(self, report):
            (self.broken if report.outcome == "failed" else self.collected).add(report.nodeid)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session):
            # The same ids as the collector's: relative to the repository's root.
            prefix = os.path.relpath(os.path.realpath(str(session.config.rootdir)), root).replace(os.sep, "/")
            prefix = "" if prefix == "." or prefix.startswith("..") else prefix + "/"
            listener = _Listener()
            session.config.pluginmanager.register(listener, "selfheal-listener")
            tests = {identity(prefix + item.nodeid): _PytestTest(item, listener) for item in session.items}
            for name in wanted - set(tests):
                if name in {identity(prefix + nodeid) for nodeid in self.broken}:
                    tests[name] = File(False, ())
                elif name in {identity(prefix + nodeid) for nodeid in self.collected} or name.endswith("conftest.py"):
                    tests[name] = File(True, [t for i, t in tests.items() if i.startswith(name + "::")])
            serve({name: test for name, test in tests.items() if name in wanted})
            self.served = True
            return True

    # Asserts are not rewritten: what they would tell is not read here, and telling it costs more than most tests.
    options = "-q -p no:cacheprovider -p no:randomly --capture=no --assert=plain --tb=no --continue-on-collection-errors"
    loop = Loop()
    code = pytest.main(options.split() + list(args), plugins=[loop])
    if not loop.served:
        raise Unavailable("pytest ended with %s before it could run anything" % int(code))


class _Listener(object):
    """A plugin that keeps the reports of the test that runs."""

    def __init__(self):
        self.reports = []

    def pytest_runtest_logreport(self, report):
        self.reports.append(report)

    def have_passed(self):
        reports, self.reports = self.reports, []
        return bool(reports) and all(report.passed and not hasattr(report, "wasxfail") for report in reports)


class File(object):
    """Stands for a file: green when it could be collected. `tests` are those in it."""

    is_repeatable = False
    reached = None

    def __init__(self, is_collected, tests):
        self.is_collected, self.tests = is_collected, tests

    def __call__(self):
        return self.is_collected

    again = __call__


class _PytestTest(object):
    def __init__(self, item, listener):
        self.item, self.listener = item, listener
        item.repr_failure = _untold  # nobody reads it, and telling it costs more than most tests
        self.is_plain = _is_plain(item)
        # Before pytest 7 what is set up was kept otherwise.
        self.is_repeatable = isinstance(getattr(item.session._setupstate, "stack", None), dict)
        self.arguments = None  # as they were before the first run, where a run might change them
        self.reached = None  # line of the test's function in which the last run failed, where known

    def __call__(self, nextitem=None):
        self.reached = None
        self.listener.reports = []
        self.item.config.hook.pytest_runtest_protocol(item=self.item, nextitem=nextitem)
        return self.listener.have_passed()

    def again(self):
        item = self.item
        state = item.session._setupstate
        state.teardown_exact(item)  # what another test has set up and this one does not need
        if not self.is_plain:
            return self(item.parent)  # so that only this test's own fixtures are torn down
        if self.arguments is None:
            item._initrequest()
            state.setup(item)
            self.arguments = {name: copy.deepcopy(v) for name, v in item.funcargs.items() if isinstance(v, COPIED)}
        for name, value in self.arguments.items():
            if item.funcargs[name] is value or not _is_same(item.funcargs[name], value):
                item.funcargs[name] = copy.deepcopy(value)
        try:
            with _warnings_of(item):
                item.runtest()
        except BaseException as error:
            self.reached = _line_in(error.__traceback__, getattr(item.obj, "__code__", None))
            raise
        return True


def _untold(excinfo, style=None):
    return "failed"


def _is_same(one, other):
    try:
        return bool(one == other)
    except Exception:
        return False


def _line_in(trace, code):
    line = None
    while trace is not None:
        if trace.tb_frame.f_code is code:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _is_plain(item):
    """Is it a function that is called and nothing else, once that which outlives it is set up?"""
    import pytest

    if type(item) is not pytest.Function or item.cls is not None or not hasattr(item, "_fixtureinfo"):
        return False
    code = getattr(item.obj, "__code__", None)
    if code is None or code.co_flags & 0x2A0 or any(True for n in ("skip", "skipif", "xfail") for _ in item.iter_markers(n)):
        return False  # a generator, a coroutine; a verdict of its own
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        last = definitions[-1]
        if last.scope == "function" and not getattr(last.func, "__name__", "").startswith("get_direct_param"):
            return False
    return True


def _warnings_of(item):
    """Warnings as this test wants them; nothing where nobody has said anything about warnings."""
    config = item.config
    if config.getini("filterwarnings") or getattr(config.known_args_namespace, "pythonwarnings", None):
        try:
            from _pytest.warnings import catch_warnings_for_item

            return catch_warnings_for_item(config=config, ihook=item.ihook, when="runtest", item=item)
        except ImportError:
            pass
    return contextlib.suppress(Unavailable)  # in other words, nothing


class _UnittestTest(object):
    """A case, or all of a class or module, with the fixtures around them set up anew for each run."""

    is_repeatable = True
    reached = None

    def __init__(self, name):
        self.cases = list(_cases(unittest.defaultTestLoader.loadTestsFromName(name)))

    def __call__(self):
        result = unittest.TestResult()
        unittest.TestSuite(self.cases).run(result)
        return result.testsRun > 0 and result.wasSuccessful() and not result.skipped

    again = __call__


def _cases(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            for case in _cases(test):
                yield case
        else:
            yield test
