"""Reads the code in a model's answers, and checks that it is what was asked for. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from agent.edits.answers import clean_path
from agent.edits.changes import EditProblem

LONGEST = 200_000  # characters of an answer that are read
MOST_FILES = 12
Function = ast.FunctionDef | ast.AsyncFunctionDef
Files = Mapping[str, str]
"""Texts by path."""

_BLOCK = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[ \t]*(?P<kind>[\w+-]*)[^\n]*\n(?P<code>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL
)
_PATH = re.compile(r"[\s#*`]*(?:File:?\s*)?`?(?P<path>[\w./-]{1,200}\.py)`?[\s*`:]*$", re.IGNORECASE)
_PYTHON = ("", "py", "python", "python3")


def files_in(answer: str, only: str) -> dict[str, str] | EditProblem:
    """The Python files in an answer: each is a code block, with its path in the line above or in its first line.

    A single block without a path is the file `only`. An answer that is nothing but Python counts as one block.
    """
    answer = (answer.rpartition("</think>")[2] or answer)[:LONGEST].replace("\r\n", "\n")
    found: dict[str, str] = {}
    unnamed: list[str] = []
    for block in _BLOCK.finditer(answer):
        if block["kind"].lower() not in _PYTHON:
            continue
        code = block["code"]
        above = answer[: block.start()].rstrip("\n").rpartition("\n")[2]
        first, _, rest = code.partition("\n")
        if (named := _PATH.match(above)) is None and first.startswith("#") and (named := _PATH.match(first)) is not None:
            code = rest
        if named is None:
            unnamed.append(code)
            continue
        path = clean_path(named["path"])
        if path is None:
            return EditProblem(f"{named['path']} is not a path inside the project.")
        found[path] = code
    if not found and not unnamed:
        if (text := answer.strip()) and _tree(text) is not None and _defined(text):
            return {only: f"{text}\n"}
        return EditProblem("Your answer has no block of Python code.")
    if not found:
        return {only: _joined(unnamed)}
    if len(found) > MOST_FILES:
        return EditProblem(f"Your answer has {len(found)} files; write at most {MOST_FILES}.")
    return found


def _joined(blocks: Sequence[str]) -> str:
    """The blocks as one file; of those that define the same name, the last one counts."""
    parsed = [block for block in blocks if _tree(block) is not None and _defined(block)]
    kept = [
        block for at, block in enumerate(parsed) if not any(_defined(block) & _defined(later) for later in parsed[at + 1 :])
    ]
    return "\n\n".join(block.strip("\n") for block in kept or blocks[:1]) + "\n"


def problem_in(files: Files, path: str, name: str, signature: str) -> EditProblem | None:
    """Why these files are not what was asked for: they must parse, and `path` must define the function with its parameters."""
    for each, text in files.items():
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            why = error.msg if isinstance(error, SyntaxError) else type(error).__name__
            return EditProblem(f"The code of {each} does not parse{at}: {why}.")
    if path not in files:
        return EditProblem(f"Your answer has no file {path}.")
    if not name:
        return None
    nodes = [node for node in ast.parse(files[path]).body if isinstance(node, Function) and node.name == name]
    if not nodes:
        others = [node.name for node in ast.parse(files[path]).body if isinstance(node, Function)]
        what = f"it defines {', '.join(f'`{other}`' for other in others[:3])}" if others else "it defines no function"
        return EditProblem(f"The code must define a function `{name}` at the top level; {what}.")
    if len(nodes) > 1:
        return EditProblem(f"The code defines `{name}` {len(nodes)} times; define it once.")
    wanted = parameters(signature)
    if wanted is not None and (given := _parameters(nodes[0])) != wanted:
        return EditProblem(f"`{name}` must keep its parameters ({', '.join(wanted)}), not ({', '.join(given)}).")
    return None


def parameters(signature: str) -> tuple[str, ...] | None:
    """The names of a signature's parameters: "text", "*rest", "limit". None for no signature."""
    if not signature:
        return None
    node = ast.parse(f"{signature}: ...").body[0]
    return _parameters(node) if isinstance(node, Function) else None


def _parameters(node: Function) -> tuple[str, ...]:
    given = node.args
    rest = [f"*{given.vararg.arg}"] if given.vararg else []
    named = [f"**{given.kwarg.arg}"] if given.kwarg else []
    return (*(each.arg for each in [*given.posonlyargs, *given.args]), *rest, *(each.arg for each in given.kwonlyargs), *named)


def completed(text: str, stub: str) -> str:
    """The code with the imports and docstrings of its stub that it lacks, as models like to leave them out."""
    tree, known = _tree(text), _tree(stub)
    if tree is None or known is None:
        return text
    lines = text.split("\n")
    documented = {
        node.name: node for node in known.body if isinstance(node, Function | ast.ClassDef) and ast.get_docstring(node)
    }
    for node in reversed(tree.body):
        if isinstance(node, Function | ast.ClassDef) and (old := documented.get(node.name)) and not ast.get_docstring(node):
            first, docstring = node.body[0].lineno - 1, old.body[0]
            if lines[first][: node.body[0].col_offset].strip() == "" and node.body[0].col_offset == docstring.col_offset:
                lines[first:first] = stub.split("\n")[docstring.lineno - 1 : docstring.end_lineno]
    bound = {name for node in tree.body for name in _imported(node)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    missing = [
        ast.unparse(node)
        for node in known.body
        if isinstance(node, ast.Import | ast.ImportFrom) and (names := set(_imported(node))) & used and not names & bound
    ]
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    at = (future[-1].end_lineno or 0) if future else 0
    return "\n".join([*lines[:at], *missing, *lines[at:]])


def _imported(node: ast.stmt) -> list[str]:
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return []
    return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]


def _defined(text: str) -> set[str]:
    tree = _tree(text)
    return {node.name for node in tree.body if isinstance(node, Function | ast.ClassDef)} if tree is not None else set()


def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
