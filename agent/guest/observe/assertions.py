"""Counts assertions of tests that failed although the test passed: something between them and the runner swallowed the failure.

pytest rewrites `assert` so that a failure calls `_format_explanation`, and unittest's assertions call `_formatMessage`. Both
are wrapped, before any code of the repository can be. What the test expects itself (`raises`, `assertRaises`) does not count,
nor does an assertion below a test file that catches such exceptions.
"""

from __future__ import annotations

import functools
import re
import sys
import unittest
import unittest.case
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..wire.channel import relative_path

_CATCHING = re.compile(
    r"\bexcept\s*(?::|\*?[^:\n]*\b(?:AssertionError|Exception|BaseException)\b)|\bsuppress\(|\bAssertionError\b"
)
_DEPTH = 60  # frames inspected


class FailedAssertions:
    """One for a process; created before code of the repository is imported."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._files: list[frozenset[str]] = []  # of the repository, on the stack of each failed assertion
        self._expected = 0
        self._catching: dict[str, bool] = {}
        self._wrap(unittest.TestCase, "_formatMessage")
        self._expect(unittest.case._AssertRaisesContext)
        rewrite = sys.modules.get("_pytest.assertion.rewrite")
        if rewrite is not None:
            self._wrap(rewrite, "_format_explanation")
        for module, name in (("_pytest.python_api", "RaisesContext"), ("_pytest.raises", "RaisesExc")):
            kind = getattr(sys.modules.get(module), name, None)
            if kind is not None:
                self._expect(kind)

    def begin(self) -> None:
        """A test begins."""
        self._files, self._expected = [], 0

    def swallowed(self, is_test: Callable[[str], bool]) -> bool:
        """Whether an assertion of the test, which passed, failed and nothing of the tests caught it."""
        unexplained = [files for files in self._files if not any(self._catches(each) for each in files if is_test(each))]
        return len(unexplained) > self._expected

    def _catches(self, path: str) -> bool:
        if path not in self._catching:
            try:
                with open("%s/%s" % (self._root, path), encoding="utf-8", errors="replace") as file:
                    self._catching[path] = bool(_CATCHING.search(file.read()))
            except OSError:
                self._catching[path] = True  # nothing is known
        return self._catching[path]

    def _wrap(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self._files.append(self._stack(sys._getframe(1)))
            return original(*args, **kwargs)

        setattr(owner, name, counted)

    def _stack(self, frame: FrameType | None) -> frozenset[str]:
        found = set()
        for _ in range(_DEPTH):
            if frame is None:
                break
            found.add(relative_path(frame.f_code.co_filename, self._root) or "")
            frame = frame.f_back
        return frozenset(found - {""})

    def _expect(self, kind: Any) -> None:
        original = kind.__exit__

        @functools.wraps(original)
        def leaving(context: Any, type_: Any, *rest: Any) -> Any:
            is_taken = original(context, type_, *rest)
            if is_taken and isinstance(type_, type) and issubclass(type_, AssertionError):
                self._expected += 1
            return is_taken

        kind.__exit__ = leaving
