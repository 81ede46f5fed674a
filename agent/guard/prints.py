"""Detects prints that could be mistaken for a verdict, for runners whose verdicts are parsed from the output.

Each printed line is judged by its start: it must be neither the start of a verdict nor a placeholder. A placeholder later in
the line may still expand to further lines; these alone cannot make a check pass, because the command must also exit with
success (`agent/guard/exits.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.source.languages import GO, JVM, RUST, family

Finding = tuple[str, str]  # rule, sentence

_LINES = r'(?:[^"\\]|\\.)*?\\n'  # earlier lines of the same text
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
    """Violations in languages whose verdicts are parsed from the output. Replacing one print by another is allowed."""
    pattern = _PRINTING.get(family(path.casefold()))
    if pattern is None:
        return
    new, old = pattern.findall("\n".join(added)), pattern.findall("\n".join(removed))
    if len(new) > len(old):
        yield "under-test", f"{path} would print text that looks like a test verdict"
