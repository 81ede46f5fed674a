from __future__ import annotations

import json
import logging

import pytest
import structlog

from app.log import configure
from app.redaction import HIDDEN
from tests.app.tokens import SECRETS


def test_logs_are_json_lines_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        configure("info")
        structlog.get_logger("a").info("hello", token="anything", note=["ghp_" + "a1" * 18], number=3)
        structlog.get_logger("a").debug("not this one")
        try:
            raise RuntimeError("ghp_" + "a1" * 18)
        except RuntimeError:
            logging.getLogger("library").exception("it failed with %s", "sk-" + "a1" * 16)
    finally:
        structlog.reset_defaults()
        root.handlers, root.level = handlers, level
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["event"], first["token"], first["note"], first["number"]) == ("hello", HIDDEN, [HIDDEN], 3)
    assert first["level"] == "info"
    assert second["event"] == f"it failed with {HIDDEN}"
    assert f"RuntimeError: {HIDDEN}" in second["exception"]


def test_the_exact_secrets_of_this_installation_are_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        configure("info", ("open-sesame",))
        structlog.get_logger("a").info("he said open-sesame", note=["open-sesame"])
        logging.getLogger("library").warning("it said %s", "open-sesame")
    finally:
        structlog.reset_defaults()
        root.handlers, root.level = handlers, level
    logged = capsys.readouterr().err
    assert "he said" in logged
    assert "open-sesame" not in logged


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_no_known_shape_of_token_is_logged(secret: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        configure("info")
        structlog.get_logger("a").info(f"got {secret}", note={"deep": [secret]}, error=ValueError(secret))
        logging.getLogger("library").warning("it said %s", secret)
    finally:
        structlog.reset_defaults()
        root.handlers, root.level = handlers, level
    for line in capsys.readouterr().err.splitlines():
        assert HIDDEN in line
        assert not any(secret in str(value) for value in _values(json.loads(line)))


def _values(told: object) -> list[object]:
    if isinstance(told, dict):
        return [v for value in told.values() for v in _values(value)]
    return [v for value in told for v in _values(value)] if isinstance(told, list) else [told]
