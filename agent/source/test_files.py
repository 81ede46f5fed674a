"""Recognises test files, and files that only tests read, by path alone. Case does not matter, as on some file systems."""

from __future__ import annotations

import fnmatch
import re
from pathlib import PurePosixPath

_FILES = (
    "test_*.py", "*_test.py", "*_tests.py", "tests.py", "conftest.py", "test*.cfg", "*.snap", "*.ambr",
    "*[.-]test.[jt]s", "*[.-]test.[cm][jt]s", "*[.-]test.[jt]sx", "*[.-]spec.[jt]s", "*[.-]spec.[cm][jt]s", "*[.-]spec.[jt]sx",
    "test.[jt]s", "test.[cm][jt]s", "test-*.[jt]s", "*.cy.[jt]s", "*.cy.[jt]sx", "*.e2e.[jt]s", "*.bench.[jt]s",
    "jest.setup.*", "vitest.setup.*", "setuptests.[jt]s*", "*_test.go", "*_spec.rb", "*_test.rs", "tests.rs",
)  # fmt: skip
_AT_THE_TOP = "test.py"  # inside a package, it can be code for people's own tests
# Class names that Maven and Gradle treat as tests; only here case matters, because of "latest" and "contest".
_CLASSES = re.compile(r"(?:Test\w*|\w*(?:Test|Tests|TestCase|IT|Spec))\.(?:java|kt|scala|groovy)")
_SNAPSHOTS = {"__snapshots__", "snapshots"}
_CODE = (
    ".py",
    ".pyi",
    ".js",
    ".jsx",
    ".ts",
    ".tsx",
    ".mjs",
    ".cjs",
    ".rs",
    ".go",
    ".java",
    ".kt",
    ".sh",
    ".toml",
    ".cfg",
    ".ini",
)
_FOLDERS = {
    "tests",
    "test",
    "testing",
    "testdata",
    "__snapshots__",
    "__tests__",
    "__mocks__",
    "spec",
    "conftest",
    "e2e",
    "cypress",
    "benches",
}

# The same as globs of whole paths or names, for code that cannot call `is_test`: they match all that it does.
GLOBS = (
    *_FILES, _AT_THE_TOP, *(f"{folder}/*" for folder in sorted(_FOLDERS | _SNAPSHOTS)),
    *(
        f"{name}.{kind}"
        for name in ("test*", "*test", "*tests", "*testcase", "*it", "*spec")
        for kind in ("java", "kt", "scala", "groovy")
    ),
)  # fmt: skip


def is_test(path: str) -> bool:
    pure = PurePosixPath(path.casefold())
    is_named_so = any(fnmatch.fnmatchcase(pure.name, pattern) for pattern in _FILES)
    is_named_so = is_named_so or str(pure) == _AT_THE_TOP or bool(_CLASSES.fullmatch(PurePosixPath(path).name))
    return bool(_FOLDERS & set(pure.parts[:-1])) or is_named_so or is_snapshot(path)


def is_prose(path: str) -> bool:
    """Is it documentation, by its name? Requirements are not."""
    pure = PurePosixPath(path)
    return pure.suffix in (".md", ".rst", ".txt") and not pure.name.startswith("requirements")


def is_snapshot(path: str) -> bool:
    """Is it a recorded output that a test tool writes and updates on request? Never code."""
    pure = PurePosixPath(path.casefold())
    if pure.suffix in _CODE:
        return False
    return bool(_SNAPSHOTS & set(pure.parts[:-1])) or pure.name.endswith((".snap", ".ambr"))
