"""One port for both: requests that name a machine go to its agent, all others to the control plane."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from sandbox.e2b.plan import Account
from tests.standins.e2b.agent import STALL, Agent
from tests.standins.e2b.control import API_KEY, Control, refusal
from tests.standins.e2b.faults import Fault, Faults
from tests.standins.e2b.machines import Gone, Machine, Machines
from tests.standins.sockets import listening, reset_connection

STREAMS = ("POST /process.Process/Start", "POST /process.Process/Connect")


class E2B:
    """`requests` is the ordered log, ids as `*`; `faults` strike the next ones that match."""

    def __init__(self, folder: Path) -> None:
        self.machines = Machines(folder)
        self.faults = Faults()
        self.requests: list[str] = []
        self.url = ""
        self._control, self._agent = Control(self.machines), Agent(self.machines)

    @classmethod
    @asynccontextmanager
    async def serve(cls) -> AsyncIterator[E2B]:
        served = cls(Path(tempfile.mkdtemp(prefix="selfheal-e2b-")))
        try:
            async with listening(served) as port:
                served.url = f"http://127.0.0.1:{port}"
                yield served
                await served.machines.close()
        finally:
            await served.machines.close()

    @property
    def account(self) -> Account:
        return Account(API_KEY, per_second=100.0, api_url=self.url, sandbox_url=self.url)

    @property
    def machine(self) -> Machine:
        """The only one that runs."""
        (machine,) = self.machines.all.values()
        return machine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        key = f"{request.method} {re.sub('/sandboxes/[^/]+', '/sandboxes/*', request.url.path)}"
        self.requests.append(key)
        fault = self.faults.at(key)
        if fault is not None and not (key in STREAMS and fault.kind != "late" and self._in_stream(fault)):
            if fault.kind in ("late", "silent"):
                response = await self._answer(request, None)
                if isinstance(response, StreamingResponse):
                    async for _ in response.body_iterator:
                        pass
            if fault.kind in ("reset", "late"):
                reset_connection(scope)
                return
            if fault.kind == "deaf":
                await Response(status_code=204)(scope, receive, send)
                return
            if fault.kind in ("stall", "silent"):
                await asyncio.sleep(STALL)
            response = refusal(fault.status, fault.message)
            response.headers.update(fault.headers)
            await response(scope, receive, send)
            return
        try:
            await (await self._answer(request, fault))(scope, receive, send)
        except* Gone:
            reset_connection(scope)

    async def _answer(self, request: Request, fault: Fault | None) -> Response:
        return await (self._agent(request, fault) if "e2b-sandbox-id" in request.headers else self._control(request))

    @staticmethod
    def _in_stream(fault: Fault) -> bool:
        return fault.after > 0 or fault.kind == "end"
