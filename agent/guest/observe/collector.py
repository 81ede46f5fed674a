"""A pytest plugin that reports the result of every test at once; runs in the tests' process.

An environment variable loads it with `-p`, so any command that runs pytest is observed. It also ensures that every test gets a
verdict: pytest does not stop at the first failure or at a file that cannot be collected, and uses one process.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import random
from collections.abc import Generator
from typing import Any

import pytest

from ..tamper import canary
from ..tamper.detector import LIMIT, TamperDetector
from ..tamper.snapshot import origin
from ..text import clean, identity
from ..wire.channel import DETAILS_LIMIT, MESSAGE_LIMIT, Channel, chain, connect, failure_of, message_of, relative_path
from . import absent, conditions, values
from .assertions import FailedAssertions

# Hooks that decide which tests run and with what result.
_HOOKS = (
    "pytest_collection_modifyitems",
    "pytest_runtestloop",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_pyfunc_call",
    "pytest_runtest_makereport",
    "pytest_runtest_logreport",
    "pytest_runtest_logfinish",
    "pytest_sessionfinish",
)
_RANK = {"passed": 0, "skipped": 1, "failed": 2, "error": 3}

# Options of plugins that a workflow can use but that do not matter here: ignored if the plugin is missing.
_OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "pytest_cov": (
        ("--cov", "--cov-report", "--cov-config", "--cov-fail-under", "--cov-context", "--cov-precision"),
        ("--cov-branch", "--cov-append", "--no-cov", "--no-cov-on-fail", "--cov-reset"),
        (),
    ),
    "xdist": (("-n", "--numprocesses", "--dist", "--maxprocesses", "--tx", "--max-worker-restart"), (), ()),
    "pytest_timeout": (("--timeout", "--timeout-method", "--timeout_method"), (), ("timeout", "timeout_method")),
    "pytest_rerunfailures": (("--reruns", "--reruns-delay", "--only-rerun"), (), ()),
    "pytest_randomly": (("--randomly-seed",), ("--randomly-dont-reset-seed", "--randomly-dont-reorganize"), ()),
    "pytest_html": (("--html",), ("--self-contained-html",), ()),
    "pytest_metadata": (("--metadata",), (), ()),
    "pytest_github_actions_annotate_failures": ((), (), ()),
}

_channel = connect()
if _channel is not None:
    _channel.restore_environment()
    _conditions = conditions.RunConditions(_channel)
    _assertions = FailedAssertions(_channel.root)
    _detector = TamperDetector(_channel.root, _channel.mark)
    canary.add_pytest_probes()
    _channel.send("hello", runner="pytest", version=pytest.__version__)
    atexit.register(_channel.send, "bye")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("selfheal", "options of plugins that are not installed")
    for plugin, (valued, flags, inis) in _OPTIONS.items():
        if importlib.util.find_spec(plugin) is not None:
            continue
        for option in valued:
            optional = "?" if option == "--cov" else None
            # The public `addoption` refuses short lower-case options.
            group._addoption(option, action="append", nargs=optional, dest="selfheal_ignored", default=[], help="ignored")
        for option in flags:
            group._addoption(option, action="store_true", dest="selfheal_ignored_flag", default=False, help="ignored")
        for ini in inis:
            parser.addini(ini, "ignored")


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, None]:
    outcome = yield
    error: Any = outcome.excinfo[1] if outcome.excinfo else None
    path = getattr(error, "path", None)  # of ConftestImportFailure
    if _channel is not None and path is not None:
        cause = getattr(error, "cause", None) or getattr(error, "excinfo", (None, error))[1]
        name = relative_path(str(path), _channel.root) or os.path.basename(str(path))
        import traceback

        details = "".join(traceback.format_exception(type(cause), cause, cause.__traceback__))
        _channel.send(
            "verdict", id=identity(name), verdict="error", seconds=0.0, failure=_failure(cause, details, _channel.root)
        )


@pytest.hookimpl(hookwrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, None]:
    if _channel is not None and not config.option.collectonly:
        option = config.option
        option.maxfail = 0
        option.continue_on_collection_errors = True
        use_one_process(option)
        if _conditions.seed is not None and hasattr(option, "randomly_seed"):
            option.randomly_seed = _conditions.seed
        config.pluginmanager.register(Collector(config, _channel, _detector), "selfheal-collector")
    yield


def use_one_process(option: Any) -> None:
    """Switch pytest-xdist off if it is loaded; runs before that plugin's own `pytest_cmdline_main`."""
    if hasattr(option, "numprocesses"):
        option.numprocesses, option.dist, option.tx = None, "no", []


