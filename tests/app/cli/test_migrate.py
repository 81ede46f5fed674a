"""`selfheal migrate`: what a release does before its processes start."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from typer.testing import CliRunner

from app.cli.main import app


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFHEAL_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def test_it_makes_the_database_and_changes_nothing_the_second_time(data: Path) -> None:
    first = CliRunner().invoke(app, ["migrate"])
    assert first.exit_code == 0, first.output
    assert f"{data / 'selfheal.db'}: at migration" in first.output
    again = CliRunner().invoke(app, ["migrate"])
    assert (again.exit_code, again.output) == (0, first.output)


def test_a_database_from_a_newer_version_is_left_alone(data: Path) -> None:
    CliRunner().invoke(app, ["migrate"])
    engine = create_engine(f"sqlite:///{data / 'selfheal.db'}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    ended = CliRunner().invoke(app, ["migrate"])
    assert ended.exit_code == 1
    assert "another version of Selfheal" in ended.output or "newer" in ended.output
    with engine.begin() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"
    engine.dispose()
