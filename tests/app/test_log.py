from __future__ import annotations

import json
import logging

import pytest
import structlog

from app.log import configure
from app.redaction import HIDDEN


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
