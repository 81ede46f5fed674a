"""Makes text storable in every database: PostgreSQL rejects characters that Python allows."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text without U+0000 and with U+FFFD in place of lone surrogates."""
    if "\0" in text:
        text = text.replace("\0", "")
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
