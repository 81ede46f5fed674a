"""`POST /webhooks/github`: proves that GitHub sent the bytes, decides, hands over, answers. Does nothing else.

202  taken: {"decision": "request" | "change" | "ignored" | "refused" | "duplicate", "reason" or "attempt"}
400  malformed      401  no or a wrong signature      408  too slow      413  too large      415  not JSON
503  could not be stored: GitHub is to send it again
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from typing import Final, cast

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from webhooks.intake import Decision, Delivery, Ignored, Intake, NotDurable, PullRequestChange, RepairRequest, Taken
from webhooks.triggers import Malformed, decide

MAX_BYTES: Final = 25 * 1024 * 1024  # GitHub's own cap
_READ_SECONDS: Final = 10.0  # GitHub has hung up by then
_TELL_SECONDS: Final = 10.0
_log = structlog.get_logger(__name__)
_GUID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_EVENT: Final = re.compile(r"[0-9a-z_]{1,64}")
_SIGNATURE: Final = re.compile(r"sha256=[0-9a-f]{64}")


class _Refused(Exception):
    """An answer that is not 202."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


class Receiver:
    """The route. `secrets` are tried in constant time, the current one and, while it is rotated, the one before."""

    def __init__(self, secrets: tuple[bytes, ...], own_app_id: int | None) -> None:
        if not secrets or not all(secrets):
            raise ValueError("webhooks need a secret")
        self._sums = [hmac.new(secret, digestmod=hashlib.sha256) for secret in secrets]  # of nothing yet
        self._own_app_id = own_app_id
        self._told: float | None = None  # when a refusal was told last
        self._untold = 0

    async def receive(self, request: Request) -> Response:
        """Expects the app's `Intake` as `request.state.intake`."""
        intake = cast(Intake, request.state.intake)
        headers = _headers(request)
        try:
            body = await self._signed_body(request, headers)
            delivery, decision = self._read(headers, body)
            taken = await intake.take(delivery, decision)
        except _Refused as refused:
            self._tell(refused)
            return _answered({"error": str(refused)}, refused.status)
        except NotDurable as error:
            return _answered({"error": str(error)}, 503)
        return _answered(_answer(decision, taken), 202)

    def _tell(self, refused: _Refused) -> None:
        """Let the log say why, seldom enough that strangers cannot fill it."""
        self._untold += 1
        if self._told is None or time.monotonic() - self._told >= _TELL_SECONDS:
            _log.warning("webhook refused", status=refused.status, reason=str(refused), since_the_last_line=self._untold)
            self._told, self._untold = time.monotonic(), 0

    async def _signed_body(self, request: Request, headers: Mapping[str, str]) -> bytes:
        """The raw body once its signature is proven; nothing has looked into it before."""
        signature = headers.get("x-hub-signature-256", "")
        if not _SIGNATURE.fullmatch(signature):
            raise _Refused(401, "the header X-Hub-Signature-256 is missing or not a signature")
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared[:20]) > MAX_BYTES:
            raise _Refused(413, f"the payload is larger than {MAX_BYTES} bytes")
        sums = [each.copy() for each in self._sums]
        body = bytearray()
        try:
            async with asyncio.timeout(_READ_SECONDS):
                async for chunk in request.stream():
                    if len(body) + len(chunk) > MAX_BYTES:
                        raise _Refused(413, f"the payload is larger than {MAX_BYTES} bytes")
                    body += chunk
                    for each in sums:
                        each.update(chunk)
        except TimeoutError:
            raise _Refused(408, "the payload came too slowly") from None
        except ClientDisconnect:
            raise _Refused(400, "the payload was cut off") from None
        matches = [hmac.compare_digest(f"sha256={each.hexdigest()}", signature) for each in sums]
        if not any(matches):
            raise _Refused(401, "the signature does not match the payload")
        return bytes(body)

    def _read(self, headers: Mapping[str, str], body: bytes) -> tuple[Delivery, Decision]:
        guid = headers.get("x-github-delivery", "")
        event = headers.get("x-github-event", "")
        if not _GUID.fullmatch(guid):
            raise _Refused(400, "the header X-GitHub-Delivery is missing or malformed")
        if not _EVENT.fullmatch(event):
            raise _Refused(400, "the header X-GitHub-Event is missing or malformed")
        media = headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != "application/json":
            raise _Refused(415, "set the webhook's content type to application/json")
        try:
            action, decision = decide(event, body, self._own_app_id)
        except Malformed as error:
            raise _Refused(400, f"the {event} payload is malformed: {error}") from error
        return Delivery(guid, event, action, hashlib.sha256(body).hexdigest()), decision


def _headers(request: Request) -> dict[str, str]:
    """Made once: Starlette's own go through the whole list for each that is asked for. Of several of a name, the first."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(request.headers.raw)}


def _answered(told: dict[str, str | None], status: int) -> Response:
    return Response(msgspec.json.encode(told), status, media_type="application/json")


def _answer(decision: Decision, taken: Taken) -> dict[str, str | None]:
    if taken.duplicate:
        return {"decision": "duplicate", "reason": "this delivery was handled before", "attempt": taken.attempt_id}
    match decision:
        case RepairRequest():
            return {"decision": "request", "attempt": taken.attempt_id}
        case Ignored():
            return {"decision": "refused" if decision.refused else "ignored", "reason": decision.reason}
        case PullRequestChange():
            return {"decision": "change", "reason": f"pull request #{decision.number}: {decision.action}"}
        case _:
            return {"decision": "change", "reason": f"installation: {decision.action}"}
