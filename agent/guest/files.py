"""Answers questions about the repository's files.

`python guest.zip digests ROOT` prints `SHA256 PATH` for each regular file, to compare two states of the repository. `python
guest.zip grep` finds the lines that contain a text or match a regular expression: stdin is one JSON request {pattern, regex,
limit}, stdout one JSON list of [path, line, text], files in order, or {error: why}.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import sys
from collections.abc import Iterator

FILES, LARGEST = 50000, 1048576  # files, and bytes of one; larger files are not edited
LONGEST_LINE = 300  # characters
_LEFT_OUT = frozenset(".git .hg .tox .venv venv node_modules __pycache__".split())


def digests() -> int:
    for path, content in itertools.islice(_files(sys.argv[1], (".nox", "target"), "_cache"), FILES):
        sys.stdout.write("%s %s\n" % (hashlib.sha256(content).hexdigest(), json.dumps(path)))
    return 0


def grep() -> int:
    request = json.loads(sys.stdin.buffer.read().decode())
    try:
        wanted = re.compile(request["pattern"] if request["regex"] else re.escape(request["pattern"]))
    except (re.error, OverflowError, RecursionError) as error:
        sys.stdout.write(json.dumps({"error": "not a regular expression: %s" % error}) + "\n")
        return 0
    found = (
        [path, number, line.strip()[:LONGEST_LINE]]
        for path, content in _files(".", ("site-packages", ".mypy_cache", "build", "dist"), ".egg-info")
        if b"\0" not in content[:8000]
        for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), 1)
        if wanted.search(line)
    )
    sys.stdout.write(json.dumps(list(itertools.islice(found, request["limit"]))) + "\n")
    return 0


def _files(root: str, left_out: tuple[str, ...], ending: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each regular file, in order. Skips folders with a name in `left_out`, or with this ending."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(n for n in folders if n not in _LEFT_OUT and n not in left_out and not n.endswith(ending))
        for name in sorted(names):
            path = os.path.join(folder, name)
            try:
                if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
                    continue
                with open(path, "rb") as file:
                    content = file.read()
            except OSError:
                continue
            yield os.path.relpath(path, root).replace(os.sep, "/"), content
