"""Classifies the SDK's exceptions.

Their class hierarchy is not enough. Those for a machine that has stopped or is unreachable are `TimeoutException`s, so they
are matched first. Those for a bad key or a busy service are not `SandboxException`s. Some come unwrapped from the transport.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

import httpx
from connectrpc.errors import ConnectError
from e2b_code_interpreter import (
    AuthenticationException,
    FileNotFoundException,
    InvalidArgumentException,
    NotEnoughSpaceException,
    NotFoundException,
    RateLimitException,
    SandboxException,
    SandboxNotFoundException,
    SandboxNotRunningException,
    SandboxUnreachableException,
    ServiceBusyException,
    TimeoutException,
)

from sandbox.base import LimitExceeded, SandboxError, SandboxLost, SandboxUnavailable

KEY = "E2B_API_KEY"
_OWN_ERROR = re.compile(r"5\d\d: ")
LIMITED_SECONDS, BUSY_SECONDS = 60.0, 30.0  # delay before another attempt


class TemplateMissing(SandboxUnavailable):
    """The account has no such template."""


class Failure(Enum):
    """Kinds of failure, by what can be done about them."""

    KEY = "the API key was rejected"
    LIMITED = "the plan's limit on sandboxes or on creations per second is reached"
    BUSY = "the service is busy or failed"
    GONE = "the sandbox is gone"
    CONNECTION = "the connection was lost or timed out"
    SPACE = "the disk is full"
    MISSING = "not found"
    REQUEST = "the request is invalid"


_KINDS: Sequence[tuple[Failure, tuple[type[Exception], ...]]] = (
    (Failure.KEY, (AuthenticationException,)),
    (Failure.LIMITED, (RateLimitException,)),
    (Failure.BUSY, (ServiceBusyException,)),
    (Failure.GONE, (SandboxNotFoundException, SandboxNotRunningException)),
    (Failure.CONNECTION, (SandboxUnreachableException, TimeoutException, TimeoutError)),
    (Failure.SPACE, (NotEnoughSpaceException,)),
    (Failure.MISSING, (FileNotFoundException, NotFoundException)),
    (Failure.REQUEST, (InvalidArgumentException,)),
    (Failure.CONNECTION, (ConnectError, httpx.TransportError, OSError)),
)
"""The first match counts."""


def failure_of(error: Exception) -> Failure:
    for failure, kinds in _KINDS:
        if isinstance(error, kinds):
            return failure
    if not isinstance(error, SandboxException):  # the SDK's bare `Exception` for a truncated stream
        return Failure.CONNECTION
    # The machine's agent reports its status in the text only.
    if (error.status_code or 0) >= 500 or _OWN_ERROR.match(str(error)):
        return Failure.BUSY
    return Failure.MISSING if error.status_code == 404 else Failure.REQUEST


RETRIED = frozenset((Failure.BUSY, Failure.CONNECTION))


def refused(error: Exception, template: str) -> SandboxUnavailable:
    """The error for a sandbox that could not be opened."""
    detail = _detail(error)
    match failure_of(error):
        case Failure.KEY:
            return SandboxUnavailable(f"E2B rejected the API key; set {KEY} to a key from E2B's dashboard ({detail})")
        case Failure.LIMITED:
            return SandboxUnavailable(f"E2B's limits are reached ({detail})", LIMITED_SECONDS)
        case Failure.MISSING:
            return TemplateMissing(f"E2B has no template {template!r}; build it with: python -m deploy.e2b.build ({detail})")
        case Failure.BUSY | Failure.CONNECTION | Failure.GONE:
            return SandboxUnavailable(f"E2B has no sandbox available now ({detail})", BUSY_SECONDS)
        case _:
            return SandboxUnavailable(f"E2B refused to create a sandbox ({detail})")


def broken(error: Exception, disk: int) -> SandboxError:
    """The error for an open sandbox that can no longer be used."""
    if (failure := failure_of(error)) is Failure.SPACE:
        return LimitExceeded("disk", disk)
    return SandboxLost(f"E2B: {failure.value} ({_detail(error)})")


def _detail(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
