"""What the SDK's exceptions mean to us.

Their classes do not say it by themselves: two of the gone and unreachable ones are `TimeoutException`s (so they are asked for
first), a bad key and a busy service are no `SandboxException`s, and some are raw ones of the transport.
"""

from __future__ import annotations

import re
from enum import Enum

import httpx
from connectrpc.errors import ConnectError
from e2b.exceptions import (
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
LIMITED_SECONDS, BUSY_SECONDS = 60.0, 30.0  # until an attempt is worth another try


class Trouble(Enum):
    """What can be done about it."""

    KEY = "the key is not accepted"
    LIMITED = "the plan's rate or number of sandboxes is used up"
    BUSY = "the service has no room or an error of its own"
    GONE = "the sandbox is not there any more"
    LINE = "the line was lost, or nobody answered in time"
    SPACE = "the disk is full"
    MISSING = "no such thing"
    REQUEST = "it was wrong to ask for it"


def trouble_of(error: Exception) -> Trouble:
    """The order matters: see above."""
    match error:
        case AuthenticationException():
            return Trouble.KEY
        case RateLimitException():
            return Trouble.LIMITED
        case ServiceBusyException():
            return Trouble.BUSY
        case SandboxNotFoundException() | SandboxNotRunningException():
            return Trouble.GONE
        case SandboxUnreachableException() | TimeoutException() | TimeoutError():
            return Trouble.LINE
        case NotEnoughSpaceException():
            return Trouble.SPACE
        case FileNotFoundException() | NotFoundException():
            return Trouble.MISSING
        case InvalidArgumentException():
            return Trouble.REQUEST
        case ConnectError() | httpx.TransportError() | OSError():
            return Trouble.LINE
        case SandboxException(status_code=int(status)) if status >= 500:
            return Trouble.BUSY
        case SandboxException() if _OWN_ERROR.match(str(error)):  # of the agent in the machine: its status is in the text alone
            return Trouble.BUSY
        case SandboxException(status_code=404):
            return Trouble.MISSING
        case SandboxException():
            return Trouble.REQUEST
        case _:  # the SDK's bare `Exception`, for a stream that ended without its end
            return Trouble.LINE


RETRIED = frozenset((Trouble.BUSY, Trouble.LINE))


def refused(error: Exception, template: str) -> SandboxUnavailable:
    """Why no sandbox was opened."""
    said = _said(error)
    match trouble_of(error):
        case Trouble.KEY:
            return SandboxUnavailable(f"E2B does not accept the key; set {KEY} to one of its dashboard ({said})")
        case Trouble.LIMITED:
            return SandboxUnavailable(f"E2B's limits are reached ({said})", LIMITED_SECONDS)
        case Trouble.MISSING:
            return SandboxUnavailable(f"E2B has no template {template!r}; build it with: python -m deploy.e2b.build ({said})")
        case Trouble.BUSY | Trouble.LINE | Trouble.GONE:
            return SandboxUnavailable(f"E2B gives no sandbox now ({said})", BUSY_SECONDS)
        case _:
            return SandboxUnavailable(f"E2B refused to make a sandbox ({said})")


def broken(error: Exception, disk: int) -> SandboxError:
    """What ended the use of an open sandbox."""
    match trouble := trouble_of(error):
        case Trouble.SPACE:
            return LimitExceeded("disk", disk)
        case _:
            return SandboxLost(f"E2B: {trouble.value} ({_said(error)})")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
