"""Protects inline Rust tests, which live in the files that they test.

Works without a Rust parser: finds test attributes outside strings and comments, and follows the braces to the end of the item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Finding = tuple[str, str]  # rule, sentence

_SKIPPED = re.compile(
    r"//[^\n]*|/\*|(?<!\w)[bc]?r(#*)\".*?\"\1|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\(?:[^u]|u\{[^}]*\})|[^'\\\n])'",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(
    r"#\s*!?\s*\[\s*(?:cfg(?:_attr)?\s*\([^\]]*\btest\b[^\]]*\)|(?:[\w:]+::)?(?:test|rstest|test_case)\b[^\]]*)\s*\]"
)
_EXAMPLE = re.compile(r"^[ \t]*//[/!](.*)$", re.MULTILINE)


def inline_findings(path: str, before: str | None, after: str | None) -> Iterator[Finding]:
    """Violations against the tests in one Rust file."""
    had, has = inline_items(before or ""), inline_items(after or "")
    if had != has:
        lost = [each for each in had if each not in has]
        if lost or had:
            yield "tests", f"it changes tests inside {path}"
        else:
            yield "under-test", f"{path} would compile differently under test"
    if _examples(before or "") - _examples(after or ""):
        yield "tests", f"it changes a documentation example in {path}, which is a test"
    if re.search(r"\bcfg!\s*\([^)]*\btest\b", after or "") and not re.search(r"\bcfg!\s*\([^)]*\btest\b", before or ""):
        yield "under-test", f"{path} would behave differently under test"


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
