"""Calls functions and describes their answers."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dis
import inspect
import io
import os
import reprlib
import types
from typing import Any

from .forks import TimeLimit
from .inputs import as_text, equals_others, fits, is_plain

_RAISE = dis.opmap["RAISE_VARARGS"]
_LIBRARY = os.path.dirname(os.__file__)
CALL = 0.15  # CPU seconds of one call
_WRITER = reprlib.Repr()
_WRITER.maxstring = _WRITER.maxlong = 60
_WRITER.maxlist = _WRITER.maxtuple = _WRITER.maxset = _WRITER.maxfrozenset = _WRITER.maxdict = 8


def function_in(module: types.ModuleType | None, name: str) -> types.FunctionType | None:
    """The function with this qualified name, without its decorators; None if there is none."""
    found: Any = module
    try:
        for part in name.split("."):
            found = inspect.getattr_static(found, part)
        found = plain(found)
    except (AttributeError, ValueError):
        return None
    return found if isinstance(found, types.FunctionType) else None


def plain(member: Any) -> Any:
    """The function inside a static method, a class method or a property."""
    member = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
    return inspect.unwrap(member) if callable(member) else member


def answer_of(function: Any, args: Any, kwargs: Any, limit: TimeLimit, hint: Any = object) -> list[Any]:
    """The answer to a call, made twice: [kind, text, fits the hint, changes its arguments, equals other values, refuses, as
    Python writes it, or "" for what is no plain value].

    It refuses if it returns False, or raises by a `raise` or an `assert` outside of libraries, not if what it does fails.
    """
    first = _once(function, args, kwargs, limit, hint)
    if first[0] == "hung" or _once(function, args, kwargs, limit, hint)[:2] == first[:2]:
        return first
    return ["unsteady", "", None, False, False, False]


def _once(function: Any, args: Any, kwargs: Any, limit: TimeLimit, hint: Any) -> list[Any]:
    args, kwargs = copy.deepcopy((args, kwargs))

    def run() -> list[Any]:
        before = as_text([args, kwargs])
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                value = function(*args, **kwargs)
                if inspect.iscoroutine(value):
                    value = asyncio.run(value)
            fitting = fits(value, hint)
            is_changed = as_text([args, kwargs]) != before
            return ["value", as_text(value), fitting, is_changed, equals_others(value), value is False, _shown(value)]
        except (Exception, SystemExit) as error:  # code under test; `limit` would count SystemExit as hung
            return ["raised", type(error).__name__, None, False, False, _is_by_raise(error)]

    return limit.run(run, CALL, 4 * CALL) or ["hung", "", None, False, False, False]


def _shown(value: Any) -> str:
    """The value as Python writes it, shortened; "" if it is no plain one, or too large a number."""
    try:
        return _WRITER.repr(value) if is_plain(value) else ""
    except ValueError:
        return ""


def _is_by_raise(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_code[trace.tb_lasti] != _RAISE:
        return False
    path = trace.tb_frame.f_code.co_filename
    return "site-packages" not in path and not path.startswith((_LIBRARY, "<frozen"))
