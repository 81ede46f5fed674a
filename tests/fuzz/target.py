"""What the fuzzer needs to know of a target."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

Attempt = Callable[[Any], Awaitable[None]]
"""Tries one case. Raises whatever is not a documented refusal, and `AssertionError` for a broken promise."""


@dataclass(frozen=True, slots=True)
class Target:
    """`make` gives a case (bytes, or a value that `repr` shows), `open` what tries it, for as long as it is open."""

    name: str
    make: Callable[[random.Random], Any]
    open: Callable[[], AbstractAsyncContextManager[Attempt]]