def _failure(error: BaseException, details: str, root: str, printed: str = "") -> dict[str, Any]:
    failure = failure_of(error, details, root, printed)
    if isinstance(error, pytest.Collector.CollectError):
        failure["message"] = message_of(chain(error)[-1])
    return failure


class Collector:
    """Collects and sends the reports of one pytest session."""

    def __init__(self, config: Any, channel: Channel, detector: TamperDetector) -> None:
        self.channel, self.detector = channel, detector
        self.prefix = prefix_of(str(config.rootdir), channel.root)
        self.config = config
        self.parts: dict[str, list[Any]] = {}  # node id -> [verdict, seconds, failure or None]
        self.only = only = channel.only
        # The files of the wanted ids; an id without "::" is a whole file or folder.
        self.files = None if only is None else frozenset(i.split("::")[0] for i in only)
        self.whole = frozenset(i for i in only or () if "::" not in i)
        self.collected: set[str] = set()
        self.broken: set[str] = set()
        self.original: pytest.Item | None = None  # the test of which the canary is a twin
        self.has_run_canary = False
        self.explains_passes = bool(config.getini("enable_assertion_pass_hook"))  # as it does failures

    def identity(self, nodeid: str) -> str:
        return identity(self.prefix + nodeid)

    # Collection

    def _file_is_wanted(self, path: str) -> bool:
        if self.files is None or path in self.files:
            return True
        return any(_covers(one, path) for one in self.whole)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, None]:
        skip = (
            self.files is not None
            and isinstance(collector, pytest.File)
            and type(collector).__name__ != "Package"
            and not any("::" in argument for argument in self.config.args)
            and not self._file_is_wanted(self.identity(collector.nodeid))
        )
        if skip:
            collector.collect = list  # type: ignore[method-assign] # do not import the file
        outcome = yield
        if outcome.excinfo:
            return
        report = outcome.get_result()
        call = getattr(report, "call", None)
        if report.outcome == "failed" and call is not None and call.excinfo is not None:
            if absent.excuse(report, call.excinfo.value, self.channel):
                name = self.identity(report.nodeid)
                self.channel.send("verdict", id=name, verdict="skipped", seconds=0.0, failure=None)
            else:
                report.selfheal_failure = _failure(call.excinfo.value, str(report.longrepr), self.channel.root)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        name = self.identity(report.nodeid) or "."
        if report.outcome == "failed":
            self.broken.add(name)
            self.channel.send(
                "verdict", id=name, verdict="error", seconds=0.0, failure=getattr(report, "selfheal_failure", None)
            )
        else:
            self.collected.add(name)

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, Any, None]:
        yield
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            (kept if self._is_wanted(self.identity(item.nodeid)) else dropped).append(item)
        items[:] = _conditions.in_order(kept, lambda item: self.identity(item.nodeid))
        if dropped:
            config.hook.pytest_deselected(items=dropped)

    def _is_wanted(self, name: str) -> bool:
        return self.only is None or name in self.only or any(_covers(one, name.split("::")[0]) for one in self.whole)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.detector.add_test_files({self.identity(item.nodeid).split("::")[0] for item in session.items})
        # A file that could not be collected with the unchanged code passes once it can be collected.
        for name in self.whole - self.broken:
            if name in self.collected or name.rsplit("/", 1)[-1] == "conftest.py":
                self.channel.send("verdict", id=name, verdict="passed", seconds=0.0, failure=None)

    # Running

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if not hasattr(self.config.option, "randomly_seed"):  # otherwise pytest-randomly does it
            _conditions.seed_random()

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        self.parts[nodeid] = ["passed", 0.0, None]
        _assertions.begin()
        self.channel.send("start", id=self.identity(nodeid))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
        self.detector.check()
        outcome = yield
        if outcome.excinfo or call.excinfo is None:
            return
        report = outcome.get_result()
        if report.outcome == "failed" and not absent.excuse(report, call.excinfo.value, self.channel):
            printed = "\n".join(text for _, text in report.sections)
            details = str(report.longrepr)
            details += values.of_test(call.excinfo.value, self.channel.root, self.detector.is_test, details)
            failure = _failure(call.excinfo.value, details, self.channel.root, printed)
            if not failure["frames"]:
                location, line = item.reportinfo()[:2]
                path = relative_path(str(location), self.channel.root)
                if path:
                    failure["frames"] = [[path, (line or 0) + 1, item.name]]
            report.selfheal_failure = failure

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._add_phase(self.parts.get(report.nodeid), report)

    def _add_phase(self, part: list[Any] | None, report: pytest.TestReport) -> None:
        """Add the report of one phase (setup, call, teardown) to its test's verdict."""
        if part is None or report.outcome not in ("passed", "failed", "skipped"):
            return  # "rerun", from a plugin: the last run decides
        part[1] += getattr(report, "duration", 0.0)
        verdict: str = report.outcome
        if hasattr(report, "wasxfail") and verdict != "failed":
            verdict = "skipped"
        elif verdict == "failed" and report.when != "call":
            verdict = "error"
        if verdict == "error" and part[0] == "failed":
            return
        if _RANK[verdict] > _RANK[part[0]]:
            part[0] = verdict
            if verdict in ("failed", "error"):
                part[2] = getattr(report, "selfheal_failure", None) or {
                    "message": clean(str(report.longrepr).strip().split("\n")[-1], MESSAGE_LIMIT),
                    "details": clean(str(report.longrepr), DETAILS_LIMIT),
                    "frames": [],
                }

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        part = self.parts.pop(nodeid, None)
        if part is not None:
            verdict, seconds, failure = part
            if verdict == "passed" and not self.explains_passes and _assertions.swallowed(self.detector.is_test):
                self.channel.mark(": an assertion of %s failed, and the failure was swallowed" % self.identity(nodeid))
            self.channel.send("verdict", id=self.identity(nodeid), verdict=verdict, seconds=seconds, failure=failure)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, None]:
        self.original = random.SystemRandom().choice(session.items) if session.items else None
        yield
        if not self.has_run_canary:
            self._run_canary(session, None)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, None]:
        yield
        if item is self.original and not self.has_run_canary:
            self._run_canary(item.session, nextitem)

    def _run_canary(self, session: pytest.Session, nextitem: pytest.Item | None) -> None:
        self.has_run_canary = True
        nodeid = "::".join([self.original.nodeid.split("::")[0] if self.original else "", self.channel.canary])
        reports = canary.run(session, self.original, nextitem)
        self.pytest_runtest_logstart(nodeid, None)
        if not reports:
            self.parts[nodeid][0] = "error"
        for report in reports:
            self._add_phase(self.parts[nodeid], report)
        self.pytest_runtest_logfinish(nodeid, None)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        marks = set(self.detector.marks())
        for name in _HOOKS:
            for impl in getattr(self.config.hook, name).get_hookimpls():
                path = origin(impl.function, self.channel.root)
                if path:
                    marks.add("%s: hook %s" % (path, name))
        self.channel.send("end", marks=sorted(marks)[:LIMIT])


def prefix_of(rootdir: str, root: str) -> str:
    """The prefix that makes pytest's node ids relative to the repository's root."""
    relative = os.path.relpath(os.path.realpath(rootdir), os.path.realpath(root)).replace(os.sep, "/")
    return "" if relative == "." or relative.startswith("..") else relative + "/"


def _covers(whole: str, path: str) -> bool:
    """Whether `path` is the file `whole`, is in the folder `whole`, or is in or below the folder of the conftest `whole`."""
    if whole == "conftest.py" or whole == ".":
        return True
    if whole.endswith("/conftest.py"):
        whole = whole[: -len("/conftest.py")]
    return path == whole or path.startswith(whole + "/")
