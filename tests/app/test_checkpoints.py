"""Checkpoints on each database: hostile text, forgetting, a server that restarts, processes that begin together."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph

from app.checkpoints import open_checkpoints
from app.settings import Settings, load
from app.store.database import StoreError
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
