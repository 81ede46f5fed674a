"""The other side, on this machine: its server around a local sandbox, asked by its messenger."""

from __future__ import annotations

import asyncio
import base64
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from sandbox.base import Command, Packages
from sandbox.install import plan as install_plan
from sandbox.install.index.access import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.install.plan import InstallPlan
from sandbox.local import LocalSandboxes
from sandbox.remote import messenger, wire
from sandbox.remote.server import Server
from tests.sandbox.conftest import FILES, LIMITS, no_bubblewrap, tarball, until
from tests.sandbox.contract.backends import gone, running


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    no_bubblewrap()
    store = PackageStore(tmp_path / "packages", IndexAccess((), frozenset()))
    for name in ("asked", "answered"):
        (tmp_path / name).mkdir()
    async with LocalSandboxes(tmp_path / "open", store).open("served", LIMITS) as sandbox:
        await sandbox.unpack(tarball(FILES))
        server = await asyncio.start_unix_server(Server(sandbox, store, tmp_path).accept, tmp_path / "socket", limit=1 << 17)
        yield tmp_path
        server.close()


async def ask(home: Path, name: str, question: bytes) -> asyncio.subprocess.Process:
    inline = base64.b64encode(question).decode()
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", messenger.__file__, str(home / "socket"), name, inline),
        stdout=asyncio.subprocess.PIPE,
    )


async def answered(home: Path, name: str, question: bytes) -> tuple[wire.Head, tuple[bytes, ...]]:
    said, _ = await asyncio.wait_for((await ask(home, name, question)).communicate(), 30)
    size, packed = said.split()
    answer = base64.b64decode(packed)
    assert len(answer) == int(size)
    return wire.unpack(answer)


def run(workspace: str, script: str) -> bytes:
    command = Command(("/bin/sh", "-c", script), 60.0)
    return wire.pack({"do": "run", "workspace": workspace, "command": wire.command_to(command)}, b"")


async def candidate(home: Path) -> str:
    head, _ = await answered(home, "c" * 32, wire.pack({"do": "open"}))
    return head["workspace"]


async def test_what_is_asked_twice_by_one_name_is_done_once(home: Path) -> None:
    once = run(await candidate(home), "sleep 0.3; echo x >> times; wc -l < times")
    beside = await asyncio.gather(*(answered(home, "a" * 32, once) for _ in range(3)))
    after = await answered(home, "a" * 32, once)
    assert [blobs[0].strip() for _, blobs in (*beside, after)] == [b"1"] * 4
    _, again = await answered(home, "b" * 32, once)
    assert again[0].strip() == b"2", "by another name it is another question"


async def test_what_nobody_waits_for_any_more_dies_and_is_told_as_lost(home: Path) -> None:
    question = run(await candidate(home), "exec sleep 244948")
    one, other = await ask(home, "a" * 32, question), await ask(home, "a" * 32, question)
    await until(lambda: bool(running("244948")))
    one.kill()
    await one.wait()
    assert running("244948"), "another waits for it"
    other.kill()
    await other.wait()
    assert await gone("244948")
    head, _ = await answered(home, "a" * 32, question)
    assert head["error"] == "lost"


async def test_a_question_that_is_none_has_an_error_for_an_answer(home: Path) -> None:
    for question in (b"garbage", wire.pack({"do": "__init__"}), wire.pack({"do": "run"}), wire.pack({})):
        head, _ = await answered(home, base64.b16encode(question[:8]).decode().lower().ljust(32, "0"), question)
        assert head["error"]


async def test_what_nobody_expected_is_an_answer_too_and_is_done_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    async def odd(*told: Any) -> InstallPlan:
        done.append("question")
        raise RecursionError("too deep")

    monkeypatch.setattr(install_plan, "read", odd)
    packages = asdict(Packages(groups=("dev",)))
    question = wire.pack({"do": "question", "workspace": wire.BASE, "packages": packages})
    heads = [(await answered(home, "e" * 32, question))[0] for _ in range(3)]
    assert heads[0]["error"] == "lost"
    assert "RecursionError" in heads[0]["reason"]
    assert heads == [heads[0]] * 3
    assert done == ["question"]


async def test_who_asks_while_an_answer_is_being_kept_waits_for_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = run(await candidate(home), "echo x >> times; wc -l < times")
    begun, go = threading.Event(), threading.Event()
    really = Server._store_answer

    def slow(self: Server, name: str, answer: bytes) -> None:
        begun.set()
        go.wait(20)
        really(self, name, answer)

    monkeypatch.setattr(Server, "_store_answer", slow)
    first = asyncio.create_task(answered(home, "a" * 32, once))
    await asyncio.to_thread(begun.wait, 20)
    second = asyncio.create_task(answered(home, "a" * 32, once))
    await asyncio.sleep(0.3)  # it asks meanwhile
    go.set()
    assert [blobs[0].strip() for _, blobs in (await first, await second)] == [b"1", b"1"]


async def test_a_name_that_is_none_has_no_answer(home: Path) -> None:
    process = await ask(home, "../../etc", wire.pack({"do": "hello"}))
    said, _ = await asyncio.wait_for(process.communicate(), 30)
    assert (said, process.returncode) == (b"", 71)
