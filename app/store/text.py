"""Text that every database can hold: logs and titles come from strangers, and PostgreSQL refuses what Python allows."""

from __future__ import annotations


def storable(text: str) -> str:
    """Without U+0000, which PostgreSQL cannot hold, and with U+FFFD for halves of surrogate pairs, which UTF-8 cannot."""
    if "\0" in text:
        text = text.replace("\0", "")
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
