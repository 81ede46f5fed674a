"""Finds the lines of the repository that contain a text or match a regular expression.

stdin: one JSON request {pattern, regex, limit}. stdout: one JSON list of [path, line, text], files in order, or {error: why}.
"""

from __future__ import annotations

import json
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_FILE = 1000000  # bytes
LONGEST_LINE = 300  # characters
SKIPPED = frozenset(".git .hg .tox .venv venv node_modules __pycache__ site-packages .mypy_cache build dist".split())


def main() -> int:
    request = json.loads(sys.stdin.buffer.read().decode())
    try:
        wanted = re.compile(request["pattern"] if request["regex"] else re.escape(request["pattern"]))
    except (re.error, OverflowError, RecursionError) as error:
        sys.stdout.write(json.dumps({"error": "not a regular expression: %s" % error}) + "\n")
        return 0
    sys.stdout.write(json.dumps(_search(wanted, request["limit"])) + "\n")
    return 0


def _search(wanted: re.Pattern[str], limit: int) -> list[list[Any]]:
    found: list[list[Any]] = []
    for folder, folders, names in os.walk("."):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.endswith(".egg-info"))
        for name in sorted(names):
            path = os.path.join(folder, name)
            for number, line in _lines(path):
                if wanted.search(line):
                    found.append([path[2:].replace(os.sep, "/"), number, line.strip()[:LONGEST_LINE]])
                    if len(found) >= limit:
                        return found
    return found


def _lines(path: str) -> list[tuple[int, str]]:
    try:
        if os.path.islink(path) or os.path.getsize(path) > LONGEST_FILE:
            return []
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return []
    if b"\0" in content[:8000]:
        return []
    return list(enumerate(content.decode("utf-8", "replace").split("\n"), 1))
