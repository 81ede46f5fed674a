"""Protects Rust's inline tests, which are in the files that they test, and the macros that tests assert with.

Works without a Rust parser, on the text outside strings and comments: finds test attributes and follows the braces to the end
of the item. A macro that is in scope shadows the standard one. Code that was there before is allowed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from agent.guard import Finding

_SKIPPED = re.compile(
    r"//[^\n]*|/\*|(?<!\w)[bc]?r(#*)\".*?\"\1|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\(?:[^u]|u\{[^}]*\})|[^'\\\n])'",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(
    r"#\s*!?\s*\[\s*(?:cfg(?:_attr)?\s*\([^\]]*\btest\b[^\]]*\)|(?:[\w:]+::)?(?:test|rstest|test_case)\b[^\]]*)\s*\]"
)
_EXAMPLE = re.compile(r"^[ \t]*//[/!](.*)$", re.MULTILINE)
_UNDER_TEST = re.compile(r"\bcfg!\s*\([^)]*\btest\b")
_DECIDING = r"(?:(?:debug_)?assert(?:_\w+)?|unreachable|unimplemented|todo|matches)"
_STANDARD = rf"(?:{_DECIDING}|panic|vec|format|format_args|writeln?|e?print(?:ln)?|dbg|stringify|concat|cfg|include\w*)"
_SHADOWING = re.compile(
    # The parameter of another macro can give a macro any name.
    rf"\bmacro_rules\s*!\s*(?:\$|(?:r#)?{_STANDARD}\b)|\bmacro\s+(?:\$|(?:r#)?{_STANDARD}\b)"
    r"|\bmacro_use\b|\bcustom_test_frameworks\b|\btest_runner\b|\bno_implicit_prelude\b"
    # Rust code in a file with another suffix.
    r"|(?<!\w)include\s*!|\[\s*(?:cfg_attr\s*\([^\]]*)?\bpath\s*="
)
_USE = re.compile(r"\buse\b(?!\s*<)([^;]*)")
_USED = re.compile(rf"\bas\s+(?:\$|(?:r#)?(?:panic|vec|format|{_DECIDING})\b)|(?<!\w){_DECIDING}\b(?!\s*::)")
_PANIC = re.compile(r"\bpanic\b(?!\s*::)")  # also a module of the standard library
_STANDARD_PATH = re.compile(r"\s*(?:::\s*)?(?:std|core)\b")


def rust_findings(path: str, before: str, after: str) -> Iterator[Finding]:
    """Violations in one Rust file, from its text before and after the patch."""
    had = inline_items(before)
    if had != inline_items(after):
        if had:
            yield "tests", f"it changes tests inside {path}"
        else:
            yield "under-test", f"{path} would compile differently under test"
    if _examples(before) - _examples(after):
        yield "tests", f"it changes a documentation example in {path}, which is a test"
    if _UNDER_TEST.search(after) and not _UNDER_TEST.search(before):
        yield "under-test", f"{path} would behave differently under test"
    if more := Counter(_shadowing(without_text(after))) - Counter(_shadowing(without_text(before))):
        yield "under-test", f"{path} would replace the assertions of tests with `{next(iter(more))[:60]}`"


def inline_items(text: str) -> list[str]:
    """The items compiled only for tests, each from its attribute to its end, in order."""
    plain = without_text(text)
    found: list[str] = []
    end = 0
    for attribute in _ATTRIBUTE.finditer(plain):
        if attribute.start() >= end:
            end = _end(plain, attribute.end())
            found.append(text[attribute.start() : end])
    return found


def without_text(text: str) -> str:
    """Rust code with its strings and comments blanked; every character keeps its offset."""
    parts: list[str] = []
    at = 0
    while found := _SKIPPED.search(text, at):
        end = _comment_end(text, found.end()) if found[0] == "/*" else found.end()
        parts += [text[at : found.start()], re.sub(r"[^\n]", " ", text[found.start() : end])]
        at = end
    return "".join([*parts, text[at:]])


def _comment_end(text: str, start: int) -> int:
    """The offset after a block comment opened before `start`. Block comments nest in Rust."""
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(text)


def _end(plain: str, start: int) -> int:
    """The offset after the brace that closes the first one, or after a semicolon before any brace."""
    depth = 0
    for at in range(start, len(plain)):
        if plain[at] == "{":
            depth += 1
        elif plain[at] == "}":
            depth -= 1
            if depth <= 0:
                return at + 1
        elif plain[at] == ";" and depth == 0:
            return at + 1
    return len(plain)


def _examples(text: str) -> set[str]:
    """The lines of the examples in documentation comments."""
    found: set[str] = set()
    is_inside = False
    for line in _EXAMPLE.findall(text):
        if line.strip().startswith("```"):
            is_inside = not is_inside
        elif is_inside and line.strip():
            found.add(line.strip())
    return found


def _shadowing(plain: str) -> Iterator[str]:
    yield from (" ".join(found[0].split()) for found in _SHADOWING.finditer(plain))
    for used in _USE.findall(plain):
        yield from (f"use {' '.join(found[0].split())}" for found in _USED.finditer(used))
        if not _STANDARD_PATH.match(used):
            yield from ("use panic" for _ in _PANIC.finditer(used))
