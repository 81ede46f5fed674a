"""What changed functions do beside the tests: their docstrings' examples, and calls that tests make, a little changed too.

Runs inside the sandbox, standard library only. stdin: one JSON request {reader, args, cwd, red, green, seconds, functions:
[[path, qualified name, first line]], documented: [[path, qualified name]], variants: [{path: text}]}; the first variant is the
unchanged code. stdout: one JSON line {functions, calls: [[function, text, passing, mild]], variants: [{examples: [[function,
source, outcome, got, withdrawn]], answers: [[kind, text, fits the hint, changes its arguments]]} or null]}, or {unavailable:
why}. The examples are those of the unchanged code; one is withdrawn where the variant's docstring does not hold it any more.

The tests run once, in the process that has collected them, to see the calls; each variant lives in a fork of that.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import sys
import time
import types
import typing

from . import examples, prelude, warm
from .batch import bound_memory
from .forks import Forked
from .inputs import Recorder, mild
from .limits import Limit
from .shapes import fits, shown

TESTS = 30  # that are run to see their calls
MILD = 60  # calls that are made up
CALL = 0.15  # CPU seconds of one call
TOLD = 300  # characters of a value or a call that people may see


def main():
    request = json.loads(sys.stdin.buffer.read().decode())
    answers, root = warm.silence()
    try:
        with prelude.played(request, root):
            warm.preload(request["reader"])
            fork = Forked(lambda write: _collected(request, root, write), close=(answers,))
            told = fork.word(time.monotonic() + request["seconds"])
            fork.end()
    except prelude.Failed as why:
        told = {"unavailable": str(why)}
    os.write(answers, (json.dumps(told or {"unavailable": "the calls could not be repeated in time"}) + "\n").encode())
    return 0


def _collected(request, root, write):
    until = time.monotonic() + request["seconds"] * 0.9
    bound_memory()
    try:
        ids = request["red"] + request["green"]
        warm.collect(request, root, ids, lambda tests: write(_challenged(request, root, tests, until)))
    except warm.Unavailable as why:
        write({"unavailable": str(why)})


def _challenged(request, root, tests, until):
    limit = Limit()
    places = [(path, name.rpartition(".")[2], line) for path, name, line in request["functions"]]
    recorder = Recorder(root, places)
    names = [name for name in (request["red"][: TESTS // 2] + request["green"])[:TESTS] if name in tests]
    begin, half = time.monotonic(), (until - time.monotonic()) * 0.4
    for name in names:
        if time.monotonic() - begin < half:
            limit.run(lambda: recorder.watch(tests[name]), 1.0, 2.0)  # noqa: B023 - used at once
            sys.setprofile(None)
    calls = recorder.calls + mild(recorder.calls, MILD)
    tested = {(places[index][:2], call) for index, call in recorder.known}
    told, each = [], (until - time.monotonic()) / max(1, len(request["variants"]))
    for texts in request["variants"]:
        work = lambda write: write(_variant(request, root, texts, calls, tested, each * 0.6))  # noqa: B023, E731 - used at once
        fork = Forked(work)
        told.append(fork.word(min(until, time.monotonic() + each)))
        fork.end()
    texts = [[c.function, _told(c), c.passing, c.mild] for c in calls]
    return {"functions": [name for _, name, _ in request["functions"]], "calls": texts, "variants": told}


def _told(call):
    try:
        parts = [repr(arg) for arg in call.args] + ["%s=%r" % pair for pair in call.kwargs.items()]
        return ("(" + ", ".join(parts) + ")")[:TOLD]
    except Exception:
        return "(...)"


def _variant(request, root, texts, calls, tested, seconds):
    until, limit = time.monotonic() + seconds, Limit()
    modules = {path: _with_text(root, path, text) for path, text in texts.items()}
    kept = []
    for path, name in request["documented"]:
        promised, said = [_promised(some.get(path), name) for some in (request["variants"][0], texts)]
        names, last = dict(modules[path].__dict__), name.rpartition(".")[2]
        for source, want in promised:
            told, got = examples.outcome(source, want, names, limit)
            function = _function(modules[path], name)
            if told != "kept" and any(((path, last), call) in tested for call in _made(source, last, function)):
                told = "overruled"
            kept.append([name, source.strip()[:TOLD], told, got, (source, want) not in said])
    functions = [_function(modules.get(path), name) for path, name, _ in request["functions"]]
    hints = [_hint(function) for function in functions]
    answers = []
    for call in calls:
        if time.monotonic() > until:
            break
        function = functions[call.function]
        answers.append(["gone", "", None, False] if function is None else _answer(function, hints[call.function], call, limit))
    return {"examples": kept, "answers": answers}


def _promised(text, name):
    """The examples in the docstring of a function, by its qualified name."""
    node = ast.parse(text or "")
    for part in name.split("."):
        node = next((one for one in getattr(node, "body", ()) if getattr(one, "name", None) == part), None)
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return examples.of((is_function and ast.get_docstring(node, clean=False)) or "", name.rpartition(".")[2])


def _made(source, name, function):
    """The calls with plain arguments that an example makes of this function, written as those of tests are."""
    made = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            try:
                args = [ast.literal_eval(arg) for arg in node.args]
                bound = inspect.signature(function).bind(*args, **{k.arg: ast.literal_eval(k.value) for k in node.keywords})
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
            bound.apply_defaults()
            made.append(shown([bound.args, bound.kwargs]))
    return made


def _with_text(root, path, text):
    """The module of a file, with this text. What others hold of it (functions, classes) gets the new code and stays itself."""
    real = os.path.realpath(os.path.join(root, path))
    for module in list(sys.modules.values()):
        if os.path.realpath(getattr(module, "__file__", None) or "") == real:
            before = dict(module.__dict__)
            code = compile(text, module.__file__, "exec", dont_inherit=True)
            exec(code, module.__dict__)
            _keep_identities(before, module.__dict__)
            return module
    raise warm.Unavailable(path)


def _keep_identities(before, after):
    for name, old in before.items():
        new = after.get(name)
        if new is old:
            continue
        if type(old) is type(new) is types.FunctionType:
            if _take_over(_plain(old), _plain(new)):
                after[name] = old
        elif isinstance(old, type) and isinstance(new, type) and old.__module__ == new.__module__ == after.get("__name__"):
            for attribute, member in list(new.__dict__.items()):
                is_function = isinstance(_plain(member), types.FunctionType)
                is_value = not attribute.startswith("__") and not hasattr(type(member), "__get__")
                if is_function and _take_over(_plain(old.__dict__.get(attribute)), _plain(member)):
                    continue
                if is_function or is_value:
                    setattr(old, attribute, member)
            after[name] = old


def _take_over(old, new):
    """Whether the old function could get the new one's code: what it holds of its surroundings would stay the old."""
    if not isinstance(old, types.FunctionType) or set(old.__code__.co_freevars + new.__code__.co_freevars) - {"__class__"}:
        return False
    if old.__code__.co_freevars != new.__code__.co_freevars:
        return False
    old.__code__, old.__doc__ = new.__code__, new.__doc__
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    return True


