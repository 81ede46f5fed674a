"""The error of an expression, and the limits on the cost of an evaluation. Limits of syntax are in the parser."""

from __future__ import annotations

_SHOWN = 60  # characters of the text, around the position
TEXT_LIMIT = 1 << 20  # characters of one text; GitHub's own limit is as many bytes of memory
_WORK_LIMIT = 4 << 20  # characters and members that are looked at
NESTING_LIMIT = 100  # of JSON


class ExpressionError(ValueError):
    """An expression that GitHub would refuse too, or that would cost too much here.

    `reason` is a clause; `position` counts characters of `text` from 1. `placed` adds a position that was unknown.
    """

    def __init__(self, reason: str, text: str = "", position: int = 0) -> None:
        self.reason, self.position = reason, position
        super().__init__(f"{reason}, at character {position} of {_around(text, position)}" if position else reason)

    def placed(self, text: str, position: int) -> ExpressionError:
        return self if self.position else ExpressionError(self.reason, text, position)


def quoted(text: str) -> str:
    """Hostile text, short and on one line."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def _around(text: str, position: int) -> str:
    start = max(0, min(position - 1 - _SHOWN // 2, len(text) - _SHOWN))
    shown = text[start : start + _SHOWN]
    return repr(("…" if start else "") + shown + ("…" if start + _SHOWN < len(text) else ""))


class Meter:
    """Counts the work of one evaluation, of one template, or of matching file names."""

    def __init__(self, limit: int = _WORK_LIMIT) -> None:
        self._left = limit

    def spend(self, work: int) -> None:
        """Raises `ExpressionError` once the evaluation has cost too much."""
        self._left -= work
        if self._left < 0:
            raise ExpressionError("the evaluation takes too much work")


def within(size: int) -> None:
    """Raises `ExpressionError` for a text of too many characters."""
    if size > TEXT_LIMIT:
        raise ExpressionError(f"the result is longer than {TEXT_LIMIT} characters")
