"""Logs: one JSON object a line on stderr, with what looks like a secret taken out."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_SECRETS = re.compile(
    r"""
    gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | v1\.[0-9a-f]{40}            # GitHub's tokens
    | eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}                                          # JSON web tokens
    | \bsk-[\w-]{16,} | \be2b_[0-9a-f]{20,} | \bAKIA[0-9A-Z]{16}\b | \bxox[abprs]-[\w-]{10,} | \bAIza[\w-]{30,}
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    | (?<=://)[^/\s:@]*:[^/\s@]+(?=@)                                             # a password in a URL
    | (?i:(?<=bearer[ ])|(?<=authorization:[ ]token[ ]))[\w.~+/=-]{8,}
    """,
    re.VERBOSE | re.DOTALL,
)
_NAMES = re.compile(r"secret|password|private_key|api_key|authorization|(^|_)token$", re.IGNORECASE)
REDACTED = "[redacted]"


def redact(text: str) -> str:
    """The text without what looks like a token, key or password."""
    return _SECRETS.sub(REDACTED, text)


def configure(level: str) -> None:
    """Send structlog's and the standard library's messages to stderr as JSON lines. `level`: debug, info, warning, error."""
    threshold = logging.getLevelName(level.upper())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, _redacted, structlog.processors.JSONRenderer()],
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
                _redacted,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=threshold, handlers=[handler], force=True)
    # They speak of every request, statement and poll.
    for name in ("httpx", "httpcore", "aiosqlite", "alembic", "arq.worker", "uvicorn.access"):
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))


def _redacted(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: REDACTED if _NAMES.search(key) else _clean(value) for key, value in event.items()}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return _redacted(None, "", value)
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value if isinstance(value, int | float | None) else redact(str(value))
