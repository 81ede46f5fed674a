"""Prints that could be taken for a verdict, where verdicts are read from what is printed: code under test writes there too.

A text is judged by how each of its lines begins: as a verdict's does, or with a hole that anything may fill. One that begins
with a word of its own passes; what fills its holes may still hold further lines, which by themselves make nothing green, as the
command has to end well too (`guard_exits`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.source.languages import GO, JVM, RUST, family

Finding = tuple[str, str]  # rule, sentence

_LINES = r'(?:[^"\\]|\\.)*?\\n'  # of the same text, before the one that is looked at
_BEGINS = rf'"(?:{_LINES})?(?:\s|\\t|\\r)*'
_PRINTING = {
    RUST: re.compile(
        rf"\be?print(?:ln)?\s*!\s*[(\[{{]\s*(?:{_BEGINS}(?:\{{(?!\{{)|test\b|Running\b|Doc-tests\b|----)|[^\s\")\]}}])"
        r"|\bstd(?:out|err)\s*\(\s*\)(?!\s*\.\s*flush\b)|\bprint(?:ln)?\s*!\s*[(\[{]\s*b?r#*\""
    ),
    GO: re.compile(
        rf"\bfmt\s*\.\s*Print(?:f|ln)?\s*\(\s*(?:{_BEGINS}(?:%(?!%)|\{{|---|===|PASS\b|ok\b|\\x|\\u|\\[0-7]|\")|[^\s\")])"
        r"|\bos\s*\.\s*Std(?:out|err)\b"
    ),
    JVM: re.compile(
        rf"(?:\bSystem\s*\.\s*(?:out|err)\s*\.\s*|(?<![\w.]))print(?:f|ln)?\s*\(\s*"
        rf"(?:{_BEGINS}(?:%(?!%)|\$|Tests run|Running\b|\[|\")|[^\s\")])"
        r"|\bSystem\s*\.\s*(?:out|err)\b(?!\s*\.\s*(?:print|flush))"
    ),
}


def print_lines(path: str, added: list[str], removed: list[str]) -> Iterator[Finding]:
    """Of code in a language whose runner's verdicts are read from its output. A print that takes another's place is none."""
    pattern = _PRINTING.get(family(path.casefold()))
    if pattern is None:
        return
    new, old = pattern.findall("\n".join(added)), pattern.findall("\n".join(removed))
    if len(new) > len(old):
        yield "under-test", f"{path} would print what could be taken for a verdict"
