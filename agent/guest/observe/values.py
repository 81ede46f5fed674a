"""The values in a failing test's own code, where its traceback does not show them: in a helper that gets the inputs of each
case, and in a loop over cases. Only plain values, so that no code of the repository runs."""

from __future__ import annotations

import dis
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from ..wire.channel import chain, traced

MOST, LONGEST, ITEMS = 6, 240, 8  # values, characters of one, items of a container
LEAST = 5  # characters below which a part is only hinted at; each level gets a third of those around it
_LOOPS = frozenset({"FOR_ITER", "GET_ITER"})


def of_test(error: BaseException, root: str, is_test: Callable[[str], bool], shown: str) -> str:
    """Lines such as "text = '# A'" of the innermost frame in a test file, each after a line break, without what is `shown`.

    "" if the source of the frame shows all that is there.
    """
    try:
        frame = _innermost(error, root, is_test)
        if frame is None or (frame.f_code.co_name.startswith("test") and not _loops(frame.f_code)):
            return ""
        lines = list(itertools.islice(_lines(frame, shown), MOST))
        return "\n".join(["\nValues in %s:" % frame.f_code.co_name] + lines) if lines else ""
    except Exception:  # memory, or another thread that changes a container: it must not end the run
        return ""


def _lines(frame: FrameType, shown: str) -> Iterator[str]:
    """The names of a function's own. A class body or a module can have any mapping for its names."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return
    known = frame.f_locals
    for name in frame.f_code.co_varnames + frame.f_code.co_cellvars:
        text = _text(known[name], LONGEST) if name in known and name.isidentifier() else ""
        line = "%s = %s" % (name, text)
        if text and not re.search("(?m)(?:^|, )" + re.escape(line) + "(?:$|, )", shown):
            yield line


def _innermost(error: BaseException, root: str, is_test: Callable[[str], bool]) -> FrameType | None:
    """That of the exception itself comes before those of its causes."""
    for link in chain(error):
        frames = [trace.tb_frame for path, trace in traced(link, root) if is_test(path)]
        if frames:
            return frames[-1]
    return None


def _loops(code: CodeType) -> bool:
    return any(each.opname in _LOOPS for each in dis.get_instructions(code))


def _text(value: object, room: int) -> str:
    """At most about `room` characters; "" unless it is a plain value, or a container of such. It may contain itself."""
    if room < LEAST:
        return "…"
    kind: Any = type(value)  # a subclass has code of its own
    known: Any = value
    if kind in (str, bytes):
        return repr(known if len(known) <= room else known[:room]) + ("…" if len(known) > room else "")
    if kind in (int, float, bool, complex, type(None)):
        text = repr(known) if kind is not int or known.bit_length() < 4 * room else ""
        return text if 0 < len(text) <= room else "…"
    if kind in (list, tuple, set, frozenset):
        parts = [_text(each, room // 3) for each in itertools.islice(known, ITEMS)]
    elif kind is dict:
        pairs = [(_text(key, room // 3), _text(each, room // 3)) for key, each in itertools.islice(known.items(), ITEMS)]
        parts = ["%s: %s" % pair if all(pair) else "" for pair in pairs]
    else:
        return ""
    ends = "[]" if kind is list else "()" if kind is tuple else "{}"
    if not all(parts) or (not known and kind in (set, frozenset)):
        return ""
    text = ", ".join(parts + (["…"] if len(known) > ITEMS else [])) + ("," if kind is tuple and len(known) == 1 else "")
    return ends[0] + (text if len(text) <= room else text[:room] + "…") + ends[1]
