from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys

import pytest
import structlog
import uvicorn
from starlette.types import Receive, Scope, Send

from app.observability.log import configure
from app.redaction import HIDDEN
from app.service.http import Http
from tests.app.tokens import SECRETS
from tests.app.waiting import until


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


CRASHING = """
import asyncio, gc, logging, sys, threading, warnings
import structlog
from app import redaction
from app.observability import log
from app.settings import load

settings = load(database_url="postgresql+asyncpg://app:db-canary-1@db/x", redis_url="redis://:redis-canary%2F2@r/0",
                github_webhook_secret="hook-canary-3", model_api_key="model-canary-4")
log.configure("info", settings.secrets)
redaction.hide_token("minted-canary-5")
told = "db-canary-1 redis-canary/2 redis-canary%2F2 hook-canary-3 model-canary-4 minted-canary-5 other-canary-6x " \
       "collector-canary-7 proxy-canary-8"


class Odd:
    def __str__(self):
        raise RuntimeError(told)


class Unraisable:
    def __del__(self):
        raise RuntimeError(told)


async def forgotten():
    raise RuntimeError(told)


async def main():
    task = asyncio.create_task(forgotten())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task
    gc.collect()


with log.log_prints(), log.bind_ids(attempt="a1", delivery="d1"):
    logger = structlog.get_logger()
    logger.info(told, deep={"list": [{"inner": (told, {told})}], 7: told, told: 1, "api_key": "unlike-any"}, odd=Odd())
    logger.info("long", text="x" * 15_990 + told + "x" * 50_000_000)
    logging.getLogger("uvicorn.error").error("it said %s", told)
    logging.getLogger("library").error("%d", told)
    warnings.warn(told)
    print(told)
    print(told, file=sys.stderr)
    Unraisable()
    asyncio.run(main())
    thread = threading.Thread(target=lambda: [][len(told)] if not told else (_ for _ in ()).throw(ValueError(told)))
    thread.start()
    thread.join()
    try:
        raise OSError(told) from ValueError(told)
    except OSError:
        logger.exception("failed")
raise SystemError(told)
"""


def test_no_way_out_of_a_process_shows_a_secret() -> None:
    environment = {
        **os.environ,
        "ANTHROPIC_API_KEY": "other-canary-6x",
        "OTEL_EXPORTER_OTLP_HEADERS": "a=b,x-key=collector-canary-7",
        "HTTPS_PROXY": "http://me:proxy-canary-8@proxy:3128",
    }
    done = subprocess.run([sys.executable, "-c", CRASHING], env=environment, capture_output=True, timeout=120)
    assert done.returncode == 1
    assert done.stdout == b"", "prints are log lines too"
    assert b"canary" not in done.stderr, [line for line in done.stderr.splitlines() if b"canary" in line][:3]
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    loggers = {line.get("logger", "ours") for line in lines}
    assert {"ours", "uvicorn.error", "library", "py.warnings", "stdout", "stderr", "asyncio", "selfheal"} <= loggers
    assert [line["event"] for line in lines].count("uncaught exception") == 3  # a thread's, a finaliser's, the process's own
    assert lines[0]["deep"]["api_key"] == HIDDEN
    assert all(line["attempt"] == "a1" and line["delivery"] == "d1" for line in lines if line.get("logger") == "uvicorn.error")
    assert max(len(line) for line in done.stderr.splitlines()) < 50_000


async def test_strangers_fill_no_log_by_malformed_requests_and_what_breaks_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("uvicorn", "uvicorn.error"):  # the stand-ins of other tests let uvicorn configure them
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("it broke")

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        configure("info")
        config = uvicorn.Config(broken, http=Http, ws="none", lifespan="off", log_config=None, access_log=False, port=0)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        for sent in (b"no HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            assert (await asyncio.wait_for(reader.read(100), 10)).startswith(b"HTTP/1.1 ")
            writer.close()
        server.should_exit = True
        await asyncio.wait_for(serving, 20)
    finally:
        structlog.reset_defaults()
        root.handlers, root.level = handlers, level
    [told] = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (told["logger"], told["level"]) == ("uvicorn.error", "error")
    assert "it broke" in told["exception"]


def test_a_service_goes_on_when_nobody_reads_its_log() -> None:
    program = (
        "import logging, os, structlog\nfrom app.observability import log\nlog.configure('info')\n"
        "there, here = os.pipe()\nos.close(there)\nos.dup2(here, 2)\n"
        "structlog.get_logger().info('one')\nlogging.getLogger('a').warning('two')\nprint('goes on')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert done.stdout == "goes on\n"
