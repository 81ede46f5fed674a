"""What a request names, found in the store that it carries. Knows nothing of how it is shown."""

from __future__ import annotations

from typing import Annotated

from fastapi import HTTPException, Query, Request

from app.store.store import Store
from app.store.values import Attempt

Text = Annotated[str, Query(max_length=500)]


async def known(request: Request, attempt_id: str) -> Attempt:
    """Raises `HTTPException` where there is no such attempt."""
    may_be_one = attempt_id.isascii() and attempt_id.isalnum() and len(attempt_id) <= 32
    attempt = await store_of(request).attempt(attempt_id) if may_be_one else None
    if attempt is None:
        raise HTTPException(404, f"There is no attempt {attempt_id[:64]!r}; the list has them all.")
    return attempt


def store_of(request: Request) -> Store:
    store: Store = request.state.store
    return store
