"""The asking side: what a machine answers is data, and one that says nonsense is lost, never more."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from sandbox.base import (
    MIB,
    Command,
    Completed,
    DeadlinePassed,
    Entry,
    Installed,
    InstallFailed,
    Isolation,
    LimitExceeded,
    Packages,
    SandboxLost,
    SandboxUnavailable,
    UnsafeArchive,
)
from sandbox.e2b import sandbox as e2b_sandbox
from sandbox.e2b.client import ANSWER, Client, read
from sandbox.e2b.sandbox import E2BSandbox, PackageSupply
from sandbox.install import folder_cache
from sandbox.install.download import DownloadRefused
from sandbox.remote import wire

QUESTION = "a" * 32
INSTALLED = Installed("3.12.1", 1.0)


def ok(value: object) -> bytes:
    return wire.encode({"ok": value}).encode()


def failed(error: Exception) -> bytes:
    return wire.encode(wire.failure(error)).encode()


USUAL = {
    "open": ok(["one", "/env/bin/python"]),
    "close": ok(None),
    "question": ok([QUESTION, True]),
    "fetch": ok(True),
    "wheels": ok(""),
    "install": ok([INSTALLED, "/env/bin/python"]),
}


class Scripted:
    """A machine that answers each question by what it asks for, as a file: the longest way that an answer can take."""

    def __init__(self, wheels_file: bytes = b"", **answers: bytes) -> None:
        self.answers = USUAL | answers
        self.asked: list[str] = []
        self._files: dict[str, bytes] = {f"{wire.ANSWERS}/wheels.tar": wheels_file}

    async def put(self, path: str, content: bytes | IO[bytes], seconds: float) -> None:
        self._files[path] = content if isinstance(content, bytes) else content.read()

    async def get(self, path: str, limit: int, seconds: float) -> bytes | None:
        content = self._files[path]
        if len(content) > limit:
            raise SandboxLost(f"the machine's answer is longer than {limit} bytes")
        return content

    async def run(self, script: str, seconds: float) -> str:
        *_, name, inline = shlex.split(script)
        do = json.loads(inline or self._files[f"{wire.REQUESTS}/{name}"])["do"]
        self.asked.append(do)
        self._files[f"{wire.ANSWERS}/{name}"] = self.answers[do]
        return "\n"


class Open:
    """A way that is as it is asked to be; `closing` happens while it is closed."""

    def __init__(self, closing: Callable[[], Awaitable[None]] | None = None) -> None:
        self.closing = closing

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        yield

    async def closed(self) -> None:
        if self.closing is not None:
            await self.closing()


def sandbox(machine: Any, cache: Path, way: Any = None, no_node: str = "") -> E2BSandbox:
    supply = PackageSupply(way or Open(), cache, no_node)
    return E2BSandbox(Client(machine), "/repo", "/usr/bin/python3", Isolation("scripted", untrusted=True), supply)


@pytest.mark.parametrize(
    "value",
    [
        Completed(-9, b"\xff\n", b"\x00", 0.5, truncated=True, out_of_memory=True),
        Installed("3.12.1", 2.0, ("a",), "said", ("note", "other")),
        (Entry("ü/a", 3, executable=True), Entry("\udcff", 0, link=True)),
        b"\x00\xff",
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_answer_comes_back_as_it_was(value: object) -> None:
    kind = tuple[Entry, ...] if isinstance(value, tuple) else type(value)
    assert read(ok(value), kind) == value


@pytest.mark.parametrize(
    "error",
    [
        DeadlinePassed(2.0, b"out", b"err"),
        LimitExceeded("disk", 12),
        UnsafeArchive("why"),
        InstallFailed("why", "said"),
        DownloadRefused("why"),
        SandboxUnavailable("why"),
        SandboxLost("why"),
        FileNotFoundError("a.txt"),
        ValueError("not a path"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failures_come_back_as_they_were(error: Exception) -> None:
    with pytest.raises(type(error)) as again:
        read(failed(error), object)
    assert type(again.value) is type(error)
    assert str(again.value) == str(error)
    assert vars(again.value) == vars(error)


async def test_wheels_that_are_more_than_other_answers_are_kept(tmp_path: Path) -> None:
    many = bytes(ANSWER + 2 * MIB)
    await sandbox(Scripted(many, wheels=ok("wheels.tar")), tmp_path).install(Packages(("a",)))
    held = folder_cache.newest(tmp_path, QUESTION)
    assert held is not None
    assert (held.folder / "wheels.tar").stat().st_size == len(many)
    folder_cache.release(held)


@pytest.mark.parametrize(
    "answer",
    [
        ok("wheels.tar"),
        ok("../asked/secret"),
        failed(SandboxLost("gone")),
        failed(ValueError("no")),
        ok(None),
        b"[" * 200_000,
    ],
    ids=["too long", "elsewhere", "lost", "refused", "nothing", "nonsense"],
)
async def test_nothing_that_keeping_meets_ends_an_install(
    tmp_path: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e2b_sandbox, "MOST_WHEELS", MIB)
    machine = Scripted(bytes(3 * MIB), wheels=answer)
    assert (await sandbox(machine, tmp_path).install(Packages(("a",)))).python == "3.12.1"
    assert machine.asked[-1] == "install"


async def test_a_machine_without_node_refuses_before_anything_is_installed(tmp_path: Path) -> None:
    machine = Scripted()
    with pytest.raises(InstallFailed, match="needs Node"):
        await sandbox(machine, tmp_path, no_node="the repository needs Node").install(Packages(("a",), node=(".",)))
    assert not machine.asked


async def test_kept_wheels_that_a_machine_does_not_take_are_downloaded_again(tmp_path: Path) -> None:
    await sandbox(Scripted(b"wheels", wheels=ok("wheels.tar")), tmp_path).install(Packages(("a",)))
    machine = Scripted(fill=failed(OSError("no room")))
    await sandbox(machine, tmp_path).install(Packages(("a",)))
    assert machine.asked == ["question", "fill", "fetch", "wheels", "install"]


ENDED = {"stdout": "", "stderr": "", "seconds": 1, "truncated": False, "out_of_memory": False}
WRONG = {
    "deep": b"[" * 200_000,
    "not json": b"garbage\n",
    "nothing": b"{}",
    "no object": b"[]",
    "none": ok(None),
    "other shapes": ok({"python": {}, "exit_code": [], "path": None}),
    "too many": ok([1, 2, 3]),
    "a deep value": b'{"ok": ' + b"[" * 200_000,
    "endless": ok(ENDED | {"exit_code": float("inf")}),
    "no base64": ok(ENDED | {"exit_code": 0, "stdout": "*"}),
    "an unknown error": b'{"error": "os.system"}',
    "an error that is no name": b'{"error": ["deadline"]}',
    "an error of a wrong shape": b'{"error": "deadline", "seconds": []}',
    "a limit of a wrong shape": b'{"error": "limit", "which": "disk", "limit": {}}',
    "an unknown limit": b'{"error": "limit", "which": "all", "limit": 1}',
}
ASKING: dict[str, Callable[[E2BSandbox], Awaitable[Any]]] = {
    "run": lambda there: there.base.run(Command(("true",), 5.0)),
    "files": lambda there: there.base.files(),
    "question": lambda there: there.install(Packages(("a",))),
    "install": lambda there: there.install(Packages(("a",))),
}


@pytest.mark.parametrize("do", ASKING)
@pytest.mark.parametrize("wrong", WRONG)
async def test_an_answer_of_a_wrong_shape_is_a_lost_machine(tmp_path: Path, do: str, wrong: str) -> None:
    with pytest.raises(SandboxLost):
        await ASKING[do](sandbox(Scripted(**{do: WRONG[wrong]}), tmp_path))


@pytest.mark.parametrize("wrong", ["deep", "not json", "nothing"])
async def test_a_candidate_or_a_file_that_is_none_is_a_lost_machine(tmp_path: Path, wrong: str) -> None:
    there = sandbox(Scripted(open=WRONG[wrong], read=WRONG[wrong], provide=WRONG[wrong]), tmp_path)
    with pytest.raises(SandboxLost):
        async with there.candidate():
            pass
    with pytest.raises(SandboxLost):
        await there.base.read("a.txt")
    with pytest.raises(SandboxLost):
        await there.provide("tool", b"")


async def test_who_stops_waiting_for_a_candidate_is_cancelled_even_if_the_machine_is_lost(tmp_path: Path) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    class Slow(Scripted):
        async def run(self, script: str, seconds: float) -> str:
            asked.set()
            await go.wait()
            return await super().run(script, seconds)

    async def open_one() -> None:
        async with sandbox(Slow(open=failed(SandboxLost("gone"))), tmp_path).candidate():
            pass

    opening = asyncio.create_task(open_one())
    await asked.wait()
    opening.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait((opening,))
    assert opening.cancelled()


async def test_no_command_starts_once_its_workspace_is_closed(tmp_path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        begun.set()
        await go.wait()

    machine = Scripted()
    async with sandbox(machine, tmp_path, Open(slowly)).candidate() as workspace:
        running = asyncio.create_task(workspace.run(Command(("true",), 5.0)))
        await begun.wait()
    go.set()
    with pytest.raises(SandboxLost, match="closed"):
        await running
    with pytest.raises(SandboxLost, match="closed"):
        await workspace.run(Command(("true",), 5.0))
    assert machine.asked == ["open", "close"]
