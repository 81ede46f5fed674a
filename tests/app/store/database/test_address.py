"""The database's URL as people and hosts write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.store.database.address import Postgres, Sqlite, StoreError, read


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
def test_postgresql_is_taken_under_each_of_its_names(scheme: str) -> None:
    address = read(f" {scheme}://me:p%40ss@db.example.org/app\n")
    assert address == Postgres("db.example.org", 5432, "me", "p@ss", "app", {})
    assert "p@ss" not in repr(address)


def test_what_hosts_add_is_translated_for_each_driver() -> None:
    url = "postgresql://me:x@h:6543/app?sslmode=require&channel_binding=require&connect_timeout=3&sslrootcert=/a b/ca.pem"
    address = read(url)
    assert isinstance(address, Postgres)
    assert address.port == 6543
    assert address.asyncpg_dsn == "postgresql://?sslmode=require&sslrootcert=%2Fa+b%2Fca.pem"
    assert address.parameters == {"sslmode": "require", "channel_binding": "require", "sslrootcert": "/a b/ca.pem"}


def test_the_machines_own_authorities_are_no_file_for_asyncpg() -> None:
    address = read("postgresql://me:x@h/app?sslmode=verify-full&sslrootcert=system")
    assert isinstance(address, Postgres)
    assert address.trusts_system
    assert address.asyncpg_dsn == "postgresql://?sslmode=verify-full"
    assert address.parameters["sslrootcert"] == "system"


def test_a_unix_socket_and_the_name_that_sqlalchemy_has_for_tls() -> None:
    address = read("postgresql:///app?host=/run/postgresql&ssl=true")
    assert address == Postgres("/run/postgresql", 5432, None, None, "app", {"sslmode": "require"})


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+aiosqlite"])
def test_sqlite_is_a_file(scheme: str) -> None:
    assert read(f"{scheme}:////data/selfheal.db") == Sqlite(Path("/data/selfheal.db"))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense", "not a database URL"),
        ("postgresql://me:hush@h:port/app", "not a database URL"),
        ("postgresql://me:hu@sh@h/app", "of a password as %XX"),
        ("mysql://me:hush@h/app", "not 'mysql'"),
        ("postgresql+psycopg2://me:hush@h/app", "not 'postgresql\\+psycopg2'"),
        ("postgresql://me:hush@h", "the database name is missing"),
        ("postgresql://me:hush@h/app?sslmode=yes", "`sslmode` must be one of disable"),
        ("postgresql://me:hush@h/app?pgbouncer=true", "unsupported connection parameters: pgbouncer"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("sqlite:///a.db?mode=ro", "mode"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_names_the_setting_and_never_the_password(url: str, says: str) -> None:
    with pytest.raises(StoreError, match=f"^SELFHEAL_DATABASE_URL: .*{says}") as refused:
        read(url)
    assert not any(part in str(refused.value) for part in ("hush", "hu@", "sh@"))
