"""The control plane: JSON over HTTP, with a key."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.standins.e2b.machines import ENVD_VERSION, Machine, Machines

API_KEY = "e2b_" + "0" * 40


def refusal(code: int, message: str) -> Response:
    return JSONResponse({"code": code, "message": message}, code)


class Control:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    async def __call__(self, request: Request) -> Response:
        if request.headers.get("x-api-key") != API_KEY:
            return refusal(401, "Invalid API key")
        body = json.loads(await request.body() or b"{}")
        match request.method, request.url.path.strip("/").split("/"):
            case "POST", ["v2", "sandboxes"]:
                return await self._create(body, request.headers.get("idempotency-key"))
            case "GET", ["v2", "sandboxes"]:
                return await self._list(request.query_params.get("metadata", ""))
            case method, ["sandboxes", name, *operation]:
                machine = await self._machines.alive(name)
                if machine is None:
                    return refusal(404, f"Sandbox {name} not found")
                return await self._use(method, machine, operation, body)
        return refusal(404, f"no route {request.method} {request.url.path}")

    async def _create(self, body: dict, key: str | None) -> Response:
        made = self._machines.made_by_key
        if key in made and made[key] in self._machines.all:
            return JSONResponse(_made(self._machines.all[made[key]]), 201)
        if len(self._machines.all) >= self._machines.most:
            return refusal(429, "you have reached the maximum number of concurrent E2B sandboxes")
        if body["templateID"] not in self._machines.templates:
            return refusal(404, f"template '{body['templateID']}' not found")
        rules = {"allow_internet_access": body.get("allow_internet_access", True), **(body.get("network") or {})}
        machine = await self._machines.make(body["templateID"], body.get("timeout", 15), body.get("metadata") or {}, rules)
        machine.envs.update(body.get("envVars") or {})
        if key:
            made[key] = machine.id
        return JSONResponse(_made(machine), 201)

    async def _list(self, wanted: str) -> Response:
        # Each name and each value is quoted, and the whole once more.
        pairs = {unquote(name): unquote(value) for name, value in parse_qsl(wanted)}
        found = []
        for machine in list(self._machines.all.values()):
            if await self._machines.alive(machine.id) and pairs.items() <= machine.metadata.items():
                found.append(_shown(machine))
        return JSONResponse(found)

    async def _use(self, method: str, machine: Machine, operation: list[str], body: dict) -> Response:
        match method, operation:
            case "DELETE", []:
                await self._machines.end(machine)
                return Response(status_code=204)
            case "GET", []:
                return JSONResponse({**_shown(machine), **_made(machine)})
            case "POST", ["timeout"]:
                machine.ends = time.time() + body["timeout"]
                return Response(status_code=204)
            case "PUT", ["network"]:
                await machine.rule(body, self._machines.ports)
                return Response(status_code=204)
        return refusal(404, "no route")


def _made(machine: Machine) -> dict[str, object]:
    return {
        "templateID": machine.template,
        "sandboxID": machine.id,
        "clientID": "local",
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": machine.token,
        "trafficAccessToken": None,
        "domain": None,
    }


def _shown(machine: Machine) -> dict[str, object]:
    def when(seconds: float) -> str:
        return datetime.fromtimestamp(seconds, UTC).isoformat()

    return {
        "templateID": machine.template,
        "sandboxID": machine.id,
        "clientID": "local",
        "startedAt": when(machine.started),
        "endAt": when(machine.ends),
        "cpuCount": 2,
        "memoryMB": 4096,
        "diskSizeMB": 4096,
        "state": "running",
        "envdVersion": ENVD_VERSION,
        "metadata": machine.metadata,
    }
