"""Answers as models give them instead of what the prompt asks for: 28 kinds, each for three changes.

The kinds were collected from public reports about coding assistants (Aider, Cline, Continue, OpenHands, Codex) and written down
before the reader was tried on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

BASKET = '''\
"""A basket."""

import math


def total(prices, rate=0.0):
    """The sum of the prices.

    ```
    total([1, 2])
    ```
    """
    found = 0
    for price in prices:
        found = price
    return found * (1 + rate)


def count(prices):
    found = 0
    for price in prices:
        found += 1
    return found
'''
STORE = """\
class Shelf:
    def __init__(self, size):
        self.size = size
        self.items = []

    def put(self, item):
        if len(self.items) > self.size:
            raise OverflowError(item)
        self.items.append(item)

    def take(self):
        return self.items.pop()


class Box(Shelf):
    def take(self):
        if not self.items:
            return None
        return self.items.pop(0)
"""
TIMES = """\
import re

PATTERN = re.compile(r"(\\d+)([hm])")


async def wait(text, clock):
    seconds = 0
    for number, unit in PATTERN.findall(text):
        factor = {"h": 3600, "m": 60}[unit]
        seconds += int(number) * factor
    clock.sleep(seconds)
    return f"waited {seconds:>5} s"


def is_long(text):
    return "h" in text
