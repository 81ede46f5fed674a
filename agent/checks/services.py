"""Asks the guest which of the servers that the checks need exist in the sandbox. Starts nothing."""

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
class ServiceInventory:
    """The servers that the sandbox lacks, each with a sentence why; those it has, with versions: "PostgreSQL 15.8"."""

    missing: tuple[tuple[Service, str], ...]
    found: tuple[tuple[Service, str], ...]

    @property
    def sentence(self) -> str:
        """Why the job cannot be replayed, or ""."""
        if not self.missing:
            return ""
        named = ", ".join(f"{one.name or one.kind} ({one.image or one.kind})" for one, _ in self.missing)
        whys = " ".join(dict.fromkeys(why for _, why in self.missing))
        return f"The job needs services that the sandbox does not have: {named}. {whys}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for people on what replaces each image."""
        return tuple(f"{version} instead of {service.image or service.kind}" for service, version in self.found)


class _ServiceReply(msgspec.Struct):
    version: str = ""
    problem: str = ""


async def available_services(runner: Runner, workspace: Workspace, services: Sequence[Service]) -> ServiceInventory:
    """Raises `SandboxError` if the sandbox is lost."""
    if not services:
        return ServiceInventory((), ())
    request = json.dumps({"services": [service_request(service) for service in services]}).encode()
    reply = await runner.ask(workspace, "services", request, SECONDS)
    try:
        answers = msgspec.json.decode(reply.output, type=list[_ServiceReply])
    except (ValueError, msgspec.ValidationError):
        answers = []
    if len(answers) != len(services):
        answers = [_ServiceReply(problem=f"The sandbox did not report its services: {reply.problem or 'no answer'}.")] * len(
            services
        )
    pairs = list(zip(services, answers, strict=True))
    return ServiceInventory(
        tuple((service, one_line(answer.problem, 300)) for service, answer in pairs if answer.problem),
        tuple((service, one_line(answer.version, 100)) for service, answer in pairs if not answer.problem),
    )
