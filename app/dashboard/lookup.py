"""What a request names, found in the store that it carries. Knows nothing of how it is shown."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import HTTPException, Query, Request

from app.store.store import Store
from app.store.values import Attempt

Text = Annotated[str, Query(max_length=500)]


_BEGINNING = re.compile(r"[0-9a-fA-F]{8,32}")  # of an id; the command line shows 12 digits


async def known(request: Request, attempt_id: str) -> Attempt:
    """By its id, or by a beginning of it that no other has. Raises `HTTPException` where there is no such attempt."""
    may_be_one = attempt_id.isascii() and attempt_id.isalnum() and len(attempt_id) <= 32
    attempt = await store_of(request).attempt(attempt_id) if may_be_one else None
    if attempt is not None:
        return attempt
    found = await store_of(request).find_attempts(attempt_id) if _BEGINNING.fullmatch(attempt_id) else []
    if len(found) > 1:
        raise HTTPException(
            404, f"More than one attempt's id begins with {attempt_id!r}; take more of its digits from the list."
        )
    if not found:
        raise HTTPException(404, f"There is no attempt {attempt_id[:64]!r}; the list has them all.")
    return found[0]


def store_of(request: Request) -> Store:
    store: Store = request.state.store
    return store
