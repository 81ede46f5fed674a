"""Logs: one JSON object a line on stderr, with what looks like a secret taken out."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Collection, Mapping, MutableMapping
from typing import Any

import structlog

from app.redaction import HIDDEN, redact

_NAMES = re.compile(r"secret|password|private_key|api_key|authorization|(^|_)token$", re.IGNORECASE)


def configure(level: str, secrets: Collection[str] = ()) -> None:
    """Send structlog's and the standard library's messages to stderr as JSON lines.

    `level`: debug, info, warning, error. `secrets`: exact texts that are never logged.
    """

    def redacted(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return _redacted(event, secrets)

    threshold = logging.getLevelName(level.upper())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, redacted, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                redacted,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=threshold, handlers=[handler], force=True)
    # They speak of every request, statement and poll.
    for name in ("httpx", "httpcore", "aiosqlite", "alembic", "arq.worker", "uvicorn.access"):
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))


def _redacted(event: Mapping[str, Any], secrets: Collection[str]) -> dict[str, Any]:
    return {key: HIDDEN if _NAMES.search(key) else _clean(value, secrets) for key, value in event.items()}


def _clean(value: Any, secrets: Collection[str]) -> Any:
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, dict):
        return _redacted(value, secrets)
    if isinstance(value, list | tuple):
        return [_clean(item, secrets) for item in value]
    return value if isinstance(value, int | float | None) else redact(str(value), secrets)
