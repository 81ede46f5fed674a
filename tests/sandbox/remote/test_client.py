"""The asking side: what a machine answers is data, and one that says nonsense is lost, never more."""

from __future__ import annotations

import asyncio
import base64
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from sandbox.base import MIB, Command, InstallFailed, Isolation, Packages, SandboxLost
from sandbox.install import folder_cache
from sandbox.remote import wheel_cache, wire
from sandbox.remote.client import ANSWER, Client, PackageSupply, RemoteSandbox

QUESTION = "a" * 32
INSTALLED = {"python": "3.12.1", "seconds": 1.0, "built": [], "output": "", "notes": []}
USUAL = {
    "open": wire.pack({"workspace": "one", "python": "/env/bin/python"}),
    "close": wire.pack({}),
    "question": wire.pack({"question": QUESTION, "wants": True}),
    "fetch": wire.pack({"whole": True}),
    "wheels": wire.pack({}, b""),
    "install": wire.pack({"installed": INSTALLED, "python": "/env/bin/python"}),
}


class Scripted:
    """A machine that answers each question by what it asks for, as a file: the longest way that an answer can take."""

    def __init__(self, **answers: bytes) -> None:
        self.answers = USUAL | answers
        self.asked: list[str] = []
        self._files: dict[str, bytes] = {}

    async def put(self, path: str, content: bytes | IO[bytes], seconds: float) -> None:
        self._files[path] = content if isinstance(content, bytes) else content.read()

    async def get(self, path: str, limit: int, seconds: float) -> bytes | None:
        content = self._files[path]
        if len(content) > limit:
            raise SandboxLost(f"the machine's answer is longer than {limit} bytes")
        return content

    async def run(self, script: str, seconds: float) -> bytes:
        *_, name, inline = shlex.split(script)
        head, _ = wire.unpack(base64.b64decode(inline) or self._files[f"{wire.REQUESTS}/{name}"])
        self.asked.append(head["do"])
        self._files[f"{wire.ANSWERS}/{name}"] = self.answers[head["do"]]
        return b""


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


def sandbox(machine: Scripted, cache: Path, way: Open | None = None, no_node: str = "") -> RemoteSandbox:
    hello = {"root": "/repo", "python": "/usr/bin/python3"}
    return RemoteSandbox(
        Client(machine), hello, Isolation("scripted", untrusted=True), PackageSupply(way or Open(), cache, no_node)
    )


async def test_wheels_that_are_more_than_other_answers_are_kept(tmp_path: Path) -> None:
    many = bytes(ANSWER + 2 * MIB)
    await sandbox(Scripted(wheels=wire.pack({}, many)), tmp_path).install(Packages(("a",)))
    held = folder_cache.newest(tmp_path, QUESTION)
    assert held is not None
    assert (held.folder / "wheels.tar").stat().st_size == len(many)
    folder_cache.release(held)


@pytest.mark.parametrize(
    "answer",
    [
        wire.pack({}, bytes(3 * MIB)),
        wire.error_to(SandboxLost("gone")),
        wire.error_to(ValueError("no")),
        wire.pack({}),
        b"[" * 200_000,
    ],
    ids=["too long", "lost", "refused", "nothing", "nonsense"],
)
async def test_nothing_that_keeping_meets_ends_an_install(
    tmp_path: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel_cache, "MOST", MIB)
    machine = Scripted(wheels=answer)
    assert (await sandbox(machine, tmp_path).install(Packages(("a",)))).python == "3.12.1"
    assert machine.asked[-1] == "install"


async def test_a_machine_without_node_refuses_before_anything_is_installed(tmp_path: Path) -> None:
    machine = Scripted()
    with pytest.raises(InstallFailed, match="needs Node"):
        await sandbox(machine, tmp_path, no_node="the repository needs Node").install(Packages(("a",), node=(".",)))
    assert not machine.asked


async def test_kept_wheels_that_a_machine_does_not_take_are_downloaded_again(tmp_path: Path) -> None:
    await sandbox(Scripted(wheels=wire.pack({}, b"wheels")), tmp_path).install(Packages(("a",)))
    machine = Scripted(fill=wire.error_to(OSError("no room")))
    await sandbox(machine, tmp_path).install(Packages(("a",)))
    assert machine.asked == ["question", "fill", "fetch", "wheels", "install"]


WRONG = {
    "deep": b"[" * 200_000,
    "not json": b"garbage\n",
    "nothing": wire.pack({}),
    "other shapes": wire.pack(
        {"workspace": [], "python": {}, "installed": 7, "exit_code": [], "question": [], "path": None}, b"7"
    ),
    "too many": wire.pack({"exit_code": 0, "seconds": 1, "truncated": 0, "out_of_memory": 0}, b"", b"", b""),
    "a deep list": wire.pack({}, b"[" * 200_000),
    "endless": wire.pack({"exit_code": float("inf"), "seconds": 1, "truncated": 0, "out_of_memory": 0}, b"", b""),
    "an error of a wrong shape": wire.pack({"error": "deadline", "seconds": []}, b"", b""),
    "a limit of a wrong shape": wire.pack({"error": "limit", "which": "disk", "limit": {}}),
}
ASKING: dict[str, Callable[[RemoteSandbox], Awaitable[Any]]] = {
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
