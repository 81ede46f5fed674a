"""What is reported of an exception: one line, and the lines of the repository on its traceback."""

from __future__ import annotations

import os

from ..text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MESSAGE_LIMIT = 500
DETAILS_LIMIT = 6000
FRAMES_LIMIT = 40
CHAIN_LIMIT = 5


def message(error: BaseException) -> str:
    """ "AssertionError: assert 3 == 4". Survives whatever the exception's own code does."""
    name = type(error).__name__
    try:
        text = one_line(str(error), MESSAGE_LIMIT)
    except Exception:
        text = ""
    return clean(name + ": " + text if text else name, MESSAGE_LIMIT)


def chain(error: BaseException | None) -> list[BaseException]:
    """The exception and its causes, the first cause last."""
    found: list[BaseException] = []
    while error is not None and len(found) < CHAIN_LIMIT and all(error is not other for other in found):
        found.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def frames(error: BaseException, root: str) -> list[list[Any]]:
    """[path, line, function] of the lines inside `root`, outermost first; those of the first cause come last."""
    found: list[list[Any]] = []
    for link in chain(error):
        trace = link.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            path = relative_path(code.co_filename, root)
            if path:
                found.append([path, trace.tb_lineno or code.co_firstlineno, code.co_name])
            trace = trace.tb_next
        if isinstance(link, SyntaxError) and isinstance(link.filename, str) and isinstance(link.lineno, int):
            path = relative_path(link.filename, root)
            if path:
                found.append([path, link.lineno, ""])
    return found[-FRAMES_LIMIT:]


def relative_path(path: str, root: str) -> str | None:
    """`path` relative to `root` with slashes; None when it lies elsewhere or in installed packages."""
    path = os.path.normpath(os.path.join(root, path))
    if not path.startswith(root.rstrip(os.sep) + os.sep) or "site-packages" in path or path.endswith(">"):
        return None
    return os.path.relpath(path, root).replace(os.sep, "/")
