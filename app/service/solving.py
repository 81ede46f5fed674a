"""`/api/v1/solve`: code from a specification over HTTP, for programs on this machine.

There is no sign-in, and solving costs money and time, so only this machine may ask: the connection must come from a loopback
address and through no proxy, and the body must be JSON, which a page of another site cannot send without being asked first.

Each solution is made by a child process, `selfheal solve --stream`. So the web process loads nothing that heals, and what is
cancelled ends with its process. The child also keeps a record, which outlives the web process (`selfheal runs`).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.dataclasses import dataclass as pydantic_dataclass
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from agent.models.values import is_loopback
from agent.solving.home import BadSpecification
from agent.solving.options import UserOptions, arguments
from agent.solving.specification import specify
from app.dashboard.api import PREFIX as API
from app.dashboard.api import Answer, refusals
from app.dashboard.safe_text import Sanitizer
from app.dashboard.stream import Position, message, position_of
from app.settings import PREFIX, Settings
from sandbox.host.folder_locks import lock_if_abandoned, try_lock

MOST_RUNNING = 2
MOST_KEPT = 50  # ended ones
MOST_LINES = 20_000  # of one solution
LONGEST_BODY = 1024 * 1024  # bytes
LONGEST_LINE = 8 * 1024 * 1024  # bytes
PATIENCE = 10.0  # seconds for a cancelled child to clean up
PULSE = 15.0  # seconds between signs of life on a stream
FOLDERS = "selfheal-solve-"  # how their names begin, in the folder for temporary files
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
PASSED_ON = (  # beginnings of the names of settings
    *("model", "sandbox", "trust_code", "docker_host", "e2b", "package_index", "python_downloads", "crates_index", "go_proxy"),
    *("max_iterations", "max_seconds", "max_tokens", "max_cost", "download", "cache_mb", "search_head_start"),
)


@pydantic_dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class SolveIn(UserOptions):
    """A specification, and the options of `selfheal solve`."""

    specification: str = Field(min_length=1, max_length=20_000, description="What the code should do, in words.")
    name: str = Field("", max_length=200, description="Name of the function.")
    signature: str = Field("", max_length=2_000, description="Such as `slug(text: str) -> str`.")
    doctests: str = Field("", max_length=200_000, description="Examples that must hold, as doctests.")
    tests: str = Field("", max_length=200_000, description="A pytest file that must pass.")


_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The event stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


class SolveOut(BaseModel):
    id: str
    status: Literal["running", "solved", "not_solved", "failed", "cancelled"]
    run: str | None = Field(description="ID of the record; `selfheal runs show` takes it.")
    result: dict[str, Any] | None = Field(description="As `selfheal solve --json` prints it; null without one.")
    error: str | None
    events: str = Field(description="Path of the event stream.")


@dataclass
class _Solution:
    """One request: its child's lines so far. `changed` is set, and replaced, at each line and at the end."""

    id: str
    folder: Path
    lock: int  # on the folder, also held by the child: a sweep leaves it alone as long as either lives
    lines: list[dict[str, Any]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    process: asyncio.subprocess.Process | None = None
    ended: bool = False
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    run: str | None = None
    result: dict[str, Any] | None = None
    error: str | None = None

    @property
    def status(self) -> Literal["running", "solved", "not_solved", "failed", "cancelled"]:
        if not self.ended:
            return "running"
        if self.result is not None:
            return "solved" if self.result.get("solved") else "not_solved"
        return "cancelled" if self.cancelled else "failed"

    @property
    def cancelled(self) -> bool:
        return self.stopping.is_set()

    def told(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass
class Solutions:
    """The solutions of this process. `close` cancels those that run."""

    settings: Settings
    sanitizer: Sanitizer
    known: dict[str, _Solution] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, wanted: SolveIn) -> _Solution:
        """Raises `HTTPException` (429) if too many run."""
        if sum(not each.ended for each in self.known.values()) >= MOST_RUNNING:
            detail = f"{MOST_RUNNING} solutions are being made; wait for one, or cancel it with DELETE"
            raise HTTPException(429, detail, {"retry-after": "10"})
        for old in [each.id for each in self.known.values() if each.ended][: max(0, len(self.known) - MOST_KEPT)]:
            del self.known[old]
        made = _Solution(uuid.uuid4().hex, *_folder())
        self.known[made.id] = made
        task = asyncio.create_task(self._run(made, wanted), name=f"solve {made.id}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return made

    def find(self, id_: str) -> _Solution:
        """Raises `HTTPException` (404)."""
        if (found := self.known.get(id_)) is None:
            raise HTTPException(404, "There is no such solution in this process. `selfheal runs list` shows finished ones.")
        return found

    def cancel(self, solution: _Solution) -> None:
        if not solution.ended:
            solution.stopping.set()
            _end(solution.process, signal.SIGINT)

    async def close(self) -> None:
        for solution in self.known.values():
            self.cancel(solution)
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _run(self, solution: _Solution, wanted: SolveIn) -> None:
        stuck: asyncio.Task[None] | None = None
        try:
            argv = await asyncio.to_thread(_written, solution.folder, wanted)
            process = solution.process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=solution.folder,
                env=environment(self.settings),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LONGEST_LINE,
                pass_fds=[solution.lock],
                start_new_session=True,
            )
            stuck = asyncio.create_task(_killed_when_cancelled(solution))
            if solution.cancelled:  # before there was a process
                _end(process, signal.SIGINT)
            said, _ = await asyncio.gather(_last(process.stderr), self._read(solution, process.stdout))
            code = await process.wait()
            if solution.result is None and not solution.cancelled:
                why = "\n".join(line.removeprefix("selfheal: ") for line in said if line.startswith("selfheal: "))
                solution.error = self.sanitizer.text(why or f"the process ended with {code}", 2_000)
        except (OSError, ValueError) as error:  # no process, a line that is too long
            solution.error = f"the solution was lost: {error}"
            _end(solution.process, signal.SIGKILL)
        finally:
            if stuck is not None:
                stuck.cancel()
            solution.ended = True
            solution.told()
            await asyncio.to_thread(shutil.rmtree, solution.folder, ignore_errors=True)
            os.close(solution.lock)

    async def _read(self, solution: _Solution, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while line := await stream.readline():
            try:
                told = json.loads(line)
            except ValueError:
                continue  # the child was killed while it wrote
            if "run" in told:
                solution.run = told["run"]
            elif "result" in told:
                solution.result = told["result"]
            elif len(solution.lines) < MOST_LINES:
                solution.lines.append(told["event"])
            solution.told()


def _folder() -> tuple[Path, int]:
    """A new folder, and the descriptor that holds its lock. Raises `OSError`."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=FOLDERS))
        if (lock := try_lock(path, fcntl.LOCK_EX)) is not None:  # else a sweep locked it first and removes it
            return path, lock


def sweep() -> None:
    """Remove the folders of solutions whose processes were killed. Blocks."""
    for path in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*/"):
        if (lock := lock_if_abandoned(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _local(request: Request) -> None:
    """Raises `HTTPException` (403, 413, 415)."""
    host = request.client.host if request.client is not None else ""
    if not is_loopback(host) or any(name in request.headers for name in FORWARDED):
        raise HTTPException(403, "Only programs on this machine may ask for code, and not through a proxy.")
    if request.method != "POST":
        return
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "Send the specification as JSON, with the content type application/json.")
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > LONGEST_BODY:
        raise HTTPException(413, f"The request must say its length and have at most {LONGEST_BODY // 1024} KiB.")


class _LocalRoute(APIRoute):
    """Checks who asks before the body is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            _local(request)
            return await answer(request)

        return guarded


def router(solutions: Solutions) -> APIRouter:
    routes = APIRouter(prefix=f"{API}/solve", default_response_class=Answer, route_class=_LocalRoute, responses=refusals(403))

    @routes.post("", status_code=202, response_model=SolveOut, responses={**_EVENTS, **refusals(413, 415, 422, 429)})
    async def solve(request: Request, wanted: SolveIn) -> Any:
        """Write code from a specification. With `Accept: text/event-stream`, the answer is the event stream itself."""
        await asyncio.to_thread(_check, wanted)
        made = solutions.start(wanted)
        if "text/event-stream" in request.headers.get("accept", ""):
            return _stream(made, 0)
        return Answer(_out(made), 202, {"location": f"{API}/solve/{made.id}"})

    @routes.get("/{solution_id}", response_model=SolveOut, responses=refusals(404, 422))
    async def show(solution_id: str) -> Any:
        """One solution, finished or not."""
        return Answer(_out(solutions.find(solution_id)))

    @routes.get("/{solution_id}/events", response_class=StreamingResponse, responses={**_EVENTS, **refusals(404, 422)})
    async def events(request: Request, solution_id: str, after: Annotated[int, Field(ge=0, le=2**53)] = 0) -> Response:
        """The events, and a last message `result`. Resumes after `Last-Event-ID`."""
        return _stream(solutions.find(solution_id), position_of(request, after).after)

    @routes.delete("/{solution_id}", status_code=204, responses=refusals(404, 422))
    async def cancel(solution_id: str) -> Response:
        """Stop it. What is finished stays."""
        solutions.cancel(solutions.find(solution_id))
        return Response(status_code=204)

    return routes


def _check(wanted: SolveIn) -> None:
    """Raises `HTTPException` (422) for a specification that `selfheal solve` would refuse too."""
    try:
        specify(
            wanted.specification,
            name=wanted.name,
            signature=wanted.signature,
            doctests=wanted.doctests,
            tests=wanted.tests,
        )
    except BadSpecification as error:
        raise HTTPException(422, str(error)) from None


def _out(solution: _Solution) -> dict[str, Any]:
    return SolveOut(
        id=solution.id,
        status=solution.status,
        run=solution.run,
        result=solution.result,
        error=solution.error,
        events=f"{API}/solve/{solution.id}/events",
    ).model_dump(mode="json")


def _stream(solution: _Solution, after: int) -> Response:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_messages(solution, after), media_type="text/event-stream", headers=headers)


async def _messages(solution: _Solution, after: int) -> AsyncGenerator[bytes, None]:
    yield message(json.dumps({"id": solution.id}), event="solution")
    while True:
        changed, is_last = solution.changed, solution.ended
        for at, told in enumerate(solution.lines[after:], after + 1):
            yield message(json.dumps(told), event=str(told.get("kind", "event")), id_=Position(at, at))
            after = at
        if is_last:
            yield message(json.dumps(_out(solution)), event="result")
            return
        try:
            async with asyncio.timeout(PULSE):
                await changed.wait()
        except TimeoutError:
            yield b": still here\n\n"


def _written(folder: Path, wanted: SolveIn) -> list[str]:
    """The input as files, as an argument has a limit; and the command."""
    (folder / "specification.txt").write_text(wanted.specification, "utf-8")
    argv = [sys.executable, "-P", "-m", "app", "solve", "--file", "specification.txt", "--stream"]
    given = {"--fn": wanted.name, "--signature": wanted.signature}
    argv += [f"{name}={value}" for name, value in given.items() if value]
    for name, text in (("tests", wanted.tests), ("doctests", wanted.doctests)):
        if text:
            (folder / f"{name}.txt").write_text(text, "utf-8")
            argv += [f"--{name}", f"{name}.txt"]
    return [*argv, *arguments(wanted)]


def environment(settings: Settings, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """This process's environment with its settings for models and sandboxes, and without any others: no GitHub key."""
    known = {name: value for name, value in inherited.items() if not name.upper().startswith(PREFIX)}
    for name in sorted(settings.model_fields_set):
        value = getattr(settings, name)
        if value is not None and name.startswith(PASSED_ON):
            known[f"{PREFIX}{name.upper()}"] = _as_text(value)
    return known


def _as_text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Collection) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _last(stream: asyncio.StreamReader | None) -> list[str]:
    """The last lines that the child printed for people."""
    assert stream is not None
    lines: list[str] = []
    while line := await stream.readline():
        lines = [*lines[-20:], line.decode("utf-8", "replace").rstrip()]
    return lines


async def _killed_when_cancelled(solution: _Solution) -> None:
    await solution.stopping.wait()
    await asyncio.sleep(PATIENCE)
    _end(solution.process, signal.SIGKILL)


def _end(process: asyncio.subprocess.Process | None, how: signal.Signals) -> None:
    if process is not None and process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how) if how == signal.SIGKILL else process.send_signal(how)
