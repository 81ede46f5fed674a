"""The database's address: parses `SELFHEAL_DATABASE_URL` for every driver. Connects to nothing.

The tables use asyncpg, LangGraph's checkpoints libpq (psycopg). Providers of hosted PostgreSQL hand out URLs for libpq, with
parameters that asyncpg would send to the server as settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from sqlalchemy import URL
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

SETTING = "SELFHEAL_DATABASE_URL"
FOLDER_SETTING = "SELFHEAL_DATA_DIR"  # where SQLite's file is by default
_SQLITE = ("sqlite", "sqlite+aiosqlite")
_POSTGRES = ("postgres", "postgresql", "postgresql+asyncpg")
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_OF_BOTH = frozenset(
    {"sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslpassword", "ssl_min_protocol_version"}
    | {"ssl_max_protocol_version", "target_session_attrs", "application_name", "options"}
)
_OF_LIBPQ = frozenset(
    {"channel_binding", "gssencmode", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"}
)
_OURS = frozenset({"connect_timeout"})  # every connection has our own deadline
_SHAPES = "postgresql://HOST:5432/DATABASE, with USER:PASSWORD@ before the host, or sqlite:////FOLDER/FILE.db"


class StoreError(Exception):
    """The database cannot be used; the message says why and what to do."""


class NoDatabase(StoreError):
    """The configured database has no Selfheal tables; the operator probably means another one."""


@dataclass(frozen=True, slots=True)
class Sqlite:
    path: Path


@dataclass(frozen=True, slots=True)
class Postgres:
    host: str | None  # a name, an address, or the folder of a Unix socket; None for the driver's default
    port: int
    user: str | None
    password: str | None = field(repr=False)
    database: str
    parameters: Mapping[str, str]  # libpq's names

    @property
    def where(self) -> str:
        """The server's address for people, without the password."""
        return f"{self.host or 'the local socket'}:{self.port}"

    @property
    def asyncpg_dsn(self) -> str:
        """A URL with the parameters only, so that asyncpg reads `sslmode` and related ones itself."""
        known = {name: value for name, value in self.parameters.items() if name in _OF_BOTH}
        if self.trusts_system:
            del known["sslrootcert"]
        return f"postgresql://?{urlencode(known)}" if known else "postgresql://"

    @property
    def trusts_system(self) -> bool:
        """`sslrootcert=system`: libpq's name for the system's certificate authorities; asyncpg would read it as a file name."""
        return self.parameters.get("sslrootcert") == "system"


def read(url: str) -> Sqlite | Postgres:
    """Parse the URL. Raises `StoreError` without quoting the URL: it may contain the password."""
    try:
        parsed = make_url(url.strip())
    except (ArgumentError, ValueError):  # its message may contain a part of the password
        raise StoreError(
            f"{SETTING}: not a database URL; write {_SHAPES}, and special characters of a password as %XX (@ is %40)"
        ) from None
    if parsed.drivername in _SQLITE:
        return _sqlite(parsed)
    if parsed.drivername in _POSTGRES:
        return _postgres(parsed)
    raise StoreError(f"{SETTING}: Selfheal supports PostgreSQL and SQLite, not {parsed.drivername!r}; write {_SHAPES}")


def _sqlite(url: URL) -> Sqlite:
    if not url.database or url.database == ":memory:" or url.host:
        raise StoreError(f"{SETTING}: SQLite needs a file that all processes share; write sqlite:////FOLDER/FILE.db")
    if url.query:
        raise StoreError(f"{SETTING}: SQLite parameters are not supported ({', '.join(url.query)}); write {_SHAPES}")
    return Sqlite(Path(url.database))


def _postgres(url: URL) -> Postgres:
    given = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
    host = given.pop("host", None) or url.host
    port = given.pop("port", None) or str(url.port or 5432)
    if host is not None and "@" in host:
        raise StoreError(f"{SETTING}: write special characters of a password as %XX (@ is %40, / is %2F)")
    if not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise StoreError(f"{SETTING}: name one server, with a port up to 65535")
    if not url.database:
        raise StoreError(f"{SETTING}: the database name is missing; write {_SHAPES}")
    if "ssl" in given:  # SQLAlchemy's name for it
        mode = given.pop("ssl")
        given.setdefault("sslmode", "require" if mode.lower() in ("true", "1") else mode)
    if given.get("sslmode", "prefer") not in _SSL_MODES:
        raise StoreError(f"{SETTING}: `sslmode` must be one of {', '.join(_SSL_MODES)}")
    if unknown := sorted(given.keys() - _OF_BOTH - _OF_LIBPQ - _OURS):
        raise StoreError(
            f"{SETTING}: unsupported connection parameters: {', '.join(unknown)}; remove them. With a pooler, "
            "use its session-mode address"
        )
    parameters = {name: value for name, value in given.items() if name not in _OURS}
    return Postgres(
        host, int(port), url.username, None if url.password is None else str(url.password), url.database, parameters
    )
