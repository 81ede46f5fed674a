"""Checkpoints on each database: hostile text, forgetting, a server that restarts, processes that begin together."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import urlsplit, urlunsplit

import pytest
from langgraph.graph import END, START, StateGraph

from app.settings import Settings, load
from app.store.checkpoints import postgres as postgres_checkpoints
from app.store.checkpoints.checkpoints import open_checkpoints
from app.store.database.address import StoreError
from tests.standins.postgres import Postgres

HOSTILE = "a\0b\x1b[31m \\u0000 \u202e"


class State(TypedDict, total=False):
    said: str
    lines: list[str]
    chosen: Any


@dataclasses.dataclass
class Chosen:
    """No plain data: it must not be made from what somebody wrote into the checkpoints."""

    word: str = "x"


def graph(checkpointer: Any) -> Any:
    def hear(state: State) -> State:
        return {"said": HOSTILE, "lines": [HOSTILE], "chosen": Chosen()}

    made = StateGraph(State)
    made.add_node("hear", hear)
    made.add_node("end", lambda state: {"lines": [*state["lines"], "end"]})
    made.add_edge(START, "hear")
    made.add_edge("hear", "end")
    made.add_edge("end", END)
    return made.compile(checkpointer=checkpointer, interrupt_before=["end"])


def thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


@pytest.mark.long
async def test_hostile_text_sleeps_and_wakes_and_is_forgotten(settings: Settings) -> None:
    async with open_checkpoints(settings) as checkpoints:
        await graph(checkpoints).ainvoke({"said": "\0"}, thread("t"), durability="sync")
    async with open_checkpoints(settings) as checkpoints:
        woken = (await graph(checkpoints).aget_state(thread("t"))).values
        assert woken["said"].replace("\0", "") == HOSTILE.replace("\0", "")
        assert woken["lines"] == [HOSTILE]
        assert not isinstance(woken["chosen"], Chosen)
        done = await graph(checkpoints).ainvoke(None, thread("t"), durability="sync")
        assert done["lines"] == [HOSTILE, "end"]
        await checkpoints.adelete_thread("t")
        assert await checkpoints.aget_tuple(thread("t")) is None


async def test_half_of_a_surrogate_pair_breaks_no_write(postgres: Postgres, tmp_path: Path) -> None:
    name = postgres.create()
    async with open_checkpoints(load(data_dir=tmp_path, database_url=postgres.url(name))) as checkpoints:
        await graph(checkpoints).ainvoke({"said": "\ud800"}, thread("t"), durability="sync")
    postgres.drop(name)


async def test_a_graph_goes_on_when_the_server_is_back(postgres: Postgres, tmp_path: Path) -> None:
    name = postgres.create()
    async with open_checkpoints(load(data_dir=tmp_path, database_url=postgres.url(name))) as checkpoints:
        sleeping = graph(checkpoints)
        await sleeping.ainvoke({"said": "x"}, thread("t"), durability="sync")
        await asyncio.to_thread(postgres.kill)
        going_on = asyncio.create_task(sleeping.ainvoke(None, thread("t"), durability="sync"))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(postgres.start)
        assert (await going_on)["lines"] == [HOSTILE, "end"]
    postgres.drop(name)


class Line:
    """Between us and the server. What `go_silent` finds open carries nothing any more, and is never closed."""

    def __init__(self) -> None:
        self.silenced = 0
        self._carrying: list[asyncio.Task[None]] = []

    def go_silent(self) -> None:
        self.silenced = len(self._carrying) // 2
        for task in self._carrying:
            task.cancel()
        self._carrying.clear()

    @asynccontextmanager
    async def to(self, port: int) -> AsyncIterator[int]:
        """Yields the port to connect to."""
        open_ones: list[asyncio.StreamWriter] = []

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(65536):
                writer.write(data)
            writer.close()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", port)
            open_ones.extend((writer, back))
            self._carrying += [asyncio.create_task(carry(reader, back)), asyncio.create_task(carry(there, writer))]

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        yield server.sockets[0].getsockname()[1]
        for writer in open_ones:
            writer.close()
        server.close()
        self.go_silent()


async def test_connections_that_fell_silent_fail_no_attempt(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_checkpoints, "_CHECK_SECONDS", 0.3)
    name, line = postgres.create(), Line()
    url = urlsplit(postgres.url(name))
    assert url.port
    names = [f"t{number}" for number in range(6)]
    async with line.to(url.port) as port:
        through = urlunsplit(url._replace(netloc=url.netloc.replace(f":{url.port}", f":{port}")))
        async with open_checkpoints(load(data_dir=tmp_path, database_url=through)) as checkpoints:
            sleeping = graph(checkpoints)
            await asyncio.gather(*(sleeping.ainvoke({"said": "x"}, thread(name), durability="sync") for name in names))
            line.go_silent()
            assert line.silenced > 1
            async with asyncio.timeout(postgres_checkpoints._CALL_SECONDS):
                woken = await asyncio.gather(*(sleeping.ainvoke(None, thread(name), durability="sync") for name in names))
            assert [state["lines"] for state in woken] == [[HOSTILE, "end"]] * len(names)
    postgres.drop(name)


async def test_processes_that_begin_together_make_the_tables_once(postgres: Postgres, tmp_path: Path) -> None:
    name = postgres.create(migrated=False)
    settings = load(data_dir=tmp_path, database_url=postgres.url(name))

    async def open_once() -> None:
        async with open_checkpoints(settings) as checkpoints:
            assert await checkpoints.aget_tuple(thread("t")) is None

    await asyncio.gather(*(open_once() for _ in range(4)))
    postgres.drop(name)


async def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    settings = load(data_dir=tmp_path, database_url="postgresql://me:hush@127.0.0.1:1/app")
    with pytest.raises(StoreError, match=r"^SELFHEAL_DATABASE_URL: the checkpoints.*cannot be opened") as refused:
        async with open_checkpoints(settings):
            pass
    assert "hush" not in str(refused.value)
