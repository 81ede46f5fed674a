"""How an expression is refused: one sentence that names the place."""

from __future__ import annotations

_SHOWN = 60  # characters of the text, around the place


class ExpressionError(ValueError):
    """An expression that GitHub would refuse too, or that would cost too much here.

    `reason` is a clause; `position` counts characters of `text` from 1. Who finds the error may not know the place: `placed`
    adds it.
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
