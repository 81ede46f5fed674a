"""A living PostgreSQL, as the service is told of it: what is wrong is named as what it is, and nothing is left there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from app.cli.doctor import checks
from app.cli.doctor.checks import Check
from app.settings import load
from tests.standins.postgres import Postgres


@pytest.fixture
def name(postgres: Postgres) -> Iterator[str]:
    made = postgres.create()
    yield made
    postgres.drop(made)


async def looked(url: str, folder: Path) -> dict[str, Check]:
    return {check.name: check async for check in checks.check_database(load(data_dir=folder, database_url=url))}


async def test_one_that_is_well_is_told_with_its_version_and_stays_as_it_is(
    postgres: Postgres, name: str, tmp_path: Path
) -> None:
    found = await looked(postgres.url(name), tmp_path)
    assert {check.status for check in found.values()} == {"ok"}, found
    assert f"PostgreSQL at 127.0.0.1:{postgres.port}/{name} 1" in found["opens"].seen
    with psycopg.connect(postgres.url(name)) as connection:
        assert connection.execute("SELECT to_regclass('selfheal_doctor')").fetchone() == (None,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda url: url.replace("selfheal:p", "selfheal:q"), "rejects user 'selfheal'"),
        (lambda url: url.replace("/test_", "/nowhere_"), "has no database 'nowhere_"),
        (lambda url: re.sub(r":\d+/", ":1/", url), "start it, or check host and port"),
        (lambda url: url.replace("sslmode=prefer", "sslmode=require"), "offers no TLS, which `sslmode` requires"),
    ],
    ids=["password", "database", "port", "no TLS"],
)
async def test_what_is_wrong_is_named_without_the_password(
    postgres: Postgres, name: str, tmp_path: Path, change: Callable[[str], str], words: str
) -> None:
    found = await looked(change(postgres.url(name)), tmp_path)
    assert found["opens"].status == "failed"
    assert words in found["opens"].seen
    assert "ss/w:rd" not in str(found)
