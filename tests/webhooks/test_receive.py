from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import structlog
from fastapi import FastAPI, Request

from tests.webhooks.test_triggers import RUN
from webhooks import receive
from webhooks.intake import Decision, Delivery, NotDurable, Receipt, RepairRequest
from webhooks.receive import Receiver

BODY = json.dumps(RUN).encode()


class Ledger:
    """An intake that remembers what it took, or is out of order."""

    def __init__(self) -> None:
        self.taken: list[tuple[Delivery, Decision]] = []
        self.broken = False

    async def take(self, delivery: Delivery, decision: Decision) -> Receipt:
        if self.broken:
            raise NotDurable("the disk is full")
        duplicate = any(known.guid == delivery.guid for known, _ in self.taken)
        self.taken.append((delivery, decision))
        return Receipt(duplicate, "attempt-1" if isinstance(decision, RepairRequest) else None)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
async def client(ledger: Ledger) -> AsyncIterator[httpx.AsyncClient]:
    receiver = Receiver(secrets=(b"new", b"old"), own_app_id=99)
    app = FastAPI()

    async def route(request: Request) -> Any:
        request.state.intake = ledger
        return await receiver.receive(request)

    app.add_api_route("/", route, methods=["POST"])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as opened:
        yield opened


def headers(body: bytes = BODY, secret: bytes = b"new", **more: str) -> dict[str, str]:
    return {
        "x-hub-signature-256": "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest(),
        "x-github-event": "workflow_run",
        "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "content-type": "application/json",
    } | {name.replace("_", "-"): value for name, value in more.items()}


@pytest.mark.parametrize("secret", [b"new", b"old"])
async def test_a_signed_delivery_is_taken_with_either_secret(client: httpx.AsyncClient, ledger: Ledger, secret: bytes) -> None:
    answer = await client.post("/", content=BODY, headers=headers(secret=secret))
    assert (answer.status_code, answer.json()) == (202, {"decision": "request", "attempt": "attempt-1"})
    delivery, _ = ledger.taken[0]
    assert (delivery.event, delivery.action) == ("workflow_run", "completed")
    assert delivery.payload_sha256 == hashlib.sha256(BODY).hexdigest()


@pytest.mark.parametrize(
    "signature",
    ["", "sha1=" + "0" * 40, "sha256=" + "0" * 64, "sha256=ü", "sha256=", headers(BODY + b" ")["x-hub-signature-256"]],
)
async def test_without_the_right_signature_nothing_is_looked_at(
    client: httpx.AsyncClient, ledger: Ledger, signature: str
) -> None:
    sent = {name: value.encode() for name, value in headers().items()} | {"x-hub-signature-256": signature.encode()}
    answer = await client.post("/", content=BODY, headers=sent)
    assert answer.status_code == 401
    assert ledger.taken == []


@pytest.mark.parametrize(
    ("body", "changes", "status"),
    [
        (b"{", {}, 400),
        (b"{}", {}, 400),
        (BODY, {"x_github_delivery": ""}, 400),
        (BODY, {"x_github_delivery": "x" * 100}, 400),
        (BODY, {"x_github_event": "No such event!"}, 400),
        (BODY, {"content_type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_what_is_malformed_is_refused_with_a_reason(
    client: httpx.AsyncClient, ledger: Ledger, body: bytes, changes: dict[str, str], status: int
) -> None:
    answer = await client.post("/", content=body, headers=headers(body, **changes))
    assert answer.status_code == status
    assert answer.json()["error"]
    assert ledger.taken == []


async def test_events_that_are_not_handled_are_answered_with_the_reason(client: httpx.AsyncClient) -> None:
    body = b'{"action": "created"}'
    answer = await client.post("/", content=body, headers=headers(body, x_github_event="star"))
    assert (answer.status_code, answer.json()) == (202, {"decision": "ignored", "reason": "star events are not handled"})


async def test_a_second_time_is_a_duplicate(client: httpx.AsyncClient) -> None:
    await client.post("/", content=BODY, headers=headers())
    answer = await client.post("/", content=BODY, headers=headers())
    assert (answer.status_code, answer.json()["decision"]) == (202, "duplicate")


async def test_what_cannot_be_stored_is_503(client: httpx.AsyncClient, ledger: Ledger) -> None:
    ledger.broken = True
    answer = await client.post("/", content=BODY, headers=headers())
    assert (answer.status_code, answer.json()) == (503, {"error": "the disk is full"})


async def test_too_large_is_refused_also_when_no_length_is_declared(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, ledger: Ledger
) -> None:
    monkeypatch.setattr(receive, "MAX_BYTES", 1000)
    body = b"[" + b" " * 2000 + b"]"
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for start in range(0, len(body), 100):
            sent += 1
            yield body[start : start + 100]

    declared = await client.post("/", content=body, headers=headers(body))
    streamed = await client.post("/", content=chunks(), headers=headers(body))
    assert (declared.status_code, streamed.status_code) == (413, 413)
    assert ledger.taken == []


def test_there_is_no_receiver_without_a_secret() -> None:
    with pytest.raises(ValueError, match="secret"):
        Receiver(secrets=(), own_app_id=None)
    with pytest.raises(ValueError, match="secret"):
        Receiver(secrets=(b"",), own_app_id=None)


async def test_refusals_are_in_the_log_and_a_flood_of_them_is_one_line(client: httpx.AsyncClient) -> None:
    with structlog.testing.capture_logs() as logged:
        for _ in range(50):
            await client.post("/", content=BODY, headers=headers(secret=b"wrong"))
    [told] = logged
    assert (told["status"], told["log_level"]) == (401, "warning")
    assert "signature" in told["reason"]


async def test_a_flood_of_one_refusal_hides_no_other(client: httpx.AsyncClient) -> None:
    form = headers(content_type="application/x-www-form-urlencoded")
    with structlog.testing.capture_logs() as logged:
        for _ in range(5):
            await client.post("/", content=BODY, headers=headers() | {"x-hub-signature-256": ""})
            await client.post("/", content=BODY, headers=headers(secret=b"wrong"))
            await client.post("/", content=BODY, headers=form)
    assert [told["status"] for told in logged] == [401, 401, 415]
    assert len({told["reason"] for told in logged}) == 3


async def test_the_number_that_is_told_is_of_one_refusal_alone(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unsigned(times: int) -> None:
        for _ in range(times):
            await client.post("/", content=BODY, headers=headers(secret=b"wrong"))

    with structlog.testing.capture_logs() as logged:
        await unsigned(4)
        await client.post("/", content=BODY, headers=headers(content_type="text/plain"))
        monkeypatch.setattr(receive, "_LOG_INTERVAL", 0)
        await unsigned(1)
    assert [(told["status"], told["since_last_line"]) for told in logged] == [(401, 1), (415, 1), (401, 4)]


async def test_malformed_payloads_are_one_kind_whatever_they_are_about(client: httpx.AsyncClient) -> None:
    with structlog.testing.capture_logs() as logged:
        for body in (b"{", b"{}", b"[]", b"nothing"):
            answer = await client.post("/", content=body, headers=headers(body))
            assert answer.status_code == 400
    assert len(logged) == 1
