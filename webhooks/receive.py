"""`POST /webhooks/github`: verifies the signature, decides, stores, answers. Does nothing else.

202  accepted: {"decision": "request" | "change" | "ignored" | "refused" | "duplicate", "reason" or "attempt"}
400  malformed      401  missing or wrong signature      408  too slow      413  too large      415  not JSON
503  could not be stored: GitHub has to redeliver it
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final, cast

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from webhooks.intake import Decision, Delivery, Ignored, Intake, NotDurable, PullRequestChange, Receipt, RepairRequest
from webhooks.triggers import BRANCH_PREFIX, Malformed, decide

MAX_BYTES: Final = 25 * 1024 * 1024  # GitHub's own cap
_READ_SECONDS: Final = 10.0  # GitHub closes the connection after that
_LOG_INTERVAL: Final = 10.0
_log = structlog.get_logger(__name__)
_GUID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_EVENT: Final = re.compile(r"[0-9a-z_]{1,64}")
_SIGNATURE: Final = re.compile(r"sha256=[0-9a-f]{64}")


class _Refused(Exception):
    """An error response. `kind` is one of a few values; the rate limit of log lines applies to each kind separately."""

    def __init__(self, status: int, error: str, kind: str | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.kind = error if kind is None else kind


class Receiver:
    """The route. `secrets`: the current webhook secret and, during rotation, the previous one; compared in constant time."""

    def __init__(self, secrets: tuple[bytes, ...], own_app_id: int | None, branch_prefix: str = BRANCH_PREFIX) -> None:
        if not secrets or not all(secrets):
            raise ValueError("webhooks need a secret")
        self._secrets = secrets
        self._own_app_id, self._branch_prefix = own_app_id, branch_prefix
        self._logged: dict[str, float] = {}  # when a refusal of that kind was last logged
        self._unlogged: Counter[str] = Counter()

    async def receive(self, request: Request) -> Response:
        """Expects the app's `Intake` as `request.state.intake`."""
        intake = cast(Intake, request.state.intake)
        headers = request.headers
        try:
            body = await self._signed_body(request, headers)
            delivery, decision = self._read(headers, body)
            receipt = await intake.take(delivery, decision)
        except _Refused as refused:
            self._log_refusal(refused)
            return _response({"error": str(refused)}, refused.status)
        except NotDurable as error:
            return _response({"error": str(error)}, 503)
        return _response(_answer(decision, receipt), 202)

    def _log_refusal(self, refused: _Refused) -> None:
        """Log the refusal, rate-limited per kind: strangers can neither flood the log nor hide one kind behind another kind."""
        kind, now = refused.kind, time.monotonic()
        self._unlogged[kind] += 1
        if kind not in self._logged or now - self._logged[kind] >= _LOG_INTERVAL:
            count = self._unlogged.pop(kind)
            _log.warning("webhook refused", status=refused.status, reason=str(refused), since_last_line=count)
            self._logged[kind] = now

    async def _signed_body(self, request: Request, headers: Mapping[str, str]) -> bytes:
        """The raw body after its signature was verified; nothing parses it before."""
        signature = headers.get("x-hub-signature-256", "")
        if not _SIGNATURE.fullmatch(signature):
            raise _Refused(401, "the header X-Hub-Signature-256 is missing or malformed")
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared[:20]) > MAX_BYTES:
            raise _Refused(413, f"the payload is larger than {MAX_BYTES} bytes")
        body = bytearray()
        try:
            async with asyncio.timeout(_READ_SECONDS):
                async for chunk in request.stream():
                    if len(body) + len(chunk) > MAX_BYTES:
                        raise _Refused(413, f"the payload is larger than {MAX_BYTES} bytes")
                    body += chunk
        except TimeoutError:
            raise _Refused(408, "the payload arrived too slowly") from None
        except ClientDisconnect:
            raise _Refused(400, "the payload was cut off") from None
        sums = [hmac.new(secret, body, hashlib.sha256).hexdigest() for secret in self._secrets]
        matches = [hmac.compare_digest(f"sha256={each}", signature) for each in sums]
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
            action, decision = decide(event, body, self._own_app_id, self._branch_prefix)
        except Malformed as error:
            raise _Refused(400, f"the {event} payload is malformed: {error}", "malformed") from error
        return Delivery(guid, event, action, hashlib.sha256(body).hexdigest()), decision


def _response(body: dict[str, str | None], status: int) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def _answer(decision: Decision, receipt: Receipt) -> dict[str, str | None]:
    if receipt.duplicate:
        return {"decision": "duplicate", "reason": "this delivery was already handled", "attempt": receipt.attempt_id}
    match decision:
        case RepairRequest():
            return {"decision": "request", "attempt": receipt.attempt_id}
        case Ignored():
            return {"decision": "refused" if decision.refused else "ignored", "reason": decision.reason}
        case PullRequestChange():
            return {"decision": "change", "reason": f"pull request #{decision.number}: {decision.action}"}
        case _:
            return {"decision": "change", "reason": f"installation: {decision.action}"}
