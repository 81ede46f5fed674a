"""Collects tests once so that they can run many times, in forks or repeatedly in one process.

A test has two ways to run: `test()` once, as its own runner would, and `test.again()`, cheap and repeatable, which keeps class,
module and session fixtures set up.
"""

from __future__ import annotations

import contextlib
import copy
import doctest
import importlib
import importlib.util
import os
import sys
import unittest
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict

from ..text import identity

if TYPE_CHECKING:
    import pytest

Serve = Callable[[Dict[str, Any]], None]  # test id -> test

COPIES = ("build", "dist", "venv", "env", "node_modules", "site-packages")  # folders with copies of modules
USAGE = 4  # pytest's exit code for arguments that it cannot use
COPIED = (list, dict, set, bytearray, tuple)  # types of arguments that a test could change for its next run


class NotCollected(Exception):
    """Nothing could be collected; the message says why."""


def reserve_output() -> tuple[int, str]:
    """Reserve standard output for our answer, which nothing that runs later can use; returns its descriptor and the root."""
    answers = os.dup(1)
    os.set_inheritable(answers, False)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    return answers, os.path.realpath(os.getcwd())


def import_runner(reader: str) -> None:
    """Import the test runner once for all forks: that is most of the cost of a fresh start."""
    if reader == "pytest":
        try:
            import _pytest.runner  # noqa: F401
            import pytest  # noqa: F401
        except ImportError:
            pass  # `collect` reports the error


def collect(plan: dict[str, Any], root: str, ids: Iterable[str], serve: Serve) -> None:
    """Collect the tests of the plan and call `serve(tests)`, where `tests` maps ids to tests. Raises NotCollected."""
    os.chdir(os.path.join(root, plan.get("cwd", ".")))
    sys.path.insert(0, os.getcwd())
    if plan["reader"] == "pytest":
        _with_pytest(root, [os.path.join(root, arg) for arg in plan["args"]], set(ids), serve)
    else:
        patched: Any = unittest.TestSuite
        patched._cleanup = False  # a suite that has run drops its tests, but these run again
        names = list(ids)
        for module in sorted({name.partition(".")[0] for name in names}):
            _make_importable(module, root)
        serve({name: _UnittestTest(_unittest_suite(name)) for name in names})


def _make_importable(module: str, root: str) -> None:
    """Add the only folder with this module to the import path, as `unittest discover -s FOLDER` does."""
    if module in sys.modules or importlib.util.find_spec(module) is not None:
        return
    found = []
    for folder, inner, files in os.walk(root):
        if module + ".py" in files or os.path.isfile(os.path.join(folder, module, "__init__.py")):
            found.append(folder)
        inner[:] = [name for name in inner if not name.startswith(".") and name not in COPIES]
    if len(found) == 1:
        sys.path.insert(0, found[0])


