"""Collects signs that code of the repository tampers with its test run.

Each mark is `PATH: WHAT`, where PATH is the file of the repository that did it. A mark alone proves nothing: the gate compares
marks with those of the unchanged code. `AuditLog` records access, by Python's audit events, which cannot be removed, to frames
of callers, all objects, the code of functions, native memory and test files. Tests can do all of that and are ignored.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from .. import NAME
from ..wire.channel import relative_path
from . import snapshot

EVENTS = frozenset(
    (
        "sys._getframe",
        "sys._getframemodulename",
        "sys._current_frames",
        "sys._current_exceptions",
        "sys.settrace",
        "sys.setprofile",
        "sys.addaudithook",
        "sys.monitoring.register_callback",
        "gc.get_objects",
        "gc.get_referrers",
        "gc.get_referents",
        "object.__getattr__",
        "object.__setattr__",
        "object.__delattr__",
        "code.__new__",
        "compile",
        "exec",
        "ctypes.dlopen",
        "ctypes.dlsym",
        "ctypes.cdata",
        "ctypes.addressof",
        "ctypes.string_at",
        "ctypes.wstring_at",
        "ctypes.PyObj_FromPtr",
        "os.kill",
        "os.killpg",
        "signal.pthread_kill",
        "open",
    )
)
_READ = ("tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_back", "f_locals", "f_globals")
_WRITTEN = ("__code__", "__defaults__", "__kwdefaults__")
_TEST = re.compile(r"(test_.*|.*_tests?|tests?|conftest)\.py")
_PRIVATE = re.compile(r"/proc/(self|thread-self|\d+)/(.*/)?(mem|fd|environ|maps|cmdline|status|stat)\b")
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))
# They act for their caller, so the mark names the caller.
_INTERMEDIARIES = frozenset(os.path.join(_LIBRARY, name + ".py") for name in ("inspect", "traceback"))
# They read test files for a report, as pytest and imports do.
_REPORTERS = frozenset(
    os.path.join(_LIBRARY, name) for name in ("warnings.py", "traceback.py", os.path.join("logging", "__init__.py"))
)
_IMPORTERS = ("<frozen importlib", "<frozen zipimport", "<frozen runpy")
_DEPTH = 40  # frames inspected
LIMIT = 300  # marks reported


class AuditLog:
    """Installs the audit hook; calls `report(mark)` at once for each new mark. `test_files` is filled once they are known."""

    def __init__(self, root: str, report: Callable[[str], None]) -> None:
        self.test_files: set[str] = set()
        self._seen = _install_hook(root, self.is_test, report)

    def is_test(self, path: str) -> bool:
        """Whether a file of the repository contains tests or supports them."""
        return path in self.test_files or bool(_TEST.fullmatch(os.path.basename(path))) or "/tests/" in "/" + path

    def marks(self) -> list[str]:
        return list(self._seen)


def _install_hook(root: str, is_test: Callable[[str], bool], report: Callable[[str], None]) -> set[str]:
    seen: set[str] = set()
    busy = False
    caller = sys._getframe
    opened: dict[str, str] = {}

    def culprit(frame: FrameType | None, passed: Callable[[str], bool]) -> str:
        """The nearest file of the repository, if `passed(name)` is true for every frame before it; "" if that file is a
        test."""
        for _ in range(_DEPTH):
            if frame is None:
                break
            name = frame.f_code.co_filename
            path = opened.get(name)
            if path is None:
                path = opened[name] = relative_path(name, root) or ""
            if path:
                return "" if is_test(path) else path
            if not passed(name):
                break
            frame = frame.f_back
        return ""

    def reads(name: str) -> bool:
        return name not in _REPORTERS and not name.startswith(_IMPORTERS) and "_pytest" not in name and NAME not in name

    def note(event: str, args: tuple[Any, ...]) -> None:
        what = event
        passed: Callable[[str], bool] = _INTERMEDIARIES.__contains__
        if event == "open":
            path = args[0]
            if not isinstance(path, (str, bytes)):
                return
            # Methods of the base types, because a subclass of the repository could raise in its own.
            path = str.__str__(path) if isinstance(path, str) else bytes.decode(path, "utf-8", "surrogateescape")
            if _PRIVATE.match(path):
                what = "open " + path.rsplit("/", 1)[-1]
            else:
                base = os.path.basename(path)
                if not base.endswith(".py"):
                    return
                test_file = relative_path(os.path.abspath(path), root)
                if not test_file or not is_test(test_file):
                    return
                what, passed = "open " + test_file, reads
        elif event.startswith("object."):
            wanted = _READ if event == "object.__getattr__" else _WRITTEN
            if args[1] not in wanted:
                return
            what, passed = "%s %s" % ("read" if wanted is _READ else "set", args[1]), frozenset().__contains__
        path = culprit(caller(2), passed)
        mark = "%s: %s" % (path, what)
        if path and mark not in seen and len(seen) < LIMIT:
            report(mark)  # first: if it fails, the next such access must be reported
            seen.add(mark)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal busy
        if event in EVENTS and not busy:
            # An assignment, because a call could fail at the recursion limit and leave the hook switched off.
            busy = True
            try:
                note(event, args)
            except (RecursionError, MemoryError):
                raise  # the audited call fails; otherwise code at the recursion limit would get a frame without a mark
            except Exception:
                pass  # such as a path that is not a valid one: the audited call reports that itself
            finally:
                busy = False

    sys.addaudithook(hook)
    return seen


class TamperDetector:
    """Created before any code of the repository is imported. Calls `report(mark)` at once for what may be visible only once."""

    def __init__(self, root: str, report: Callable[[str], None]) -> None:
        self.root = root
        self._snapshot = snapshot.Snapshot(root)
        self._audit = AuditLog(root, report)
        self._transient: set[str] = set()

    def is_test(self, path: str) -> bool:
        return self._audit.is_test(path)

    def add_test_files(self, paths: Iterable[str]) -> None:
        """Add the test files, relative to the root: what they do is not a mark, but reading them is."""
        self._audit.test_files.update(paths)

    def check(self) -> None:
        """Called after each test, because a change can be undone before the end."""
        changes = self._snapshot.runner_changes()
        if changes:
            self._transient.update(changes)

    def marks(self) -> list[str]:
        found = self._transient.union(
            self._snapshot.changes(),
            self._audit.marks(),
            snapshot.agreeing_classes(self.root, self._snapshot.classes),
            snapshot.tools_in_use(self.root, self._audit.is_test),
        )
        return sorted(found)[:LIMIT]
