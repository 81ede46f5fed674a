"""Parses the output of linters and type checkers into failures whose ids do not depend on line numbers; parses tracebacks.

Knows the output of ruff, flake8, pylint, mypy, pyright and of formatters in check mode.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter

from agent.contract.verdicts import Failure, Frame, VerdictId
from agent.guest.text import LINE_LIMIT, clean, identity, one_line

LIMIT = 2000  # findings

# "pkg/a.py:3:5: F401 [*] `os` imported but unused", "a.py:3: error: Incompatible … [assignment]", "/repo/a.py:3:5 - error: …"
FINDING = re.compile(
    r"^\s*(?P<path>[^\s:][^:\n]*?\.\w+):(?P<line>\d{1,9})(?::(?P<column>\d{1,9}))?(?::\d+(?::\d+)?)?(?::| -)\s+(?P<text>\S.*)$"
)
_NOT_FINDINGS = re.compile(r"^(note|information|hint)\b", re.IGNORECASE)
UNFORMATTED = re.compile(r"^(?:[Ww]ould reformat:?|ERROR:) (?P<path>\S.*?\.\w+)(?P<text> Imports are incorrectly sorted.*)?$")
_TRACEBACK = re.compile(r'^[ \t]*File "(?P<path>[^"<>\n]+)", line (?P<line>\d{1,9})(?:, in (?P<name>\S+))?', re.MULTILINE)
_LINE_NUMBERS = re.compile(r"\b(line|lines) \d+")


def read_findings(output: str, root: str = "/", cwd: str = ".") -> tuple[Failure, ...]:
    """One failure per finding, in output order. The id is "path: CODE message"; a repeated id gets "#2", "#3" and so on.

    Paths are made relative to the repository's `root`; the tool ran in `cwd`, relative to `root`.
    """
    found: list[Failure] = []
    seen: Counter[str] = Counter()
    for raw in output.split("\n"):
        parsed = _parse(raw[:LINE_LIMIT])
        if parsed is None:
            continue
        path, line, text = parsed
        path = _path(path, root, cwd)
        name = identity(f"{path}: " + _LINE_NUMBERS.sub(r"\1 N", text))
        seen[name] += 1
        if seen[name] > 1:
            name = f"{name}#{seen[name]}"
        found.append(Failure(VerdictId(name), one_line(text, 500), clean(raw.strip(), 2000), (Frame(path, line),)))
        if len(found) == LIMIT:
            break
    return tuple(found)


def read_traceback(output: str, root: str = "/", cwd: str = ".") -> tuple[Frame, ...]:
    """The frames of a Python traceback that are in the repository, outermost first."""
    frames = []
    for shown in _TRACEBACK.finditer(output):
        path = _path(shown["path"], root, cwd)
        if not path.startswith("../"):
            frames.append(Frame(path, int(shown["line"]), clean(shown["name"] or "", 200)))
    return tuple(frames[-LIMIT:])


def _parse(raw: str) -> tuple[str, int, str] | None:
    located = FINDING.match(raw)
    if located:
        text = located["text"].replace("[*] ", "")
        if _NOT_FINDINGS.match(text):
            return None
        return located["path"], int(located["line"]), " ".join(text.split())
    formatted = UNFORMATTED.match(raw)
    if formatted:
        return formatted["path"], 1, (formatted["text"] or "would be reformatted").strip()
    return None


def _path(path: str, root: str, cwd: str) -> str:
    return clean(posixpath.relpath(posixpath.join(root, cwd, path), root), 1000)
