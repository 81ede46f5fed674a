"""How much an evaluation may cost: the size of a text it makes, and its work in all. The limits of syntax are the parser's."""

from __future__ import annotations

from agent.ci.expressions.errors import ExpressionError

TEXT_LIMIT = 1 << 20  # characters of one text; GitHub's own limit is as many bytes of memory
_WORK_LIMIT = 4 << 20  # characters and members that are looked at
NESTING_LIMIT = 100  # of JSON


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
