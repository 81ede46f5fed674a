"""`python -m unittest …` with its results told over the channel; runs in the process of the tests."""

import atexit
import io
import os
import random
import re
import sys
import time
import traceback
import unittest

from . import channel, conditions, failures, sentinel, witness
from .text import clean, identity

_LOADER = re.compile(r"^unittest\.loader\.(?:_FailedTest|ModuleImportFailure)\.")
_HOLDER = re.compile(r"^(?:setUpClass|tearDownClass|setUpModule|tearDownModule) \((?P<where>[^)]*)\)")


def main():
    sys.path.insert(0, os.getcwd())
    return run()


def run():
    sender = channel.connect()
    if sender is None:
        unittest.main(module=None, argv=["python -m unittest"] + sys.argv[1:])
        return 0
    sender.restore_environment()
    chosen = conditions.Conditions(sender)
    seen = witness.Witness(sender.root, sender.mark)
    sender.send("hello", runner="unittest")
    atexit.register(sender.send, "bye")

    class Runner(unittest.TextTestRunner):
        def __init__(self, *args, **kwargs):
            kwargs["failfast"] = False
            super().__init__(*args, **kwargs)

        def _makeResult(self):
            self.made = Result(sender, seen, self.stream, self.descriptions, self.verbosity)
            return self.made

        def run(self, test):
            broken = set()
            if sender.only is not None:
                test, broken = _choose(test, sender.only)
            if chosen.shuffle is not None:
                test = unittest.TestSuite(chosen.ordered(_tests(test), _name))
            seen.know_tests(set(_files(test, sender.root)))
            Result.sow = staticmethod(chosen.sow)
            Result.place = random.SystemRandom().randrange(test.countTestCases() or 1)
            result = super().run(test)
            for name in sender.only or ():
                if (
                    name not in result.told
                    and name not in broken
                    and any(other.startswith(name + ".") for other in result.told)
                ):
                    sender.send("verdict", id=name, verdict="passed", seconds=0.0, failure=None)
            result.must_fail()
            sender.send("end", marks=seen.marks())
            return result

    unittest.main(module=None, argv=["python -m unittest"] + sys.argv[1:], testRunner=Runner)
    return 0


def _name(test):
    return identity(_LOADER.sub("", test.id()))


def _tests(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            for inner in _tests(test):
                yield inner
        elif test is not None:
            yield test


def _files(suite, root):
    """The files of the repository that hold these tests."""
    for name in {type(test).__module__ for test in _tests(suite)}:
        path = failures.inside(getattr(sys.modules.get(name), "__file__", None) or "", root)
        if path:
            yield path


def _choose(suite, only):
    """The tests named by `only`, and those of a module, a class or a class's set-up that it names."""
    wholes = set(only)
    for name in only:
        holder = _HOLDER.match(name)
        if holder:
            wholes.add(holder.group("where"))
    chosen, broken = unittest.TestSuite(), set()
    for test in _tests(suite):
        name = _name(test)
        parts = name.split(".")
        if any(".".join(parts[: n + 1]) in wholes for n in range(len(parts))):
            chosen.addTest(test)
            if type(test).__name__ == "_FailedTest":
                broken.add(name)
    return chosen, broken


class Result(unittest.TextTestResult):
    """Prints as usual and tells each test's verdict when it is over."""

    place = 0  # the test that must fail runs after so many
    has_failed = False
    sow = staticmethod(lambda: None)

    def __init__(self, sender, seen, *args):
        super().__init__(*args)
        self.sender, self.seen = sender, seen
        self.told = set()
        self.verdict, self.failure, self.started = "passed", None, None

    def startTest(self, test):
        super().startTest(test)
        self.sow()
        self.verdict, self.failure, self.started = "passed", None, time.monotonic()
        self.sender.send("start", id=_name(test))

    def stopTest(self, test):
        super().stopTest(test)
        self.seen.look()
        self._tell(_name(test), self.verdict, time.monotonic() - self.started, self.failure)
        self.started = None
        if self.testsRun > self.place:
            self.must_fail(type(test))

    def must_fail(self, like=unittest.TestCase):
        """Once: a test that fails, told as the real ones are, under a name that the supervisor chose for this run."""
        if self.has_failed:
            return
        self.has_failed = True

        if like.__module__ == "unittest.loader":  # it stands for a module that cannot be imported, and loses its prefix
            like = unittest.TestCase
        where = {"__module__": like.__module__, "__qualname__": like.__qualname__, self.sender.sentinel: sentinel.fail}
        aside = Result(self.sender, self.seen, unittest.runner._WritelnDecorator(io.StringIO()), False, 0)
        aside.has_failed = True
        type("Tests", (unittest.TestCase,), where)(self.sender.sentinel).run(aside)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._red(test, "failed", err)

    def addError(self, test, err):
        super().addError(test, err)
        # An exception in a test's own body is the test's "no"; a module that cannot be imported was never asked.
        loader = type(test).__name__ == "_FailedTest"
        self._red(test, "error" if loader or self.started is None else "failed", err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._red(test, "failed", err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._set("skipped", None)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._set("skipped", None)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._set("failed", {"message": "unexpected success", "details": "", "frames": []})

    def _red(self, test, verdict, err):
        kind, error, trace = err
        failure = {
            "message": failures.message(error),
            "details": clean("".join(traceback.format_exception(kind, error, trace)), failures.DETAILS_LIMIT),
            "frames": failures.frames(error, self.sender.root),
        }
        if type(test).__name__ == "_FailedTest":  # the loader kept the import's traceback only as text
            failure["message"] = clean(str(error).strip().split("\n")[-1], failures.MESSAGE_LIMIT)
            failure["frames"] = [
                [path, int(line), function]
                for name, line, function in re.findall(r'File "([^"\n]+)", line (\d+)(?:, in (\S+))?', str(error))
                for path in [failures.inside(name, self.sender.root)]
                if path
            ][-failures.FRAMES_LIMIT :]
        if self.started is None:
            self._tell(_name(test), verdict, 0.0, failure)
        else:
            self._set(verdict, failure)

    def _set(self, verdict, failure):
        if self.verdict not in ("failed", "error"):
            self.verdict, self.failure = verdict, failure

    def _tell(self, name, verdict, seconds, failure):
        self.told.add(name)
        self.sender.send("verdict", id=name, verdict=verdict, seconds=seconds, failure=failure)


if __name__ == "__main__":
    sys.exit(run())
