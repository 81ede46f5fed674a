"""Reads what git prints about its objects. Pure."""

from __future__ import annotations


def batch_contents(batch: bytes, count: int) -> list[bytes]:
    """The contents in the output of `git cat-file --batch`: for each object, a line that ends in its size, the content, a
    newline. Raises `ValueError` if an object is missing, as in a partial clone.
    """
    found, at = [], 0
    for _ in range(count):
        end = batch.index(b"\n", at)
        size = int(batch[at:end].rsplit(b" ", 1)[1])
        found.append(batch[end + 1 : end + 1 + size])
        at = end + size + 2
    return found