def _with_pytest(root: str, args: Sequence[str], wanted: set[str], serve: Serve) -> None:
    try:
        import pytest

        from ..observe import collector
    except ImportError:
        raise NotCollected("pytest is not installed") from None

    class Loop:
        served = False
        collected: set[str] = set()
        broken: set[str] = set()
        pytest_addoption = staticmethod(collector.pytest_addoption)

        # Set only if a loaded plugin has declared it, because an undeclared option on the command line is an error.

        @pytest.hookimpl(hookwrapper=True)
        def pytest_load_initial_conftests(self, early_config: Any) -> Generator[None, Any, None]:
            if hasattr(early_config.known_args_namespace, "no_cov"):
                early_config.known_args_namespace.no_cov = True
            yield

        @pytest.hookimpl(hookwrapper=True)
        def pytest_cmdline_main(self, config: Any) -> Generator[None, Any, None]:
            collector.use_one_process(config.option)
            yield

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            (self.broken if report.outcome == "failed" else self.collected).add(report.nodeid)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session: Any) -> bool:
            # The same ids as in the collector: relative to the repository's root.
            prefix = collector.prefix_of(str(session.config.rootdir), root)
            listener = _Listener()
            session.config.pluginmanager.register(listener, "selfheal-listener")
            # A doctest of a module can have the id of a function in it, which is what is meant.
            items = sorted(session.items, key=lambda item: hasattr(item, "function"))
            tests: dict[str, Any] = {identity(prefix + item.nodeid): _PytestTest(item, listener) for item in items}
            for name in wanted - set(tests):
                if name in {identity(prefix + nodeid) for nodeid in self.broken}:
                    tests[name] = CollectedFile(False, ())
                elif name in {identity(prefix + nodeid) for nodeid in self.collected} or name.endswith("conftest.py"):
                    tests[name] = CollectedFile(True, [t for i, t in tests.items() if i.startswith(name + "::")])
            serve({name: test for name, test in tests.items() if name in wanted})
            self.served = True
            return True

    # Asserts are not rewritten: nobody reads their messages here, and building them costs more than most tests.
    options = "-q -p no:cacheprovider -p no:randomly --capture=no --assert=plain --tb=no --continue-on-collection-errors"
    # With a folder among the arguments, all of its modules would be imported.
    finding = [] if any(map(os.path.isdir, args)) else _finding_examples(wanted)
    loop = Loop()
    code = pytest.main(options.split() + finding + list(args), plugins=[loop])
    modules = [arg for arg in args if arg.endswith(".py")]
    if int(code) == USAGE and not loop.served and 0 < len(modules) < len(args):
        # What collects the other files may need an option of the command.
        loop = Loop()
        code = pytest.main(options.split() + finding + modules, plugins=[loop])
    if not loop.served:
        raise NotCollected("pytest exited with code %s before it ran any test" % int(code))


def _finding_examples(ids: Iterable[str]) -> list[str]:
    """The options with which pytest finds the doctests among these ids: "a.py::a.f" of a module, "a.rst::a.rst" of a text."""
    parts = [(name.split("::")[0], name.rpartition("::")[2]) for name in ids if "::" in name]
    texts = {test for path, test in parts if not path.endswith(".py") and test == os.path.basename(path)}
    options = ["--doctest-glob=" + name for name in sorted(texts)]
    return options + (["--doctest-modules"] if any(_is_of_module(path, test) for path, test in parts) else [])


def _is_of_module(path: str, test: str) -> bool:
    """Whether a test has the dotted name of a module that holds no tests, or of something in it, as doctests have."""
    module = path[: -len(".py")].replace("/", ".") if path.endswith(".py") else ""
    if module.endswith(".__init__"):
        module = module[: -len(".__init__")]
    parts = module.split(".")
    tails = [".".join(parts[at:]) for at in range(len(parts))]
    is_named_so = any(tail and (test + ".").startswith(tail + ".") for tail in tails)
    return is_named_so and not parts[-1].startswith("test") and not parts[-1].endswith(("_test", "_tests"))


class _Listener:
    """A plugin that keeps the reports of the running test."""

    def __init__(self) -> None:
        self.reports: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)

    def have_passed(self) -> bool:
        reports, self.reports = self.reports, []
        return bool(reports) and all(report.passed and not hasattr(report, "wasxfail") for report in reports)


class CollectedFile:
    """A file as a test, which passes if the file could be collected. `tests` are the tests in it."""

    is_repeatable = False
    reached = None

    def __init__(self, is_collected: bool, tests: Sequence[Any]) -> None:
        self.is_collected, self.tests = is_collected, tests

    def __call__(self) -> bool:
        return self.is_collected

    again = __call__


