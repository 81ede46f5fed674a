"""Tries changed functions beyond the tests: runs their docstrings' examples, calls that tests make, and variations of those.

stdin: one JSON request {reader, args, cwd, red, green, seconds, outside: those of the seconds that calls outside of the
test runner have, functions: [[path, qualified name, first line]], documented: [[path, qualified name]], variants: [{path:
text}]}; the first variant is the unchanged code. stdout: one JSON line {functions, calls: [[function, text, passing, is a
variation, callers]], near: [[function, text, how, index of the call that it is made from]], variants: [{examples:
[[function, source, outcome, got, withdrawn]], answers: [[kind, text, fits the hint, changes its arguments, equals other
values, refuses]], near: the same, for the first two variants} or null], elsewhere: [index of a call that only the first
change answers differently outside of the test runner], silent: "change" or "base", if it answers no call there}, or
{unavailable: why}. The examples are those of the unchanged code; one is withdrawn if the variant's docstring no longer
contains it.

The tests run once, in the process that has collected them, to record the calls; each variant runs in a fork of that process.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import time
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .prelude import answer_from_tests
from .trial import collection, elsewhere, examples
from .trial.answers import answer_of, function_in, plain
from .trial.forks import Fork, TimeLimit, bound_memory
from .trial.inputs import CallRecorder, RecordedCall, as_text, is_plain, variations
from .trial.near import near_calls

TESTS = 30  # tests that are run to record their calls
VARIATIONS = 60
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR  # they return to their caller in between
_GONE, _UNSTEADY = ([kind, "", None, False, False, False] for kind in ("gone", "unsteady"))
NEAR = 0.25  # seconds of CPU for the near calls of a variant
SHOWN = 300  # characters of a value or a call that people see


def main() -> int:
    return answer_from_tests(_challenge, "the recorded calls could not be repeated in time")


def _challenge(request: dict[str, Any], root: str, tests: dict[str, Any]) -> dict[str, Any]:
    bound_memory()
    until = request["until"] - request["outside"] - (request["seconds"] - request["outside"]) * 0.1
    limit = TimeLimit()
    functions = [(path, name.rpartition(".")[2], line) for path, name, line in request["functions"]]
    recorder = CallRecorder(root, functions)
    names = [name for name in (request["red"][: TESTS // 2] + request["green"])[:TESTS] if name in tests]
    started, half = time.monotonic(), (until - time.monotonic()) * 0.4
    for name in names:
        if time.monotonic() - started < half:
            limit.run(lambda: recorder.record(tests[name]), 1.0, 2.0)  # noqa: B023 - used at once
            sys.setprofile(None)
    calls = recorder.calls + variations(recorder.calls, VARIATIONS)
    for call in calls:
        call.args, call.kwargs = elsewhere.as_sent((call.args, call.kwargs))
    near = near_calls(recorder.calls)
    tested = {(functions[index][:2], call) for index, call in recorder.known}
    changes = list(enumerate(request["variants"]))
    versions = [*changes, *reversed(changes[:2])]  # the winner and then the base again, see `_steady`
    variants, each = [], (until - time.monotonic()) / max(1, len(versions))
    for at, texts in versions:
        again = [tests[name] for name in names if name in request["red"]] if at == 1 else []  # with the winner
        beside = [call for call, _, _ in near] if at < 2 else []  # with the base and the winner
        fork = Fork(lambda write: write(_variant(request, root, texts, calls, beside, tested, again, each * 0.6)))  # noqa: B023 - used at once
        variants.append(fork.receive(min(until, time.monotonic() + each)))
        fork.end()
    again_at_the_end = variants[len(changes) :]
    variants = _steady(variants[: len(changes)], again_at_the_end[::-1])
    shown = {
        "functions": [name for _, name, _ in request["functions"]],
        "calls": [[c.function, _call_text(c), c.passing, c.is_variation, sorted(c.callers)] for c in calls],
        "near": [[c.function, _call_text(c), how, of] for c, how, of in near],
    }
    outside = _elsewhere(request, root, calls, variants[:2])
    for variant in filter(None, variants):
        del variant["returned"]  # only compared here
    return {**shown, "variants": variants, **outside}


def _steady(variants: list[Any], again: list[Any]) -> list[Any]:
    """The variants without answers that the base or the winner, which ran `again` at the end, give otherwise by then: these
    depend on the clock. What depends on it with the winner does so with all other changes."""
    for then, now, same in zip(variants, again, (variants[:1], variants[1:])):  # noqa: B905 - there may be the base alone
        for kind in ("answers", "near") if then is not None and now is not None else ():
            changed = [at for at, (one, other) in enumerate(zip(then[kind], now[kind])) if one[:2] != other[:2]]  # noqa: B905
            for variant in filter(None, same):
                for at in changed:
                    variant[kind][at : at + 1] = [_UNSTEADY] if at < len(variant[kind]) else []
    return variants


def _elsewhere(request: dict[str, Any], root: str, calls: Sequence[RecordedCall], variants: Sequence[Any]) -> dict[str, Any]:
    """What calls answer outside of the test runner, with the base and the first change: {elsewhere, silent}."""
    if len(variants) < 2 or None in variants:
        return {}
    here = [variant["answers"] for variant in variants]
    chosen = [(at, elsewhere.packed((call.function, call.args, call.kwargs))) for at, call in enumerate(calls)]
    kept = [(at, text) for at, text in chosen if text is not None and all(at < len(each) for each in here)][: elsewhere.MOST]
    if not kept:
        return {}
    functions = [(path, name) for path, name, _ in request["functions"]]
    there = [
        elsewhere.answers(root, texts, functions, [text for _, text in kept], request["outside"] / 2)
        for texts in request["variants"][:2]
    ]
    there = [found or [None] * len(kept) for found in there]  # a process that failed, or came too late
    unlike: list[int] = []
    comparable, answered = 0, [0, 0]
    for (at, _), *found in zip(kept, *there):  # noqa: B905 - equally long, and Python 3.8 has no `strict`
        ours = [each[at][:2] for each in here]
        # What the test itself saw. Its objects may know more than the copies that are sent.
        is_seen = not calls[at].is_variation and is_plain((calls[at].args, calls[at].kwargs))
        if is_seen and variants[1]["returned"][at] is not None:
            ours[1] = ["value", variants[1]["returned"][at]]
        if not all(map(_is_decided, ours)):
            continue
        comparable += 1
        answered = [count + _is_decided(answer) for count, answer in zip(answered, found)]  # noqa: B905
        # A call that hangs only there may do so because the machine is busy.
        if (
            _is_decided(found[0])
            and found[0] == ours[0]
            and (found[1] is None or _is_decided(found[1]))
            and found[1] != ours[1]
        ):
            unlike.append(at)
    silent = "" if not comparable or all(answered) else "change" if answered[0] else "base"
    return {"elsewhere": [] if silent else unlike, "silent": silent}


def _is_decided(answer: Any) -> bool:
    return answer is not None and answer[0] in ("value", "raised")


def _call_text(call: RecordedCall) -> str:
    try:
        parts = [repr(arg) for arg in call.args] + ["%s=%r" % pair for pair in call.kwargs.items()]
        return ("(" + ", ".join(parts) + ")")[:SHOWN]
    except Exception:  # any `__repr__` of the repository
        return "(...)"


def _variant(
    request: dict[str, Any],
    root: str,
    texts: dict[str, str],
    calls: Sequence[RecordedCall],
    near: Sequence[RecordedCall],
    tested: set[tuple[Any, str]],
    again: Sequence[Callable[[], Any]],
    seconds: float,
) -> dict[str, Any]:
    until, limit = time.monotonic() + seconds, TimeLimit()
    modules = {path: _with_text(root, path, text) for path, text in texts.items()}
    functions = [function_in(modules.get(path), name) for path, name, _ in request["functions"]]
    returned, made = _returned(root, functions, texts, again, limit, time.monotonic() + seconds / 2)
    # At the base, a failing test often ends before it makes the call that contradicts an example.
    tested = tested | {
        ((path, name.rpartition(".")[2]), call) for at, call in made for path, name, _ in [request["functions"][at]]
    }
    tried = []
    for path, name in request["documented"]:
        documented, remaining = [_examples(some.get(path), name) for some in (request["variants"][0], texts)]
        names, last = dict(modules[path].__dict__), name.rpartition(".")[2]
        for source, want in documented:
            outcome, got = examples.outcome(source, want, names, limit)
            function = function_in(modules[path], name)
            if outcome != "kept" and any(((path, last), call) in tested for call in _calls_in(source, last, function)):
                outcome = "overruled"
            tried.append([name, source.strip()[:SHOWN], outcome, got, (source, want) not in remaining])
    hinted = [(function, _hint(function)) for function in functions]
    return {
        "examples": tried,
        "answers": _answers(hinted, calls, limit, until),
        "near": _answers(hinted, near, limit, until, NEAR),
        "returned": [returned.get(_key(call)) for call in calls],
    }


def _answers(
    hinted: Sequence[Any], calls: Sequence[RecordedCall], limit: TimeLimit, until: float, most: float = float("inf")
) -> list[Any]:
    """The answers of functions, each with its hint, until the time is up; `most` bounds the seconds of CPU."""
    used = time.process_time()
    answers: list[Any] = []
    for call in calls:
        if time.monotonic() > until or time.process_time() - used > most:
            break
        function, hint = hinted[call.function]
        answers.append(_GONE if function is None else answer_of(function, call.args, call.kwargs, limit, hint))
    return answers


def _key(call: RecordedCall) -> tuple[int, str]:
    return call.function, as_text([call.args, call.kwargs])


def _returned(
    root: str,
    functions: Sequence[Any],
    changed: Iterable[str],
    tests: Sequence[Callable[[], Any]],
    limit: TimeLimit,
    until: float,
) -> tuple[dict[tuple[int, str], str], set[tuple[int, str]]]:
    """What calls return while the tests run, and the calls of passing tests that the changed files do not make themselves."""
    recorder = CallRecorder(root, ())
    codes = {function.__code__: at for at, function in enumerate(functions) if function is not None}
    recorder.codes = {code: at for code, at in codes.items() if not code.co_flags & _RESUMED}
    recorder.returned, recorder.changed = {}, frozenset(changed)
    made: set[tuple[int, str]] = set()
    for test in tests:
        if time.monotonic() < until:
            recorder.outer = set()
            passed = limit.run(lambda: recorder.record(test), 1.0, 2.0)  # noqa: B023 - used at once
            sys.setprofile(None)
            made |= recorder.outer if passed is True else set()
    return recorder.returned, made


def _examples(text: str | None, name: str) -> list[Any]:
    """The examples in the docstring of a function, by its qualified name."""
    node: Any = ast.parse(text or "")
    for part in name.split("."):
        node = next((one for one in getattr(node, "body", ()) if getattr(one, "name", None) == part), None)
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return examples.parse((is_function and ast.get_docstring(node, clean=False)) or "", name.rpartition(".")[2])


def _calls_in(source: str, name: str, function: Any) -> list[str]:
    """The calls of this function in an example, if the arguments are plain, in the same notation as the calls of tests."""
    made: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            try:
                args = [ast.literal_eval(arg) for arg in node.args]
                kwargs: Any = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
                bound = inspect.signature(function).bind(*args, **kwargs)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
            bound.apply_defaults()
            made.append(as_text([bound.args, bound.kwargs]))
    return made


def _with_text(root: str, path: str, text: str) -> types.ModuleType:
    """The module of a file, with this text. Existing functions and classes keep their identity and get the new code."""
    real = os.path.realpath(os.path.join(root, path))
    for module in list(sys.modules.values()):
        if os.path.realpath(getattr(module, "__file__", None) or "") == real:
            before = dict(module.__dict__)
            code = compile(text, str(module.__file__), "exec", dont_inherit=True)
            exec(code, module.__dict__)
            _keep_identities(before, module.__dict__)
            return module
    raise collection.NotCollected(path)


def _keep_identities(before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, old in before.items():
        new = after.get(name)
        if new is old:
            continue
        if type(old) is type(new) is types.FunctionType:
            if _take_over(plain(old), plain(new)):
                after[name] = old
        elif isinstance(old, type) and isinstance(new, type) and old.__module__ == new.__module__ == after.get("__name__"):
            for attribute, member in list(new.__dict__.items()):
                is_function = isinstance(plain(member), types.FunctionType)
                is_value = not attribute.startswith("__") and not hasattr(type(member), "__get__")
                if is_function and _take_over(plain(old.__dict__.get(attribute)), plain(member)):
                    continue
                if is_function or is_value:
                    setattr(old, attribute, member)
            after[name] = old


def _take_over(old: Any, new: types.FunctionType) -> bool:
    """Give the old function the new code; False if it would keep its old closure."""
    free = new.__code__.co_freevars
    if not isinstance(old, types.FunctionType) or old.__code__.co_freevars != free or set(free) - {"__class__"}:
        return False
    old.__code__, old.__doc__ = new.__code__, new.__doc__
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    return True


def _hint(function: types.FunctionType | None) -> Any:
    try:
        return typing.get_type_hints(function).get("return", object)  # None as the function raises too
    except Exception:  # annotations are evaluated, and may be any code
        return object
