"""The guest agent of a machine: health, files, and processes over the Connect protocol (JSON, uncompressed)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from protobuf import Oneof
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from e2b.envd.process import process_pb
from tests.standins.e2b.control import refusal
from tests.standins.e2b.faults import Fault
from tests.standins.e2b.machines import Event, Machine, Machines, Process
from tests.standins.sockets import reset_connection

STATUS = {"not_found": 404, "invalid_argument": 400, "unimplemented": 501}
STALL = 600.0  # seconds


class Agent:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    async def __call__(self, request: Request, fault: Fault | None) -> Response:
        machine = await self._machines.alive(request.headers["e2b-sandbox-id"])
        if machine is None:
            name = request.headers["e2b-sandbox-id"]
            return JSONResponse({"sandboxId": name, "message": "The sandbox was not found", "code": 502}, 502)
        if request.url.path == "/health":
            return Response(status_code=204)
        if request.headers.get("x-access-token") != machine.token:
            return refusal(401, "unauthorized access")
        if request.url.path == "/files":
            return await (self._give if request.method == "GET" else self._take)(machine, request)
        return await self._call(machine, request, fault)

    async def _give(self, machine: Machine, request: Request) -> Response:
        file = machine.host(request.query_params["path"])
        if not file.exists():
            return refusal(404, f"path '{request.query_params['path']}' does not exist")
        if file.is_dir():
            return refusal(400, "path is a directory")

        async def content() -> AsyncIterator[bytes]:
            with file.open("rb") as opened:
                while chunk := opened.read(1 << 20):
                    yield chunk

        return StreamingResponse(content(), media_type="application/octet-stream")

    async def _take(self, machine: Machine, request: Request) -> Response:
        assert request.headers["content-type"].startswith("application/octet-stream"), "the adapter never sends forms"
        file = machine.host(request.query_params["path"])
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as opened:
            async for chunk in request.stream():
                opened.write(chunk)
        return JSONResponse([{"name": file.name, "path": request.query_params["path"], "type": "file"}])

    async def _call(self, machine: Machine, request: Request, fault: Fault | None) -> Response:
        method, raw = request.url.path.rpartition("/")[2], await request.body()
        if not request.headers["content-type"].startswith("application/connect+json"):
            try:
                return JSONResponse(self._unary(machine, method, raw))
            except LookupError as error:
                code, message = error.args
                return JSONResponse({"code": code, "message": message}, STATUS[code])
        message = raw[5 : 5 + int.from_bytes(raw[1:5], "big")]
        milliseconds = int(request.headers.get("connect-timeout-ms") or 0)
        if method == "Start":
            frames = self._frames(self._start(machine, message, milliseconds / 1000 or None), process_pb.StartResponse)
        else:
            frames = self._frames(self._connect(machine, message), process_pb.ConnectResponse)
        return StreamingResponse(self._struck(frames, fault, request), media_type="application/connect+json")

    def _unary(self, machine: Machine, method: str, raw: bytes) -> object:
        if method != "SendSignal":
            raise LookupError("unimplemented", f"the stand-in has no {method}")
        asked = process_pb.SendSignalRequest.from_json(raw)
        assert asked.signal is process_pb.Signal.SIGKILL, "all that the adapter sends"
        _process(machine, asked.process).kill()
        return json.loads(process_pb.SendSignalResponse().to_json())

    async def _start(self, machine: Machine, message: bytes, timeout: float | None) -> AsyncIterator[Event]:
        asked = process_pb.StartRequest.from_json(message)
        assert asked.process is not None
        running = await machine.start(asked.process, timeout)
        async for event in _events(running):
            yield event

    async def _connect(self, machine: Machine, message: bytes) -> AsyncIterator[Event]:
        running = _process(machine, process_pb.ConnectRequest.from_json(message).process)
        async for event in _events(running):
            yield event

    async def _frames(
        self, events: AsyncIterator[Event], answer: type[process_pb.StartResponse | process_pb.ConnectResponse]
    ) -> AsyncIterator[bytes]:
        end: dict[str, object] = {}
        try:
            async for event in events:
                yield _frame(answer(event=event).to_json().encode())
        except LookupError as error:
            end = {"error": {"code": error.args[0], "message": error.args[1]}}
        yield _frame(json.dumps(end).encode(), 2)

    async def _struck(self, frames: AsyncIterator[bytes], fault: Fault | None, request: Request) -> AsyncIterator[bytes]:
        sent = 0
        async for frame in frames:
            if fault is not None and sent >= fault.after:
                match fault.kind:
                    case "reset":
                        reset_connection(request.scope)
                        await asyncio.sleep(STALL)
                    case "stall":
                        await asyncio.sleep(STALL)
                    case "end":
                        return
                    case "status":  # said in the stream, by the agent itself
                        end = {"error": {"code": "unavailable", "message": fault.message}}
                        yield _frame(json.dumps(end).encode(), 2)
                        return
            sent += 1
            yield frame


async def _events(running: Process) -> AsyncIterator[Event]:
    queue: asyncio.Queue[Event | Exception | None] = asyncio.Queue()
    running.listeners.append(queue)
    try:
        yield Event(event=Oneof("start", Event.StartEvent(pid=running.pid)))
        while (event := await queue.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event
    finally:
        if queue in running.listeners:
            running.listeners.remove(queue)


def _process(machine: Machine, selector: process_pb.ProcessSelector | None) -> Process:
    match selector and selector.selector:
        case Oneof(field="pid", value=pid) if pid in machine.processes:
            return machine.processes[pid]
    raise LookupError("not_found", "process not found")


def _frame(content: bytes, flags: int = 0) -> bytes:
    return bytes([flags]) + len(content).to_bytes(4, "big") + content
