"""Finds the files that a test in a language other than Python is about, from the names in its text. Pure.

Selfheal has no parser for these languages. The files of relative imports come first, then the files next to a Go test, then
files whose names occur in the text (a Java class, a Rust module).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from itertools import pairwise
from pathlib import PurePosixPath

from agent.source.test_files import is_test

NODE = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte")
GO, RUST, JVM = (".go",), (".rs",), (".java", ".kt", ".kts", ".scala", ".groovy")
FAMILIES = (NODE, GO, RUST, JVM)
LANGUAGES = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "jsx",
    ".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "tsx", ".go": "go", ".rs": "rust",
    ".java": "java", ".kt": "kotlin",
}  # fmt: skip
_RELATIVE = re.compile(r"""["'`](\.{1,2}/[^"'`\n]*|\.{1,2})["'`]""")
_ENTRIES = ("lib", "main", "mod", "index")  # names of a package's entry files


def language(path: str) -> str:
    """The language tag of a code fence for this file; "text" if it is unknown."""
    return LANGUAGES.get(PurePosixPath(path).suffix, "text")


def family(path: str) -> tuple[str, ...]:
    """The file endings of the same language family; empty for Python and for files that are not code."""
    suffix = PurePosixPath(path).suffix
    return next((known for known in FAMILIES if suffix in known), ())


def relatives(path: str, text: str, paths: Collection[str]) -> list[str]:
    """Files among `paths` that the text of `path` is about, likeliest first, without tests."""
    kin = family(path)
    known = [each for each in paths if each != path and each.endswith(kin or "\0") and not is_test(each)]
    words = frozenset(re.findall(r"\w+", text))
    folder = posixpath.dirname(path)
    imported = [_resolved(folder, told, kin, frozenset(known)) for told in _RELATIVE.findall(text)]
    beside = [each for each in known if kin == (".go",) and posixpath.dirname(each) == folder]
    named = [each for each in known if PurePosixPath(each).stem in words]
    entries = [each for each in known if PurePosixPath(each).stem in _ENTRIES]
    return list(dict.fromkeys([*(each for each in imported if each), *sorted(beside), *sorted(named), *sorted(entries)]))


def blocks(text: str) -> list[tuple[int, int]]:
    """First and last line (from 1) of each top-level block, such as a function or class with the comments above it."""
    lines = text.split("\n")
    starts = [1]
    for number, (above, line) in enumerate(pairwise(lines), 2):
        if not above.strip() and line[:1].strip() and line[0] not in "})]":
            starts.append(number)
    ends = [*(start - 1 for start in starts[1:]), len(lines)]
    return list(zip(starts, ends, strict=True))


def likeness(one: str, other: str) -> int:
    """The number of words that two texts share."""
    return len(frozenset(re.findall(r"\w{2,}", one)) & frozenset(re.findall(r"\w{2,}", other)))


def _resolved(folder: str, told: str, kin: tuple[str, ...], known: frozenset[str]) -> str:
    plain = posixpath.normpath(posixpath.join(folder, told))
    stem = (
        plain.removesuffix(PurePosixPath(plain).suffix) if plain.endswith(kin) else plain
    )  # TypeScript imports `./a.js` for a.ts
    ends = [plain, *(f"{base}{end}" for base in (plain, stem) for end in kin), *(f"{plain}/index{end}" for end in kin)]
    return next((each for each in ends if each in known), "")