"""


@dataclass(frozen=True)
class Wanted:
    """Replace `old` (whole lines, once in the file) by `new`; `function` is the whole function as it should be."""

    path: str
    source: str
    old: str
    new: str
    name: str  # qualified
    number: int  # of the first old line

    @property
    def after(self) -> str:
        assert self.source.count(self.old) == 1
        return self.source.replace(self.old, self.new)

    @property
    def function(self) -> str:
        lines = self.after.splitlines()
        start = next(at for at, line in enumerate(lines) if f"def {self.name.rpartition('.')[2]}(" in line)
        margin = len(lines[start]) - len(lines[start].lstrip())
        end = next(
            (
                at
                for at in range(start + 1, len(lines))
                if lines[at].strip() and len(lines[at]) - len(lines[at].lstrip()) <= margin
            ),
            len(lines),
        )
        return "\n".join(lines[start:end]).rstrip() + "\n"


WANTED = (
    Wanted(
        "shop/basket.py", BASKET, "        found = price\n    return found * (1 + rate)\n",
        "        found += price\n    return math.ceil(found * (1 + rate))\n", "total", 15,
    ),
    Wanted(
        "shop/store.py", STORE, "        if len(self.items) > self.size:\n            raise OverflowError(item)\n",
        "        if len(self.items) >= self.size:\n            raise OverflowError(item)\n", "Shelf.put", 7,
    ),
    Wanted(
        "shop/times.py", TIMES, '    clock.sleep(seconds)\n    return f"waited {seconds:>5} s"\n',
        '    await clock.sleep(seconds)\n    return f"waited {seconds:>5} s"\n', "wait", 11,
    ),
)  # fmt: skip


def block(path: str, old: str, new: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"


def lines_of(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def dedented(text: str) -> str:
    margin = min(len(line) - len(line.lstrip()) for line in text.splitlines() if line.strip())
    return "".join(f"{line[margin:]}\n" for line in text.splitlines())


def hunk(wanted: Wanted, head: str) -> str:
    return f"{head}\n{lines_of('-', wanted.old)}{lines_of('+', wanted.new)}"


def in_fence(text: str, info: str = "python") -> str:
    return f"```{info}\n{text}```\n"


KINDS: Mapping[str, Callable[[Wanted], str]] = {
    "block in a fence": lambda w: f"Here is the fix:\n\n{w.path}\n{in_fence(block('', w.old, w.new).lstrip())}\nThis fixes it.",
    "fence inside SEARCH": lambda w: block(w.path, in_fence(w.old), in_fence(w.new)),
    "no last marker": lambda w: block(w.path, w.old, w.new).removesuffix(">>>>>>> REPLACE\n"),
    "no last marker in a fence": lambda w: (
        w.path
        + "\n"
        + in_fence(block("", w.old, w.new).lstrip().removesuffix(">>>>>>> REPLACE\n"))
        + "\nThe loop now adds up.\n"
    ),
    "short markers": lambda w: f"{w.path}\n<<<<< SEARCH\n{w.old}=====\n{w.new}>>>>> REPLACE\n",
    "a/ before the path": lambda w: block(f"a/{w.path}", w.old, w.new),
    "short path": lambda w: block(w.path.rpartition("/")[2], w.old, w.new),
    "bold path with a colon": lambda w: block(f"**`{w.path}`:**", w.old, w.new),
    "heading with the path": lambda w: block(f"### File: `{w.path}`\n", w.old, w.new),
    "path in a comment in the fence": lambda w: in_fence(f"# {w.path}\n{block('', w.old, w.new).lstrip()}"),
    "path in the info string": lambda w: in_fence(block("", w.old, w.new).lstrip(), f"python {w.path}"),
    "no path": lambda w: block("", w.old, w.new).lstrip(),
    "dedented": lambda w: block(w.path, dedented(w.old), dedented(w.new)),
    "blanks at line ends": lambda w: block(w.path, w.old.replace("\n", "  \n"), w.new),
    "Windows line ends": lambda w: block(w.path, w.old, w.new).replace("\n", "\r\n"),
    "other blanks": lambda w: block(
        w.path, w.old.replace(" > ", ">").replace("(1 + rate)", "( 1+rate )").replace(" = ", "  =  "), w.new
    ),
    "JSON": lambda w: json.dumps({"path": w.path, "search": w.old, "replace": w.new}),
    "JSON list in a fence": lambda w: (
        "Sure!\n\n" + in_fence(json.dumps([{"file": w.path, "old": w.old, "new": w.new}], indent=1) + "\n", "json")
    ),
    "JSON edits with a remark": lambda w: json.dumps(
        {"explanation": "It was wrong.", "edits": [{"file_path": w.path, "old_string": w.old, "new_string": w.new}]}
    ),
    "diff with wrong numbers": lambda w: in_fence(f"--- a/{w.path}\n+++ b/{w.path}\n{hunk(w, '@@ -1,3 +1,3 @@')}", "diff"),
    "diff without numbers": lambda w: f"--- {w.path}\n+++ {w.path}\n{hunk(w, '@@ ... @@')}",
    "apply_patch": lambda w: f"*** Begin Patch\n*** Update File: {w.path}\n{hunk(w, '@@')}*** End Patch\n",
    "function below the path": lambda w: f"`{w.path}`\n\n{in_fence(w.function)}",
    "FUNCTION without its class": lambda w: f"FUNCTION {w.path}::{w.name.rpartition('.')[2]}\n{in_fence(dedented(w.function))}",
    "whole file": lambda w: f"{w.path}\n{in_fence(w.after)}",
    "thoughts first": lambda w: (
        f"<think>\nMaybe a block:\n<<<<<<< SEARCH\nno\n</think>\n\nCause: a slip\n\n{block(w.path, w.old, w.new)}"
    ),
    "XML": lambda w: f"<edit>\n<path>{w.path}</path>\n<search>\n{w.old}</search>\n<replace>\n{w.new}</replace>\n</edit>\n",
    "numbered lines": lambda w: block(
        w.path,
        "".join(f"{w.number + at} | {line}\n" for at, line in enumerate(w.old.splitlines())),
        "".join(f"{w.number + at} | {line}\n" for at, line in enumerate(w.new.splitlines())),
    ),
}

_ELIDED = "def total(prices, rate=0.0):\n    # … unchanged …\n    ...\n"
_HALF = "class Shelf:\n    LIMIT = 3\n\n    def take(self):\n        return None\n"
REFUSED: Mapping[str, str] = {
    "lines that occur twice": block("shop/basket.py", "    found = 0\n", "    found = 1\n"),
    "lines that are left out": block("shop/basket.py", "    found = 0\n    ...\n    return found\n", "    found = 1\n"),
    "a function that is left out": f"FUNCTION shop/basket.py::total\n{in_fence(_ELIDED)}",
    "a method of two classes": "FUNCTION shop/store.py::take\n" + in_fence("def take(self):\n    return None\n"),
    "prose": "I would change the loop in shop/basket.py so that it adds the prices up.",
    "half a class": f"shop/store.py\n{in_fence(_HALF)}",
}
"""Answers that nobody can place without a guess."""
