"""`python -m unittest …` that reports its results over the channel; runs in the tests' process."""

from __future__ import annotations

import atexit
import io
import random
import re
import sys
import time
import traceback
import unittest
from collections.abc import Iterable, Iterator
from typing import Any

from ..tamper import canary
from ..tamper.detector import TamperDetector
from ..text import clean, identity
from ..wire.channel import DETAILS_LIMIT, FRAMES_LIMIT, MESSAGE_LIMIT, Channel, connect, failure_of, relative_path
from . import conditions
from .absent import lack_behind
from .assertions import FailedAssertions

_LOADER = re.compile(r"^unittest\.loader\.(?:_FailedTest|ModuleImportFailure)\.")
SUBTESTS = 20  # further failing subtests that are named
_HOLDER = re.compile(r"^(?:setUpClass|tearDownClass|setUpModule|tearDownModule) \((?P<where>[^)]*)\)")


def run() -> int:
    connected = connect()
    if connected is None:
        unittest.main(module=None, argv=["python -m unittest"] + sys.argv[1:])
        return 0
    sender = connected
    sender.restore_environment()
    chosen = conditions.RunConditions(sender)
    assertions = FailedAssertions(sender.root)
    tampering = TamperDetector(sender.root, sender.mark)
    sender.send("hello", runner="unittest")
    atexit.register(sender.send, "bye")

    class ObservedRunner(unittest.TextTestRunner):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs["failfast"] = False
            super().__init__(*args, **kwargs)

        def _makeResult(self) -> Result:
            return Result(sender, tampering, assertions, self.stream, self.descriptions, self.verbosity)

        def run(self, test: Any) -> Any:
            broken: set[str] = set()
            if sender.only is not None:
                test, broken = _choose(test, sender.only)
            if chosen.shuffle is not None:
                ordered: list[Any] = chosen.in_order(_tests(test), _name)
                test = unittest.TestSuite(ordered)
            tampering.add_test_files(set(_files(test, sender.root)))
            Result.seed_random = staticmethod(chosen.seed_random)
            Result.canary_index = random.SystemRandom().randrange(test.countTestCases() or 1)
            result: Any = super().run(test)
            for name in sender.only or ():
                is_missing = name not in result.reported and name not in broken
                if is_missing and any(other.startswith(name + ".") for other in result.reported):
                    sender.send("verdict", id=name, verdict="passed", seconds=0.0, failure=None)
            result.run_canary()
            sender.send("end", marks=tampering.marks())
            return result

    unittest.main(module=None, argv=["python -m unittest"] + sys.argv[1:], testRunner=ObservedRunner)
    return 0


def _name(test: unittest.TestCase) -> str:
    return identity(_LOADER.sub("", test.id()))


def _tests(suite: Iterable[Any]) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _tests(test)
        elif test is not None:
            yield test


def _files(suite: Iterable[Any], root: str) -> Iterator[str]:
    """The files of the repository that contain these tests."""
    for name in {type(test).__module__ for test in _tests(suite)}:
        path = relative_path(getattr(sys.modules.get(name), "__file__", None) or "", root)
        if path:
            yield path


def _choose(suite: Iterable[Any], only: Iterable[str]) -> tuple[unittest.TestSuite, set[str]]:
    """The tests that `only` names, including all tests of a module, a class or a class's set-up that it names."""
    wholes = set(only)
    for name in only:
        holder = _HOLDER.match(name)
        if holder:
            wholes.add(holder.group("where"))
    chosen = unittest.TestSuite()
    broken: set[str] = set()
    for test in _tests(suite):
        name = _name(test)
        parts = name.split(".")
        if any(".".join(parts[: n + 1]) in wholes for n in range(len(parts))):
            chosen.addTest(test)
            if type(test).__name__ == "_FailedTest":
                broken.add(name)
    return chosen, broken


