"""Which of the servers that checks need does the sandbox have? Asked before anything runs.

Knows the guest's command `services`; starts nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from agent.checks.runner import Runner, service_request
from agent.contract.verdicts import Service
from agent.guest.text import one_line
from sandbox.base import Workspace

SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Missing:
    """A server that cannot be had. `why` is a sentence of its own."""

    service: Service
    why: str


@dataclass(frozen=True, slots=True)
class Stock:
    """What there is. `found` has a version for each service that is not missing: "PostgreSQL 15.8"."""

    missing: tuple[Missing, ...]
    found: tuple[tuple[Service, str], ...]

    @property
    def sentence(self) -> str:
        """Why the job cannot be replayed, or ""."""
        if not self.missing:
            return ""
        named = ", ".join(f"{m.service.name or m.service.kind} ({m.service.image or m.service.kind})" for m in self.missing)
        whys = " ".join(dict.fromkeys(m.why for m in self.missing))
        return f"The job needs services that the sandbox does not have: {named}. {whys}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What stands in the place of an image, for people."""
        return tuple(f"{version} in the place of {service.image or service.kind}" for service, version in self.found)


class _Told(msgspec.Struct):
    version: str = ""
    problem: str = ""


async def stock(runner: Runner, workspace: Workspace, services: Sequence[Service]) -> Stock:
    """Ask the sandbox of `workspace`. Raises `SandboxError` when it is lost."""
    if not services:
        return Stock((), ())
    request = json.dumps({"services": [service_request(service) for service in services]}).encode()
    asked = await runner.ask(workspace, "services", request, SECONDS)
    try:
        told = msgspec.json.decode(asked.output, type=list[_Told])
    except (ValueError, msgspec.ValidationError):
        told = []
    if len(told) != len(services):
        told = [_Told(problem=f"The sandbox did not tell what it has: {asked.problem or 'no answer'}.")] * len(services)
    pairs = list(zip(services, told, strict=True))
    return Stock(
        tuple(Missing(service, one_line(answer.problem, 300)) for service, answer in pairs if answer.problem),
        tuple((service, one_line(answer.version, 100)) for service, answer in pairs if not answer.problem),
    )
