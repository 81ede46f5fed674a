"""Where the database is: `SELFHEAL_DATABASE_URL` as people write it, read once for every driver. Connects to nothing.

asyncpg carries the tables, libpq (by psycopg) LangGraph's checkpoints. Hosted PostgreSQL hands out URLs for libpq, and adds
parameters that asyncpg would send to the server as settings of its own.
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
_OURS = frozenset({"connect_timeout"})  # every connection has a deadline anyway
_SHAPES = "postgresql://HOST:5432/DATABASE, with USER:PASSWORD@ before the host, or sqlite:////FOLDER/FILE.db"


class StoreError(Exception):
    """The database cannot be used; the message says why and what to do."""


class NoDatabase(StoreError):
    """There is none with our tables where the settings say; most likely another one is meant."""


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
        """For people: never the password."""
        return f"{self.host or 'the local socket'}:{self.port}"

    @property
    def asyncpg_dsn(self) -> str:
        """The parameters alone, for asyncpg's own reading of `sslmode` and its kin; empty without any."""
        known = {name: value for name, value in self.parameters.items() if name in _OF_BOTH}
        if self.trusts_system:
            del known["sslrootcert"]
        return f"postgresql://?{urlencode(known)}" if known else "postgresql://"

    @property
    def trusts_system(self) -> bool:
        """`sslrootcert=system`, libpq's word for the machine's own authorities, for asyncpg the name of a file."""
        return self.parameters.get("sslrootcert") == "system"


def read(url: str) -> Sqlite | Postgres:
    """Raises `StoreError`, which never shows the URL: it holds the password."""
    try:
        parsed = make_url(url.strip())
    except (ArgumentError, ValueError):  # whose message may hold a part of the password
        raise StoreError(
            f"{SETTING}: not the URL of a database; write {_SHAPES}, a password's special characters as %XX (@ is %40)"
        ) from None
    if parsed.drivername in _SQLITE:
        return _sqlite(parsed)
    if parsed.drivername in _POSTGRES:
        return _postgres(parsed)
    raise StoreError(
        f"{SETTING}: Selfheal keeps its data in PostgreSQL or SQLite, not in {parsed.drivername!r}; write {_SHAPES}"
    )


def _sqlite(url: URL) -> Sqlite:
    if not url.database or url.database == ":memory:" or url.host:
        raise StoreError(f"{SETTING}: a SQLite database needs a file that all processes see; write sqlite:////FOLDER/FILE.db")
    if url.query:
        raise StoreError(f"{SETTING}: parameters of SQLite are not taken ({', '.join(url.query)}); write {_SHAPES}")
    return Sqlite(Path(url.database))


def _postgres(url: URL) -> Postgres:
    given = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
    host = given.pop("host", None) or url.host
    port = given.pop("port", None) or str(url.port or 5432)
    if host is not None and "@" in host:
        raise StoreError(f"{SETTING}: a password's special characters are written as %XX (@ is %40, / is %2F)")
    if not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise StoreError(f"{SETTING}: the port is a number up to 65535; one server is named, not a list of them")
    if not url.database:
        raise StoreError(f"{SETTING}: it names no database; write {_SHAPES}")
    if "ssl" in given:  # SQLAlchemy's name for it
        mode = given.pop("ssl")
        given.setdefault("sslmode", "require" if mode.lower() in ("true", "1") else mode)
    if given.get("sslmode", "prefer") not in _SSL_MODES:
        raise StoreError(f"{SETTING}: `sslmode` is one of {', '.join(_SSL_MODES)}")
    if unknown := sorted(given.keys() - _OF_BOTH - _OF_LIBPQ - _OURS):
        raise StoreError(
            f"{SETTING}: {', '.join(unknown)}: not taken as parameters of a connection; leave them out. Of a pooler, use the "
            "address that keeps a connection for a whole session"
        )
    parameters = {name: value for name, value in given.items() if name not in _OURS}
    return Postgres(
        host, int(port), url.username, None if url.password is None else str(url.password), url.database, parameters
    )
