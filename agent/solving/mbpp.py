"""MBPP (J. Austin et al., 2021): tasks in a sentence, as JSON Lines. The agent sees the first test, the judge all of them."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec

from agent.bench.lab import NotPosed
from agent.solving.draft import without_model
from agent.solving.home import MODULE, BadSpecification
from agent.solving.humaneval import read_lines
from agent.solving.specification import specify
from agent.solving.tasks import OracleKind, SolveBenchmark, SolveTask
from agent.source import syntax


class _Line(msgspec.Struct):
    task_id: int | str
    code: str
    test_list: list[str]
    text: str = ""  # called `prompt` in the sanitized version
    prompt: str = ""
    test_setup_code: str = ""
    test_imports: list[str] = []
    challenge_test_list: list[str] = []


def load(file: Path, oracle: OracleKind) -> SolveBenchmark:
    """Raises `BadInput`."""
    lines = {f"MBPP/{line.task_id}": line for line in read_lines(file, _Line, "MBPP")}
    return SolveBenchmark("mbpp", dict.fromkeys(lines, "all"), {"oracle": oracle}, lambda id_: _task(id_, lines[id_]), oracle)


def _task(id_: str, line: _Line) -> SolveTask:
    """Raises `NotPosed`."""
    try:
        defined = [node for node in syntax.tree(line.code).body if isinstance(node, ast.FunctionDef)]
        called = {
            node.func.id
            for test in line.test_list
            for node in ast.walk(syntax.tree(test))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
    except (SyntaxError, ValueError) as error:
        raise NotPosed(f"its code or tests are not Python: {error}") from error
    wanted = [node for node in defined if node.name in called]
    if not wanted or not line.test_list:
        raise NotPosed("its tests call none of its functions")
    try:
        spec = specify(line.text or line.prompt, signature=f"{wanted[-1].name}({ast.unparse(wanted[-1].args)})")
    except BadSpecification as error:
        raise NotPosed(str(error)) from error
    setup = "\n".join([*line.test_imports, line.test_setup_code])
    shown, every = (
        _tests(each, spec.name, setup) for each in (line.test_list[:1], [*line.test_list, *line.challenge_test_list])
    )
    return SolveTask(id_, spec, without_model(spec), shown, every)


def _tests(assertions: list[str], name: str, setup: str) -> str:
    tests = "\n\n".join(f"def test_{at}():\n    {each.strip()}" for at, each in enumerate(assertions, 1))
    return f"from {MODULE} import {name}\n{setup}\n\n{tests}\n"