class _PytestTest:
    def __init__(self, item: Any, listener: _Listener) -> None:
        self.item, self.listener = item, listener
        # Nobody reads the failure's text, and formatting it costs more than most tests.
        item.repr_failure = lambda excinfo, style=None: "failed"
        self.is_plain = _is_plain(item)
        self.names = dict(item.dtest.globs) if getattr(item, "dtest", None) is not None else None  # each run clears them
        # Before pytest 7 the setup state had a different structure.
        self.is_repeatable = isinstance(getattr(item.session._setupstate, "stack", None), dict)
        self.arguments: dict[str, Any] | None = None  # those that a run could change, as they were before the first run
        self.reached: int | None = None  # line of the test's function where the last run failed, if known

    def __call__(self, nextitem: Any = None) -> bool:
        self.reached = None
        self.listener.reports = []
        if self.names is not None:
            home = getattr(sys.modules.get(self.names.get("__name__", "")), "__dict__", {})
            self.item.dtest.globs.update({name: home.get(name, value) for name, value in self.names.items()})
        self.item.config.hook.pytest_runtest_protocol(item=self.item, nextitem=nextitem)
        return self.listener.have_passed()

    def again(self) -> bool:
        item = self.item
        state = item.session._setupstate
        state.teardown_exact(item)  # fixtures that another test has set up and this one does not need
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
        except BaseException as error:  # code under test; raised again once its line is noted
            self.reached = _line_in(error.__traceback__, getattr(item.obj, "__code__", None))
            raise
        return True


def _is_same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # any `__eq__` of the repository
        return False


def _line_in(trace: TracebackType | None, code: CodeType | None) -> int | None:
    line = None
    while trace is not None:
        if trace.tb_frame.f_code is code:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _is_plain(item: Any) -> bool:
    """Whether running it is a plain function call, once fixtures of a wider scope are set up."""
    import pytest

    if type(item) is not pytest.Function or item.cls is not None or not hasattr(item, "_fixtureinfo"):
        return False
    code = getattr(item.obj, "__code__", None)
    if code is None or code.co_flags & 0x2A0 or any(True for n in ("skip", "skipif", "xfail") for _ in item.iter_markers(n)):
        return False  # a generator, a coroutine, or a test with a mark that changes its verdict
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        last = definitions[-1]
        if last.scope == "function" and not getattr(last.func, "__name__", "").startswith("get_direct_param"):
            return False
    return True


def _warnings_of(item: Any) -> AbstractContextManager[Any]:
    """A context with the warning filters configured for this test, if any."""
    config = item.config
    if config.getini("filterwarnings") or getattr(config.known_args_namespace, "pythonwarnings", None):
        try:
            from _pytest.warnings import catch_warnings_for_item

            context: AbstractContextManager[Any]
            context = catch_warnings_for_item(config=config, ihook=item.ihook, when="runtest", item=item)
            return context
        except ImportError:
            pass
    return contextlib.nullcontext()


def _unittest_suite(name: str) -> unittest.TestSuite:
    """The test case, the tests of a class or a module, or the doctest with this name.

    A module's `load_tests` often adds doctests, which are named after what they document. The loader would call that.
    """
    module, rest = name, ""
    while module and not _is_loaded(module):
        module, _, last = module.rpartition(".")
        rest = last + "." + rest
    first = rest.partition(".")[0]
    documented = getattr(sys.modules.get(module), first, None) if first else sys.modules[module]
    if documented is None or isinstance(documented, type) and issubclass(documented, unittest.TestCase):
        return unittest.defaultTestLoader.loadTestsFromName(name)
    suite = unittest.TestSuite()
    if not first:
        suite = unittest.defaultTestLoader.loadTestsFromName(name)
    if not suite.countTestCases():
        examples = doctest.DocTestFinder().find(documented, (module + "." + first).rstrip("."), sys.modules[module])
        suite.addTests(case for case in map(doctest.DocTestCase, examples) if case.id() == name)
    return suite


def _is_loaded(module: str) -> bool:
    try:
        importlib.import_module(module)
    except Exception:  # any code of the repository; the loader turns it into a failing test
        return False
    return True


class _UnittestTest:
    """A test case, or all tests of a class or module; its fixtures are set up again for each run."""

    is_repeatable = True
    reached = None

    def __init__(self, suite: unittest.TestSuite) -> None:
        self.suite = suite

    def __call__(self) -> bool:
        result = unittest.TestResult()
        self.suite.run(result)
        return result.testsRun > 0 and result.wasSuccessful() and not result.skipped

    again = __call__
