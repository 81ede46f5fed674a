"""Logs: one JSON object a line on stderr, with what looks like a secret taken out.

Everything that a process says comes this way: our own messages, those of libraries, warnings, what libraries print, and
exceptions that nobody caught. What belongs to an attempt or a delivery carries their ids (`bound`).
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
_MARGIN = 8_000  # a secret that the cut goes through must still be recognised: more than the longest of them
_DEEPEST = 6
_MOST = 200  # items of one value


def configure(level: str, secrets: Collection[str] = ()) -> None:
    """Send structlog's and the standard library's messages to stderr as JSON lines, and what nobody caught too.

    `level`: debug, info, warning, error. `secrets`: exact texts that are never logged.
    """
    exact = tuple(secrets)

    def redacted(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return _redacted(event, exact, 0)

    threshold = logging.getLevelName(level.upper())
    last: list[structlog.typing.Processor] = [
        structlog.processors.format_exc_info,
        redacted,
        structlog.processors.add_log_level,  # ours, as the time: no secret is in them
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        # What was redacted is plain. Told a fallback for what is not, as structlog does, `json` makes a new encoder each time.
        structlog.processors.JSONRenderer(lambda event, **_: json.dumps(event)),
    ]
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *last],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = _Handler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.contextvars.merge_contextvars, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(level=threshold, handlers=[handler], force=True)
    logging.captureWarnings(True)
    # They speak of every request, statement and poll.
    for name in ("httpx", "httpcore", "aiosqlite", "alembic", "arq.worker", "uvicorn.access"):
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))
    # It warns of every malformed request: strangers could fill the log. What breaks in our app is an error there.
    logging.getLogger("uvicorn.error").setLevel(max(threshold, logging.ERROR))
    sys.excepthook = _uncaught
    sys.unraisablehook = lambda what: _uncaught(what.exc_type, what.exc_value, what.exc_traceback)
    threading.excepthook = lambda what: _uncaught(what.exc_type, what.exc_value, what.exc_traceback)


def bound(*, attempt: str | None = None, delivery: str | None = None) -> AbstractContextManager[object]:
    """Every line of the block carries these ids, also those of libraries and of tasks that begin in it."""
    ids = {"attempt": attempt, "delivery": delivery}
    return structlog.contextvars.bound_contextvars(**{name: value for name, value in ids.items() if value})


@contextlib.contextmanager
def prints_logged() -> Iterator[None]:
    """What is printed in the block becomes log lines: a library's print, or a traceback that it writes, may hold secrets."""
    with contextlib.redirect_stdout(_Lines("stdout")), contextlib.redirect_stderr(_Lines("stderr")):
        yield


class _Handler(logging.StreamHandler[Any]):
    """Says only whose message could not be formatted: the standard library would print its arguments as they are."""

    def handleError(self, record: logging.LogRecord) -> None:
        told = {"event": "a message could not be logged", "logger": record.name, "level": "error", "at": record.lineno}
        with contextlib.suppress(OSError, ValueError):  # nobody is left to hear of it
            self.stream.write(json.dumps(told) + "\n")


class _Lines(io.TextIOBase):
    """A text stream whose lines are logged."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self._begun = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        if len(self._begun) > LONGEST:
            lines, self._begun = [*lines, self._begun], ""
        for line in lines:
            if line.strip():
                self._logger.warning("%s", line)
        return len(text)


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("selfheal").critical("not caught", exc_info=(kind, error or kind(), trace))


def _redacted(event: Mapping[Any, Any], secrets: tuple[str, ...], depth: int) -> dict[str, Any]:
    named = [(_text(key, secrets), value) for key, value in list(event.items())[:_MOST]]
    return {name: HIDDEN if is_secret_name(name) else _clean(value, secrets, depth + 1) for name, value in named}


def _clean(value: Any, secrets: tuple[str, ...], depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return _redacted(value, secrets, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return [_clean(item, secrets, depth + 1) for item in list(value)[:_MOST]]
    return _text(value, secrets)


def _text(value: object, secrets: tuple[str, ...]) -> str:
    try:
        text = value if isinstance(value, str) else str(value)
    except Exception as error:  # noqa: BLE001 - a message must not fail because of what it speaks of
        return f"<{type(value).__name__}: {type(error).__name__}>"
    if len(text) <= LONGEST:
        return redact(text, secrets)
    return f"{redact(text[: LONGEST + _MARGIN], secrets)[:LONGEST]}… ({len(text):,} characters)"
