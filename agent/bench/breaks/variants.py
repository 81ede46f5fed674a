"""Compares a repair with the original on inputs that no test has: the tests run with other literals in them.

What the tests then assert does not matter; what the broken function gives in each call must be the same. Literals stay within
the kind and the characters of the tests' own ones, and sorted lists stay sorted.
"""

from __future__ import annotations

import ast
import json
import posixpath
import random
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from agent.bench.breaks.code import Code, ParsedModule, read
from agent.bench.breaks.heldout import function_of
from agent.bench.breaks.operators import Break
from agent.bench.differential import Agreement, is_sorted
from agent.bench.lab import Changes, Lab, text_of
from agent.contract.verdicts import VerdictId
from agent.source.archive import Files
from sandbox.base import DeadlinePassed

VARIANTS = 12  # of each test
TESTS = 20
PATIENCE = 120.0  # seconds for all tests of one side
CHANGED = 0.4  # share of a test's literals that change in one variant
_NAME = "test_variants_of_"


async def compare(lab: Lab, broken: Break, ids: Sequence[VerdictId], files: Files, repair: Changes) -> Agreement | None:
    """The lab has the original, `files`. Every function of the broken one's name in its file is watched.

    None if the tests have no literals to change, or their runs give no repeatable call. Raises `SandboxError`."""
    made = variants(files, ids)
    if not made:
        return None
    added = {path: text.encode() for path, text in made.items()}
    tests = sorted({"::".join(names) for _, names in map(function_of, ids)})
    name = broken.function.rpartition(".")[2]
    request = {"file": broken.path, "name": name, "files": sorted(made), "tests": tests}
    one, two = await _observed(lab, added, request), await _observed(lab, added, request)
    steady = {test: calls for test, calls in one.items() if calls and two.get(test) == calls}
    if not steady:
        return None
    given = await _observed(lab, {**repair, **added}, request)
    different = next((test for test, calls in sorted(steady.items()) if given.get(test) != calls), None)
    return Agreement(sum(map(len, steady.values())), different)


def variants(files: Files, ids: Sequence[VerdictId]) -> Mapping[str, str]:
    """New test files beside the old ones, by path: those of `ids` with other literals in the tests' functions."""
    functions: dict[str, list[tuple[str, ...]]] = {}
    for path, names in sorted({function_of(id_) for id_ in ids})[:TESTS]:
        functions.setdefault(path, []).append(names)
    made: dict[str, str] = {}
    for path, wanted in functions.items():
        text = text_of(files[path]) if path in files else None
        module = read(text) if text is not None else None
        for number in range(VARIANTS if module is not None else 0):
            assert module is not None
            changed = _variant(module, wanted, random.Random(number))  # noqa: S311 - reproducible, nothing secret
            if changed is not None:
                folder, name = posixpath.split(path)
                made[posixpath.join(folder, f"{_NAME}{number}_{name}")] = changed
    return made


def _variant(module: ParsedModule, wanted: Sequence[tuple[str, ...]], rng: random.Random) -> str | None:
    """The module with some other literals in these test functions; None if none changed."""
    edits: set[tuple[int, int, str]] = set()
    for code in module.functions():
        if tuple(code.name.split(".")) not in wanted:
            continue
        literals = list(_literals(code))
        values = [each.value for each in literals]
        other = {id(node): _other(node.value, values, rng) if rng.random() < CHANGED else node.value for node in literals}
        other |= _in_order(code, other)
        edits |= {(*code.span(node), repr(other[id(node)])) for node in literals if other[id(node)] != node.value}
    data = module.data
    for start, end, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[end:]
    text = data.decode()
    return text if edits and read(text) is not None else None


def _in_order(code: Code, other: Mapping[int, Any]) -> dict[int, Any]:
    """The new values of lists and tuples that were sorted, sorted again."""
    found: dict[int, Any] = {}
    for node in code.nodes:
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        constants = [item for item in items if isinstance(item, ast.Constant) and id(item) in other]
        if len(constants) == len(items) > 2 and is_sorted([item.value for item in constants]):
            found |= dict(zip(map(id, constants), sorted(other[id(item)] for item in constants), strict=True))
    return found


def _literals(code: Code) -> Iterator[ast.Constant]:
    """The texts and numbers in a test and its parameters, without the parameters' names and parts of f-strings."""
    nodes = list(code.nodes)
    for decorator in code.node.decorator_list:
        values = [*decorator.args[1:], *decorator.keywords] if isinstance(decorator, ast.Call) else []
        nodes += [node for value in values for node in ast.walk(value)]
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in parts and type(node.value) in (str, bytes, int, float):
            yield node


def _other(value: Any, known: Sequence[Any], rng: random.Random) -> Any:
    """Another value of the same type: one of the tests', or this one with a small change."""
    alike = [each for each in known if type(each) is type(value) and each != value]
    if alike and rng.random() < 0.3:
        return rng.choice(alike)
    if isinstance(value, int | float):
        return value + rng.choice((1, -1, 2)) if value else rng.choice((1, 2))
    items = list(value)
    step = rng.choice(("less", "twice", "moved"))
    if step == "less" and items:
        del items[rng.randrange(len(items))]
    elif step == "twice" and items:
        items.insert(rng.randrange(len(items)), rng.choice(items))
    else:
        rng.shuffle(items)
    return "".join(items) if isinstance(value, str) else bytes(items)


async def _observed(lab: Lab, changes: Changes, request: Mapping[str, Any]) -> dict[str, Any]:
    """The calls by test; none if the program did not finish or gave no valid answer."""
    source = resources.files("agent.bench.breaks").joinpath("observed.py").read_bytes()
    try:
        done = await lab.program(changes, source, json.dumps(request).encode(), PATIENCE)
        told = json.loads(done.stdout)
    except (DeadlinePassed, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
