"""PostgreSQL through asyncpg: connections with deadlines, their pool, and readable errors. Knows no table."""

from __future__ import annotations

import ssl
from functools import partial

import asyncpg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from app.store.database.address import SETTING, Postgres, StoreError

CONNECT_SECONDS = 8.0
_DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
ERRORS = (SQLAlchemyError, *_DRIVER_ERRORS, OSError)
"""Exceptions when opening a connection; `refusal` explains them."""
_COMMAND_SECONDS = 20.0  # of one statement, if the server does not answer; `statement_timeout` comes first
_POOL_SIZE = 5  # open connections per process
_POOL_MORE = 5  # additional ones under load
_POOL_WAIT_SECONDS = 8.0  # GitHub hangs up on a webhook after ten
_POOL_AGE_SECONDS = 1800
_SESSION = (
    "SET statement_timeout = '15s'; "
    # A worker frozen inside a transaction must not keep its locks.
    "SET idle_in_transaction_session_timeout = '15s'"
)


class NotConnected(ConnectionError):
    """No connection is available now. An `OSError`, because drivers raise various errors for this."""


def pool(address: Postgres) -> AsyncEngine:
    """The service's connections. Failing to connect raises an `OSError`."""
    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=partial(_session, address),
        pool_size=_POOL_SIZE,
        max_overflow=_POOL_MORE,
        pool_timeout=_POOL_WAIT_SECONDS,
        pool_recycle=_POOL_AGE_SECONDS,
        pool_pre_ping=True,
        hide_parameters=True,  # parameters contain external data, and errors are logged
    )


def without_deadlines(address: Postgres) -> AsyncEngine:
    """One connection without statement deadlines, for migrations."""
    return create_async_engine("postgresql+asyncpg://", async_creator=partial(_connect, address, None), pool_size=1)


async def _session(address: Postgres) -> asyncpg.Connection:
    try:
        connection = await _connect(address, _COMMAND_SECONDS)
        await connection.execute(_SESSION)  # not at connect time: poolers refuse settings there
    except _DRIVER_ERRORS as error:
        raise NotConnected(_first_line(error)) from error
    return connection


async def _connect(address: Postgres, seconds: float | None) -> asyncpg.Connection:
    return await asyncpg.connect(
        address.asyncpg_dsn,
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        database=address.database,
        ssl=ssl.create_default_context() if address.trusts_system else None,
        timeout=CONNECT_SECONDS,
        command_timeout=seconds,
    )


def refusal(address: Postgres, error: BaseException) -> StoreError:
    """Why opening failed and what to do, in one line. The drivers' messages never contain the password."""
    if isinstance(error, DBAPIError) and error.orig is not None:  # SQLAlchemy's wrapper of the driver's error
        error = error.orig.__cause__ or error
    while isinstance(error, NotConnected) and error.__cause__ is not None:
        error = error.__cause__
    at, said = f"PostgreSQL at {address.where}", _first_line(error)
    match error:
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            why = f"{at} rejects user {address.user!r} ({said}); check the user and the password"
        case asyncpg.InvalidCatalogNameError():
            why = f"{at} has no database {address.database!r}; create it, or set another one"
        case ConnectionError() if "rejected SSL upgrade" in said:  # asyncpg has no class for it
            why = f"{at} offers no TLS, which `sslmode` requires; enable TLS, or set `sslmode=disable` on a trusted network"
        case asyncpg.ClientConfigurationError() | ssl.SSLError():
            why = f"the TLS connection to {at} failed: {said}; check `sslmode` and the certificates"
        case TimeoutError():
            why = f"{at} does not answer within {CONNECT_SECONDS:g} s; check host, port and firewall"
        case OSError():
            why = f"cannot connect to {at} ({said}); start it, or check host and port"
        case _:
            why = f"{at}: {said}; check its log"
    return StoreError(f"{SETTING}: {why}")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
