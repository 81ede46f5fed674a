"""Makes text from code under test safe to store and to show: no escapes, no control characters, bounded.

Used inside the sandbox, so that ids match, and outside, because nothing from inside is trusted.
"""

from __future__ import annotations

import re

RUNNING = "selfheal: running "  # starts a line of the supervisor's standard error that names a slow test, or nothing
ID_LIMIT = 1000  # characters of one verdict id
LINE_LIMIT = 2000  # characters of a line that are searched, so that an endless line costs little
_ESCAPES = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[PX^_][^\x1b]*(?:\x1b\\\\)?|[ -/]*[0-~])")
# Control characters except tab and newline, lone surrogates, bidirectional and invisible characters, line separators, BOM.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def clean(text: str, limit: int) -> str:
    """The printable part of `text`, at most `limit` characters: a quarter from the start, the rest from the end."""
    if len(text) > 4 * limit:  # so that an endless line costs little; escapes are rarely more than half of a text
        text = text[: 2 * limit] + text[-2 * limit :]
    text = _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    if len(text) <= limit:
        return text
    mark = "\n[…]\n"
    head = limit // 4
    return text[:head] + mark + text[len(text) - max(0, limit - head - len(mark)) :]


def one_line(text: str, limit: int) -> str:
    """The first line of `text` that is not blank."""
    for line in clean(text, 4 * limit).split("\n"):
        line = " ".join(line.split())
        if line:
            return line[:limit]
    return ""


def identity(text: str) -> str:
    """A verdict id as used inside and outside the sandbox: one line, cleaned; a digest replaces the end of a long one."""
    if len(text) > ID_LIMIT:
        import hashlib

        digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
        text = text[: ID_LIMIT - 20] + "…" + digest
    return _CONTROLS.sub("", _ESCAPES.sub("", text)).replace("\n", " ").replace("\t", " ")