class Result(unittest.TextTestResult):
    """Prints as usual and reports each test's verdict when it is over."""

    canary_index = 0  # the canary runs after this many tests
    has_run_canary = False
    seed_random = staticmethod(lambda: None)

    def __init__(self, sender: Channel, tampering: TamperDetector, assertions: FailedAssertions, *args: Any) -> None:
        super().__init__(*args)
        self.sender, self.tampering, self.assertions = sender, tampering, assertions
        self.reported: set[str] = set()
        self.verdict = "passed"
        self.failure: dict[str, Any] | None = None
        self.subtests: list[str] = []  # those that failed
        self.started: float | None = None  # None: no test is running

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.seed_random()
        self.verdict, self.failure, self.started = "passed", None, time.monotonic()
        self.subtests.clear()
        self.assertions.begin()
        self.sender.send("start", id=_name(test))

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.tampering.check()
        if self.verdict == "passed" and self.assertions.swallowed(self.tampering.is_test):
            self.sender.mark(": an assertion of %s failed, and the failure was swallowed" % _name(test))
        if self.failure is not None and self.subtests:
            self.failure["details"] = clean("%s\n\n%s" % (self._which(), self.failure["details"]), DETAILS_LIMIT)
        seconds = 0.0 if self.started is None else time.monotonic() - self.started
        self._report(_name(test), self.verdict, seconds, self.failure)
        self.started = None
        if self.testsRun > self.canary_index:
            self.run_canary(type(test))

    def run_canary(self, like: type = unittest.TestCase) -> None:
        """Run the canary once: a failing test, reported like real ones, under a name that the supervisor chose for this run."""
        if self.has_run_canary:
            return
        self.has_run_canary = True

        if like.__module__ == "unittest.loader":  # it stands for a module that cannot be imported: its prefix is removed
            like = unittest.TestCase
        name = self.sender.canary
        where = {"__module__": like.__module__, "__qualname__": like.__qualname__, name: canary.fail}
        aside = Result(self.sender, self.tampering, self.assertions, unittest.runner._WritelnDecorator(io.StringIO()), False, 0)
        aside.has_run_canary = True
        type("Tests", (unittest.TestCase,), where)(name).run(aside)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        if self._is_excused(test, err[1]):
            return
        super().addFailure(test, err)
        self._add_problem(test, "failed", err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        if self._is_excused(test, err[1]):
            return
        super().addError(test, err)
        # An exception in a test's own body means a failed test; a module that cannot be imported never ran.
        loader = type(test).__name__ == "_FailedTest"
        self._add_problem(test, "error" if loader or self.started is None else "failed", err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is None:
            return
        self.subtests.append(subtest.id()[len(test.id()) :].strip())  # "[message] (parameter=1)"
        if self.failure is None:
            self._add_problem(test, "failed", err)

    def _which(self) -> str:
        """The subtests that failed, as a line; the first is the one whose failure is reported."""
        first, *more = self.subtests
        named = ", ".join(more[:SUBTESTS]) + (", …" if len(more) > SUBTESTS else "")
        return "In the subtest %s%s" % (first, ". These fail too: " + named if more else "")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._set("skipped", None)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addExpectedFailure(test, err)
        self._set("skipped", None)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self._set("failed", {"message": "unexpected success", "details": "", "frames": []})

    def _is_excused(self, test: unittest.TestCase, error: BaseException) -> bool:
        """Whether the failure became a skip, because the sandbox lacks what the test needs."""
        lack = lack_behind(error, self.sender.absent, self.sender.root)
        if type(test).__name__ == "_FailedTest" and (named := re.search(r"No module named '([\w.]+)'\s*$", str(error))):
            lack = lack_behind(ModuleNotFoundError(name=named[1]), self.sender.absent, self.sender.root)
        if lack:
            self.addSkip(test, "%s is not available in the sandbox" % lack)
        return bool(lack)

    def _add_problem(self, test: unittest.TestCase, verdict: str, err: Any) -> None:
        kind, error, trace = err
        details = "".join(traceback.format_exception(kind, error, trace))
        failure = failure_of(error, details, self.sender.root)
        if type(test).__name__ == "_FailedTest":  # the loader kept the import's traceback only as text
            failure["message"] = clean(str(error).strip().split("\n")[-1], MESSAGE_LIMIT)
            failure["frames"] = [
                [path, int(line), function]
                for name, line, function in re.findall(r'File "([^"\n]+)", line (\d+)(?:, in (\S+))?', str(error))
                for path in [relative_path(name, self.sender.root)]
                if path
            ][-FRAMES_LIMIT:]
        if self.started is None:
            self._report(_name(test), verdict, 0.0, failure)
        else:
            self._set(verdict, failure)

    def _set(self, verdict: str, failure: dict[str, Any] | None) -> None:
        if self.verdict not in ("failed", "error"):
            self.verdict, self.failure = verdict, failure

    def _report(self, name: str, verdict: str, seconds: float, failure: dict[str, Any] | None) -> None:
        self.reported.add(name)
        self.sender.send("verdict", id=name, verdict=verdict, seconds=seconds, failure=failure)
