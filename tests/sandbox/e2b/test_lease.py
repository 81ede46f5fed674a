"""A machine lives as long as its worker says so."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.base import SandboxLost
from sandbox.e2b import machine
from sandbox.e2b.account import LEASE_SECONDS
from tests.sandbox.conftest import until
from tests.sandbox.contract.backends import e2b_sandboxes
from tests.standins.e2b import E2B, Fault

pytestmark = [
    pytest.mark.optional(reason="the machines of the local E2B need root"),
    pytest.mark.asyncio(loop_scope="module"),
]
RENEW = "POST /sandboxes/*/timeout"


async def test_a_lease_is_asked_for_and_renewed_whatever_happens_once(
    e2b: E2B, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "RENEWED_EVERY", 0.05)
    e2b.faults.add(Fault(RENEW, status=500))
    async with e2b_sandboxes(tmp_path, e2b.account).open("attempt"):
        assert e2b.machine.ends - time.time() > LEASE_SECONDS - 60, "not the server's own few seconds"
        e2b.machine.ends = time.time() + 30
        await until(lambda: e2b.machine.ends - time.time() > LEASE_SECONDS - 60)
    renewed = e2b.requests.count(RENEW)
    assert renewed >= 2
    assert e2b.requests.count("DELETE /sandboxes/*") == 1  # a last renewal may still be on its way and arrive later


async def test_a_lease_is_not_renewed_beyond_what_the_plan_allows(
    e2b: E2B, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "RENEWED_EVERY", 0.05)
    async with e2b_sandboxes(tmp_path, replace(e2b.account, lifetime=60.0)).open("attempt"):
        await until(lambda: e2b.requests.count(RENEW) > 2)
        assert e2b.machine.ends - time.time() <= 60


async def test_a_machine_whose_lifetime_is_over_is_told_as_that(e2b: E2B, tmp_path: Path) -> None:
    async with e2b_sandboxes(tmp_path, replace(e2b.account, lifetime=100.0)).open("attempt") as sandbox:
        e2b.machine.ends = 0.0
        with pytest.raises(SandboxLost, match="lifetime of 100 s"):
            await sandbox.base.files()
