from __future__ import annotations

import json
import logging

import pytest
import structlog

from app.log import REDACTED, configure, redact


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_" + "a1" * 18,
        "ghs_" + "a1" * 18,
        "github_pat_" + "a1" * 20,
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiI5OSJ9.c2lnbmF0dXJlX29mX2l0",
        "sk-" + "a1" * 16,
        "e2b_" + "a1" * 20,
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_taken_out(secret: str) -> None:
    assert redact(f"before {secret} after") == f"before {REDACTED} after"


def test_passwords_in_urls_and_bearers_are_taken_out() -> None:
    assert redact("redis://user:hunter2@host:6379/0") == f"redis://{REDACTED}@host:6379/0"
    assert redact("Authorization: Bearer abcdefghijkl") == f"Authorization: Bearer {REDACTED}"


@pytest.mark.parametrize("text", ["task_1 of sketch-book", "https://example.org/a:b", "a@b.example", "tests/test_a.py::test_b"])
def test_other_text_stays(text: str) -> None:
    assert redact(text) == text


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
    assert (first["event"], first["token"], first["note"], first["number"]) == ("hello", REDACTED, [REDACTED], 3)
    assert first["level"] == "info"
    assert second["event"] == f"it failed with {REDACTED}"
    assert f"RuntimeError: {REDACTED}" in second["exception"]
