"""HumanEval (M. Chen et al., 2021): 164 functions to complete, one per line of JSON, plain or gzipped."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import msgspec

from agent.bench import data_file
from agent.bench.data_file import FunctionLine, T
from agent.bench.lab import BadInput, NotPosed
from agent.solving.code import BODY
from agent.solving.draft import Draft
from agent.solving.home import MODULE, BadSpecification
from agent.solving.specification import Specification, specify
from agent.solving.tasks import OracleKind, SolveBenchmark, SolveTask
from agent.source import syntax

HUB = "hf:"


class _Line(FunctionLine):
    canonical_solution: str = ""


def load(file: Path, oracle: OracleKind) -> SolveBenchmark:
    """Raises `BadInput`."""
    lines = {line.task_id: line for line in read_lines(file, _Line, "HumanEval")}
    return SolveBenchmark("humaneval", dict.fromkeys(lines, "all"), {"oracle": oracle}, lambda id_: _task(lines[id_]), oracle)


def read_lines(file: Path, kind: type[T], name: str) -> list[T]:
    """The lines of a JSON Lines file, gzipped or not, or of a data set `hf:NAME`. Raises `BadInput`, which names the line."""
    if str(file).startswith(HUB):
        return _from_hub(str(file).removeprefix(HUB), kind)
    return data_file.read_lines(file, kind, name)


def _from_hub(name: str, kind: type[T]) -> list[T]:
    """The test split of a data set on Hugging Face's hub, or in a folder. Raises `BadInput`."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        why = "install the extra `datasets` (.venv/bin/pip install -e '.[datasets]'), or give the JSON Lines file"
        raise BadInput(f"{HUB}{name} needs the library datasets: {why}") from error
    try:
        rows = list(load_dataset(name, split="test"))
    except Exception as error:  # it raises what its HTTP client and its readers raise
        line = str(error).strip().split("\n")[0][:300]
        raise BadInput(
            f"the data set {name} cannot be loaded: {type(error).__name__}: {line}; give its JSON Lines file"
        ) from error
    found = {}
    for number, row in enumerate(rows):
        try:
            found[number] = msgspec.convert(row, type=kind)
        except msgspec.ValidationError as error:
            raise BadInput(f"the data set {name}, row {number}: {error}; name the data set of this benchmark") from error
    data_file.check_ids(found, f"the data set {name}, row")
    return list(found.values())


def _task(line: _Line) -> SolveTask:
    """Raises `NotPosed`."""
    stub = f"{line.prompt.rstrip()}\n    {BODY}\n"
    try:
        functions = [node for node in syntax.tree(stub).body if isinstance(node, ast.FunctionDef)]
        said = next((ast.get_docstring(node) or "" for node in functions if node.name == line.entry_point), "")
        spec = replace(specify(said or line.prompt, name=line.entry_point), text=line.prompt)
    except SyntaxError as error:
        raise NotPosed(f"its prompt is not Python: {error.msg}") from error
    except BadSpecification:
        spec = Specification(line.prompt, line.entry_point)  # its own examples contradict each other
    path = f"{MODULE}.py"
    head = f"from {MODULE} import *\nfrom {MODULE} import {line.entry_point}"
    reference = f"{head}\n\n{line.test}\n\n\ndef test_reference():\n    check({line.entry_point})\n"
    return SolveTask(line.task_id, spec, Draft({path: stub}, path, line.entry_point), reference, reference)
