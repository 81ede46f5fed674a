"""Checks that a sandbox opens on this machine, and runs the attacks that test its isolation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from app.assembly import sandboxes_of
from app.cli.doctor.checks import Check
from app.service.isolation import grounds_of
from app.settings import PREFIX, Settings, SettingsError
from sandbox.base import SandboxUnavailable
from sandbox.proof.findings import Finding
from sandbox.proof.prove import prove


async def run_checks(settings: Settings) -> AsyncIterator[Check]:
    try:
        sandboxes = await sandboxes_of(settings)
    except (SettingsError, SandboxUnavailable) as error:
        yield Check(
            "sandbox", "opens", "failed", str(error), f"choose one that works here: {PREFIX}SANDBOX=local, docker or e2b"
        )
        return
    isolation = sandboxes.isolation
    is_open = False
    try:
        async for finding in prove(sandboxes, grounds_of(settings)):
            if not is_open:
                yield Check("sandbox", "opens", "ok", "; ".join((f"`{isolation.name}`", *isolation.shortcomings)))
                is_open = True
            check = _check(finding)
            if settings.trust_code and check.status == "failed":
                check = replace(check, status="warning", seen=f"{check.seen} (allowed, as {PREFIX}TRUST_CODE trusts all code)")
            yield check
    except SandboxUnavailable as error:
        fix = f"see deploy/README.md for what {isolation.name} requires, or set {PREFIX}SANDBOX=e2b"
        yield Check("sandbox", "opens", "failed", str(error), fix)


def _check(finding: Finding) -> Check:
    return Check("sandbox", f"{finding.part}: {finding.name}", finding.status, finding.seen, finding.fix)
