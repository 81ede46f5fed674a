"""Stops a patch from replacing the macros that Rust tests assert with: a macro in scope shadows the standard one.

Works without a Rust parser, on the text outside strings and comments. Code that was there before is allowed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from agent.guard.rust_tests import without_text

Finding = tuple[str, str]  # rule, sentence

_DECIDING = r"(?:(?:debug_)?assert(?:_\w+)?|unreachable|unimplemented|todo|matches)"
_STANDARD = rf"(?:{_DECIDING}|panic|vec|format|format_args|writeln?|e?print(?:ln)?|dbg|stringify|concat|cfg|include\w*)"
_SHADOWING = re.compile(
    # A macro named by another macro's parameter can get any name.
    rf"\bmacro_rules\s*!\s*(?:\$|(?:r#)?{_STANDARD}\b)|\bmacro\s+(?:\$|(?:r#)?{_STANDARD}\b)"
    r"|\bmacro_use\b|\bcustom_test_frameworks\b|\btest_runner\b|\bno_implicit_prelude\b"
    # Rust code in a file with another suffix.
    r"|(?<!\w)include\s*!|\[\s*(?:cfg_attr\s*\([^\]]*)?\bpath\s*="
)
_USE = re.compile(r"\buse\b(?!\s*<)([^;]*)")
_USED = re.compile(rf"\bas\s+(?:\$|(?:r#)?(?:panic|vec|format|{_DECIDING})\b)|(?<!\w){_DECIDING}\b(?!\s*::)")
_PANIC = re.compile(r"\bpanic\b(?!\s*::)")  # also a module of the standard library
_STANDARD_PATH = re.compile(r"\s*(?:::\s*)?(?:std|core)\b")


def macro_findings(path: str, before: str, after: str) -> Iterator[Finding]:
    """Violations in one Rust file, from its text before and after the patch."""
    if more := Counter(_shadowing(without_text(after))) - Counter(_shadowing(without_text(before))):
        yield "under-test", f"{path} would replace the assertions of tests with `{next(iter(more))[:60]}`"


def _shadowing(plain: str) -> Iterator[str]:
    yield from (" ".join(found[0].split()) for found in _SHADOWING.finditer(plain))
    for used in _USE.findall(plain):
        yield from (f"use {' '.join(found[0].split())}" for found in _USED.finditer(used))
        if not _STANDARD_PATH.match(used):
            yield from ("use panic" for _ in _PANIC.finditer(used))
