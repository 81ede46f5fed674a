"""Logs: one JSON object per line on stderr, with secrets redacted.

This covers all output of a process: our messages, those of libraries, warnings, prints and uncaught exceptions. Lines that
belong to an attempt or a delivery carry its id (`bind_ids`).
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import structlog

from app.redaction import HIDDEN, is_secret_name, redact

LONGEST = 16_000  # characters of one value
_MARGIN = 8_000  # redacted beyond the cut, so that a secret across it is recognised; longer than any secret
_MAX_DEPTH = 6
_MAX_ITEMS = 200  # of one value


def configure(level: str, secrets: Collection[str] = ()) -> None:
    """Send structlog's and the standard library's messages and uncaught exceptions to stderr as JSON lines.

    `level`: debug, info, warning, error. `secrets`: exact texts that are never logged.
    """
    exact = tuple(secrets)

    def redacted(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return _redacted(event, exact, 0)

    threshold = logging.getLevelName(level.upper())
    final: list[structlog.typing.Processor] = [
        structlog.processors.format_exc_info,
        redacted,
        structlog.processors.add_log_level,  # after redaction, as level and time contain no secrets
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        # Redacted values are plain. structlog's own call passes a fallback, for which `json` makes an encoder each time.
        structlog.processors.JSONRenderer(lambda event, **_: json.dumps(event)),
    ]
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *final],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(_Stderr()),  # type: ignore[arg-type]  # it only writes and flushes
        cache_logger_on_first_use=False,
    )
    handler = _Handler(_Stderr())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.contextvars.merge_contextvars, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    logging.basicConfig(level=threshold, handlers=[handler], force=True)
    logging.captureWarnings(True)
    # These libraries log every request, statement and poll.
    for name in ("httpx", "httpcore", "aiosqlite", "alembic", "arq.worker", "uvicorn.access"):
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))
    # uvicorn warns of every malformed request, so strangers could flood the log. It logs failures of our app as errors.
    logging.getLogger("uvicorn.error").setLevel(max(threshold, logging.ERROR))
    sys.excepthook = _uncaught
    sys.unraisablehook = lambda what: _uncaught(what.exc_type, what.exc_value, what.exc_traceback)
    threading.excepthook = lambda what: _uncaught(what.exc_type, what.exc_value, what.exc_traceback)


def bind_ids(*, attempt: str | None = None, delivery: str | None = None) -> AbstractContextManager[object]:
    """Add these ids to every log line of the block, including lines from libraries and from tasks started in the block."""
    ids = {"attempt": attempt, "delivery": delivery}
    return structlog.contextvars.bound_contextvars(**{name: value for name, value in ids.items() if value})


@contextlib.contextmanager
def log_prints() -> Iterator[None]:
    """Turn prints in the block into log lines: a library's prints and tracebacks may contain secrets."""
    with contextlib.redirect_stdout(_Lines("stdout")), contextlib.redirect_stderr(_Lines("stderr")):
        yield


class _Stderr(io.TextIOBase):
    """stderr as it was at the start. A service goes on when whoever read its log is gone."""

    def __init__(self) -> None:
        self._stream = sys.stderr

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class _Handler(logging.StreamHandler[Any]):
    """If a message cannot be formatted, logs only its logger's name: the standard library would print the arguments."""

    def handleError(self, record: logging.LogRecord) -> None:
        line = {"event": "a message could not be logged", "logger": record.name, "level": "error", "at": record.lineno}
        self.stream.write(json.dumps(line) + "\n")


class _Lines(io.TextIOBase):
    """A text stream whose lines are logged."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self._partial = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._partial = (self._partial + text).split("\n")
        if len(self._partial) > LONGEST:
            lines, self._partial = [*lines, self._partial], ""
        for line in lines:
            if line.strip():
                self._logger.warning("%s", line)
        return len(text)


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("selfheal").critical("uncaught exception", exc_info=(kind, error or kind(), trace))


def _redacted(event: Mapping[Any, Any], secrets: tuple[str, ...], depth: int) -> dict[str, Any]:
    named = [(_text(key, secrets), value) for key, value in list(event.items())[:_MAX_ITEMS]]
    return {name: HIDDEN if is_secret_name(name) else _clean(value, secrets, depth + 1) for name, value in named}


def _clean(value: Any, secrets: tuple[str, ...], depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return _redacted(value, secrets, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return [_clean(item, secrets, depth + 1) for item in list(value)[:_MAX_ITEMS]]
    return _text(value, secrets)


def _text(value: object, secrets: tuple[str, ...]) -> str:
    try:
        text = value if isinstance(value, str) else str(value)
    except Exception as error:  # noqa: BLE001 - any object's `__str__`; logging must not fail because of it
        return f"<{type(value).__name__}: {type(error).__name__}>"
    if len(text) <= LONGEST:
        return redact(text, secrets)
    return f"{redact(text[: LONGEST + _MARGIN], secrets)[:LONGEST]}… ({len(text):,} characters)"
