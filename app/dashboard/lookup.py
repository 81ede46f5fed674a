"""Finds the attempt named by a request."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import HTTPException, Query, Request

from app.store.store import Store
from app.store.values import Attempt

Text = Annotated[str, Query(max_length=500)]

_PREFIX = re.compile(r"[0-9a-fA-F]{8,32}")  # of an id; the command line shows 12 digits


async def find_attempt(request: Request, attempt_id: str) -> Attempt:
    """Find an attempt by its id or a unique prefix. Raises `HTTPException` if there is none."""
    is_valid = attempt_id.isascii() and attempt_id.isalnum() and len(attempt_id) <= 32
    attempt = await store_of(request).attempt(attempt_id) if is_valid else None
    if attempt is not None:
        return attempt
    found = await store_of(request).find_attempts(attempt_id) if _PREFIX.fullmatch(attempt_id) else []
    if len(found) > 1:
        raise HTTPException(404, f"Several attempts have ids that start with {attempt_id!r}. Use more digits of the id.")
    if not found:
        raise HTTPException(404, f"There is no attempt {attempt_id[:64]!r}.")
    return found[0]


def store_of(request: Request) -> Store:
    store: Store = request.state.store
    return store
