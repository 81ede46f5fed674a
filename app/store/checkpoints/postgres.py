"""LangGraph's checkpoints in PostgreSQL; they survive restarts of the server and can store hostile text.

LangGraph uses psycopg, with its own tables and migrations.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from app.store.database.address import SETTING, Postgres, StoreError
from app.store.database.retries import retried
from app.store.text import storable

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol

_SETUP_LOCK = 0x5E1F_C4EC  # any number, the same in every process
_SETUP_SECONDS = 120.0
_CONNECT_SECONDS = 8
_CALL_SECONDS = 20.0  # of one call, if the server does not answer
_CHECK_SECONDS = 3.0  # of checking a pooled connection
_RETRY_SECONDS = 30.0  # to retry an unavailable server; the attempt's lease may end sooner
_POOL_SIZE = 4  # concurrent calls of a process
_LIVENESS = {  # how soon the kernel drops a dead connection; the URL's parameters take precedence
    "keepalives_idle": 5,  # seconds
    "keepalives_interval": 2,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
_T = TypeVar("_T")


@contextlib.asynccontextmanager
async def opened(address: Postgres, serde: SerializerProtocol) -> AsyncIterator[AsyncPostgresSaver]:
    """Open the pool, creating the tables if needed; close it at the end. Raises `StoreError`."""
    conninfo = make_conninfo(
        "",
        **{
            "connect_timeout": _CONNECT_SECONDS,
            **_LIVENESS,
            **address.parameters,
            "host": address.host,
            "port": address.port,
            "user": address.user,
            "password": address.password,
            "dbname": address.database,
        },
    )
    try:
        async with asyncio.timeout(_SETUP_SECONDS):
            await _set_up(conninfo)
    except (psycopg.Error, OSError) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise StoreError(f"{SETTING}: the checkpoints in PostgreSQL at {address.where} cannot be opened: {why}") from error
    pool = AsyncConnectionPool(
        conninfo,
        min_size=1,
        max_size=_POOL_SIZE,
        open=False,
        connection_class=psycopg.AsyncConnection[DictRow],
        timeout=_CONNECT_SECONDS,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        check=_check,
    )
    async with pool:
        yield _RetryingSaver(pool, serde=serde)


async def _set_up(conninfo: str) -> None:
    """Run LangGraph's migrations, one process at a time.

    The lock is polled: some migrations build an index concurrently, which waits for every running statement, including one that
    waits for the lock.
    """
    async with await psycopg.AsyncConnection.connect(
        conninfo, autocommit=True, prepare_threshold=0, row_factory=dict_row
    ) as connection:
        while True:
            row = await (await connection.execute("SELECT pg_try_advisory_lock(%s) AS got", (_SETUP_LOCK,))).fetchone()
            if row is not None and row["got"]:
                break
            await asyncio.sleep(0.1)
        await AsyncPostgresSaver(connection).setup()


async def _check(connection: psycopg.AsyncConnection[Any]) -> None:
    """Check a pooled connection. Raises `psycopg.OperationalError` if it is broken.

    If the server is silent, the socket is shut down: psycopg's own cancellation would wait for the server.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        cutting = asyncio.get_running_loop().call_later(_CHECK_SECONDS, line.shutdown, socket.SHUT_RDWR)
        try:
            await AsyncConnectionPool.check_connection(connection)
        finally:
            cutting.cancel()


class _RetryingSaver(AsyncPostgresSaver):
    """Retries every call while the server is unavailable; writes are idempotent by their keys.

    A saver serialises its calls. Each call uses a new saver on the shared pool, so that attempts do not wait for each other.
    """

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._retried(lambda saver: saver.aget_tuple(config))

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        # Plain texts of the state go into a JSON column, which refuses U+0000 and lone surrogates.
        kept: Checkpoint = {**checkpoint, "channel_values": _storable(checkpoint["channel_values"])}
        clean: CheckpointMetadata = _storable(metadata)
        return await self._retried(lambda saver: saver.aput(config, kept, clean, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._retried(lambda saver: saver.aput_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._retried(lambda saver: saver.adelete_thread(thread_id))

    async def _retried(self, call: Callable[[AsyncPostgresSaver], Awaitable[_T]]) -> _T:
        async def in_time() -> _T:
            async with asyncio.timeout(_CALL_SECONDS):
                return await call(AsyncPostgresSaver(self.conn, serde=self.serde))

        return await retried(
            in_time, _RETRY_SECONDS, is_transient=lambda error: isinstance(error, psycopg.OperationalError | OSError)
        )


def _storable(values: Any) -> Any:
    """The mapping with its texts made storable in PostgreSQL's JSON."""
    assert isinstance(values, Mapping)
    return {name: storable(value) if isinstance(value, str) else value for name, value in values.items()}
