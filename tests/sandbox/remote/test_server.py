"""The other side, on this machine: its server around a local sandbox, asked by its messenger."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.base import Command, Packages
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.install.python import requirements
from sandbox.install.python.requirements import InstallPlan
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


async def ask(home: Path, name: str, question: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", messenger.__file__, str(home / "socket"), name, question),
        stdout=asyncio.subprocess.PIPE,
    )


async def answered(home: Path, name: str, question: str) -> dict[str, Any]:
    said, _ = await asyncio.wait_for((await ask(home, name, question)).communicate(), 30)
    assert said.endswith(b"\n")
    return json.loads(said)


def run(workspace: str, script: str) -> str:
    return wire.encode({"do": "run", "workspace": workspace, "command": Command(("/bin/sh", "-c", script), 60.0)})


def printed(answer: dict[str, Any]) -> bytes:
    return base64.b64decode(answer["ok"]["stdout"]).strip()


async def candidate(home: Path) -> str:
    return (await answered(home, "c" * 32, wire.encode({"do": "open"})))["ok"][0]


async def test_what_is_asked_twice_by_one_name_is_done_once(home: Path) -> None:
    once = run(await candidate(home), "sleep 0.3; echo x >> times; wc -l < times")
    beside = await asyncio.gather(*(answered(home, "a" * 32, once) for _ in range(3)))
    after = await answered(home, "a" * 32, once)
    assert [printed(answer) for answer in (*beside, after)] == [b"1"] * 4
    assert printed(await answered(home, "b" * 32, once)) == b"2", "by another name it is another question"


async def test_who_is_lost_finds_the_work_again_and_cancelling_ends_it(home: Path) -> None:
    question = run(await candidate(home), "exec sleep 244948")
    lost = await ask(home, "a" * 32, question)
    await until(lambda: bool(running("244948")))
    lost.kill()
    await lost.wait()
    other = asyncio.create_task(answered(home, "a" * 32, question))
    await asyncio.sleep(0.3)
    assert running("244948"), "it goes on"
    cancelled = await answered(home, "a" * 32, wire.CANCEL)
    assert await gone("244948")
    assert cancelled["error"] == "lost"
    assert await other == cancelled
    assert await answered(home, "a" * 32, question) == cancelled


async def test_what_was_cancelled_before_it_came_is_not_done(home: Path) -> None:
    question = run(await candidate(home), "echo x >> times; wc -l < times")
    cancelled = await answered(home, "a" * 32, wire.CANCEL)
    assert await answered(home, "a" * 32, question) == cancelled
    assert printed(await answered(home, "b" * 32, question)) == b"1"


async def test_a_question_that_is_none_has_an_error_for_an_answer(home: Path) -> None:
    asked = ("garbage", wire.encode({"do": "__init__"}), wire.encode({"do": "_close"}), wire.encode({"do": "run"}), "{}")
    for number, question in enumerate(asked):
        assert (await answered(home, f"{number:032x}", question))["error"]


async def test_a_server_that_is_gone_is_a_lost_sandbox(home: Path) -> None:
    (home / "socket").unlink()
    answer = await answered(home, "a" * 32, wire.encode({"do": "files"}))
    assert answer["error"] == "lost"
    assert "is not running" in answer["reason"]


async def test_what_nobody_expected_is_an_answer_too_and_is_done_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    async def odd(*told: Any) -> InstallPlan:
        done.append("question")
        raise RecursionError("too deep")

    monkeypatch.setattr(requirements, "read_plan", odd)
    question = wire.encode({"do": "question", "workspace": wire.BASE, "packages": Packages(groups=("dev",))})
    answers = [await answered(home, "e" * 32, question) for _ in range(3)]
    assert answers[0]["error"] == "lost"
    assert "RecursionError" in answers[0]["reason"]
    assert answers == [answers[0]] * 3
    assert done == ["question"]


async def test_a_name_that_is_none_has_no_answer(home: Path) -> None:
    process = await ask(home, "../../etc", wire.encode({"do": "files"}))
    said, _ = await asyncio.wait_for(process.communicate(), 30)
    assert said == b""
