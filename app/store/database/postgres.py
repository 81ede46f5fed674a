"""PostgreSQL by asyncpg: one connection with its deadlines, a pool of them, and what its refusals mean. Knows no table."""

from __future__ import annotations

import ssl
from functools import partial

import asyncpg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from app.store.database.address import SETTING, Postgres, StoreError

CONNECT_SECONDS = 8.0
ERRORS = (SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
"""What opening raises; `refusal` tells it."""
_COMMAND_SECONDS = 20.0  # of one statement, for a server that does not answer; its own limit comes first
_POOL_SIZE = 5  # connections that stay open per process
_POOL_MORE = 5  # and for a rush
_POOL_WAIT_SECONDS = 8.0  # GitHub hangs up on a webhook after ten
_POOL_AGE_SECONDS = 1800
_SESSION = (
    "SET statement_timeout = '15s'; "
    # A worker that is frozen in the middle of a transaction must not hold its locks against the others.
    "SET idle_in_transaction_session_timeout = '15s'"
)


class Away(ConnectionError):
    """No connection is to be had just now. An `OSError`, as where there is no server at all: drivers raise many kinds."""


def pool(address: Postgres) -> AsyncEngine:
    """Connections for the service's work. What they raise when they cannot be made is an `OSError`."""
    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=partial(_session, address),
        pool_size=_POOL_SIZE,
        max_overflow=_POOL_MORE,
        pool_timeout=_POOL_WAIT_SECONDS,
        pool_recycle=_POOL_AGE_SECONDS,
        pool_pre_ping=True,
        hide_parameters=True,  # they hold what came from outside, and errors are logged
    )


def unhurried(address: Postgres) -> AsyncEngine:
    """One connection without deadlines for statements: a migration takes as long as it takes."""
    return create_async_engine("postgresql+asyncpg://", async_creator=partial(_connect, address, None), pool_size=1)


async def _session(address: Postgres) -> asyncpg.Connection:
    try:
        connection = await _connect(address, _COMMAND_SECONDS)
        await connection.execute(_SESSION)  # not at the start: poolers refuse settings there
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise Away(_first_line(error)) from error
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
    """What a failed opening means, in one line with the way out. Never the password: no message of theirs has it."""
    if isinstance(error, DBAPIError) and error.orig is not None:  # SQLAlchemy's word for what the driver said
        error = error.orig.__cause__ or error
    while isinstance(error, Away) and error.__cause__ is not None:
        error = error.__cause__
    at, said = f"PostgreSQL at {address.where}", _first_line(error)
    match error:
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            why = f"{at} refuses user {address.user!r} ({said}); correct the user or the password"
        case asyncpg.InvalidCatalogNameError():
            why = f"{at} has no database {address.database!r}; create it, or name another"
        case ConnectionError() if "rejected SSL upgrade" in said:  # asyncpg's words, for which it has no class
            why = (
                f"{at} takes no TLS, and `sslmode` wants it; set up TLS there, or `sslmode=disable` where the way to it is safe"
            )
        case asyncpg.ClientConfigurationError() | ssl.SSLError():
            why = f"{at} cannot be reached so: {said}; look at `sslmode` and its certificates"
        case TimeoutError():
            why = f"{at} does not answer within {CONNECT_SECONDS:g} s; look at host, port and firewall"
        case OSError():
            why = f"no {at} ({said}); start it, or correct host and port"
        case _:
            why = f"{at}: {said}; look at its log"
    return StoreError(f"{SETTING}: {why}")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