def _plain(member):
    """The function inside a static method, a class method, a property."""
    member = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
    return inspect.unwrap(member) if callable(member) else member


def _function(module, name):
    """The function of a qualified name as it was written, without what decorators put around it; None when it is not there."""
    found = module
    try:
        for part in name.split("."):
            found = inspect.getattr_static(found, part)
        found = _plain(found)
    except (AttributeError, ValueError):
        return None
    return found if isinstance(found, types.FunctionType) else None


def _hint(function):
    try:
        return typing.get_type_hints(function).get("return", object)
    except Exception:
        return object


def _answer(function, hint, call, limit):
    """What a call gives, asked twice."""
    first = _once(function, hint, call, limit)
    return first if first[0] == "hung" or _once(function, hint, call, limit)[:2] == first[:2] else ["unsteady", "", None, False]


def _once(function, hint, call, limit):
    args, kwargs = call.copied()

    def run():
        before = shown([args, kwargs])
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                value = function(*args, **kwargs)
                if inspect.iscoroutine(value):
                    value = asyncio.run(value)
            fitting = fits(value, hint)
            return ["value", shown(value), fitting, shown([args, kwargs]) != before]
        except Exception as error:
            return ["raised", type(error).__name__, None, False]

    return limit.run(run, CALL, 4 * CALL) or ["hung", "", None, False]
