"""Tests of Rust, which stand in the very files that they test: what of a file a repair may not touch.

No parser of Rust: attributes of tests are found outside of strings and comments, and what they stand above is followed to its
end by its braces.
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
    """Offences of one file of Rust against the tests in it."""
    had, has = inline_items(before or ""), inline_items(after or "")
    if had != has:
        lost = [each for each in had if each not in has]
        if lost or had:
            yield "tests", f"{path} holds tests, and the change touches them"
        else:
            yield "under-test", f"{path} would be compiled differently when it is tested"
    if _examples(before or "") - _examples(after or ""):
        yield "tests", f"{path} would lose an example in its documentation, which is a test"
    if re.search(r"\bcfg!\s*\([^)]*\btest\b", after or "") and not re.search(r"\bcfg!\s*\([^)]*\btest\b", before or ""):
        yield "under-test", f"{path} would behave differently when it is tested"


def inline_items(text: str) -> list[str]:
    """Each item that only a test build has, from its attribute to its end, in their order."""
    plain = without_text(text)
    found: list[str] = []
    end = 0
    for attribute in _ATTRIBUTE.finditer(plain):
        if attribute.start() >= end:
            end = _end(plain, attribute.end())
            found.append(text[attribute.start() : end])
    return found


def without_text(text: str) -> str:
    """Code of Rust with blanks where its strings and comments were: each character keeps its place."""
    parts: list[str] = []
    at = 0
    while found := _SKIPPED.search(text, at):
        end = _comment_end(text, found.end()) if found[0] == "/*" else found.end()
        parts += [text[at : found.start()], re.sub(r"[^\n]", " ", text[found.start() : end])]
        at = end
    return "".join([*parts, text[at:]])


def _comment_end(text: str, start: int) -> int:
    """Behind the end of a comment that began before `start`: comments of Rust hold others."""
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(text)


def _end(plain: str, start: int) -> int:
    """Behind the brace that closes the first one, or behind a semicolon that comes before any."""
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
    """The lines of examples in comments of documentation."""
    found: set[str] = set()
    is_inside = False
    for line in _EXAMPLE.findall(text):
        if line.strip().startswith("```"):
            is_inside = not is_inside
        elif is_inside and line.strip():
            found.add(line.strip())
    return found
