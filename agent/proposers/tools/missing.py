"""Reads from failures what is missing: a name, an attribute of a module, an imported name, a module. Pure.

Knows the messages of Python, linters and type checkers. The texts are hostile data: only names are taken from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agent.contract.verdicts import Failure

Kind = Literal["name", "import", "attribute", "module"]


@dataclass(frozen=True, slots=True)
class Missing:
    """`name` of `module` (either can be ""), needed by a line of the repository."""

    kind: Kind
    name: str
    module: str
    path: str
    line: int
    circular: bool = False

    @property
    def label(self) -> str:
        """For people: "`json`", "`Mapping` of `collections`"."""
        return f"`{self.name}` of `{self.module}`" if self.name and self.module else f"`{self.name or self.module}`"


_NAME, _MODULE = r"(?P<name>[^\W\d]\w*)", r"(?P<module>[^\W\d][\w.]*)"
_MESSAGES: tuple[tuple[Kind, str], ...] = (
    ("name", rf"NameError: (?:free variable |global name |name )?'{_NAME}' is not defined"),
    ("name", rf"\bF821:? [Uu]ndefined name [`']{_NAME}[`']"),
    ("name", rf"\bundefined name '{_NAME}'"),
    ("name", rf"\bE0602: Undefined variable '{_NAME}'"),
    ("name", rf'\bName "{_NAME}" is not defined'),
    ("name", rf'error: "{_NAME}" is not defined'),
    ("import", rf"cannot import name '{_NAME}' from (?P<circular>partially initialized module )?'{_MODULE}'"),
    ("import", rf"\bE0611: No name '{_NAME}' in module '{_MODULE}'"),
    ("import", rf'\bModule "{_MODULE}" has no attribute "{_NAME}"'),
    ("attribute", rf"AttributeError: (?P<circular>partially initialized )?module '{_MODULE}' has no attribute '{_NAME}'"),
    ("module", rf"No module named '{_MODULE}'"),
    ("module", rf"\bE0401: Unable to import '{_MODULE}'"),
    ("module", rf'library stub for module named "{_MODULE}"'),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _MESSAGES)


def read_missing(failures: Iterable[Failure]) -> tuple[Missing, ...]:
    """Each missing thing once per file, in the order of the failures. Failures outside the repository are left out."""
    found: dict[tuple[str, str, str, str], Missing] = {}
    for failure in failures:
        if not failure.frames:
            continue
        frame = failure.frames[-1]
        # The last error of an exception chain comes last, and is the one that was raised.
        text = f"{failure.details}\n{failure.message}"
        for kind, pattern in _PATTERNS:
            matches = list(pattern.finditer(text))
            if matches:
                parts = matches[-1].groupdict()
                name, module = parts.get("name") or "", parts.get("module") or ""
                missing = Missing(kind, name, module, frame.path, frame.line, bool(parts.get("circular")))
                found.setdefault((kind, name, module, frame.path), missing)
                break
    return tuple(found.values())
