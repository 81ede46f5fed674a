"""How a model writes changes down, and how they become edits: SEARCH/REPLACE blocks, or whole functions.

    pkg/a.py
    <<<<<<< SEARCH                     FUNCTION pkg/a.py::Class.method
    the lines as they are              ```python
    =======                            def method(self): …
    the lines as they should be        ```
    >>>>>>> REPLACE

An empty SEARCH makes a new file. Reading is strict: what cannot be placed exactly once is an `EditProblem`, whose sentence goes
back to the model once. The block's shape is Aider's ("diff" format); code never travels inside JSON.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent.edits import EditProblem, lines
from agent.task import Edits, FileChange

LONGEST = 256 * 1024  # characters of an answer that is read at all
MOST = 50  # changes in one answer

_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*$")
_DIVIDE = re.compile(r"={5,9}\s*$")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*$")
_FUNCTION = re.compile(r"[#*`\s]*FUNCTION:?\s+`?(?P<path>[^:`]+)::(?P<name>[\w.]+)[`*\s]*$")
_FENCE = re.compile(r"\s*(?P<ticks>`{3,}|~{3,})[\w+-]*\s*$")


@dataclass(frozen=True, slots=True)
class Block:
    """These lines of a file become those; without `search` the file is new."""

    path: str
    search: tuple[str, ...]  # lines without their ends
    replace: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WholeFunction:
    """A function or class, by its qualified name, becomes this text."""

    path: str
    name: str
    text: tuple[str, ...]


Change = Block | WholeFunction


def parse(answer: str) -> tuple[Change, ...] | EditProblem:
    """The changes that an answer asks for, in its order; prose around them is dropped."""
    if not answer.strip():
        return EditProblem("The answer was empty.")
    if len(answer) > LONGEST:
        return EditProblem(f"The answer is longer than {LONGEST // 1024} KiB; answer with the changed lines alone.")
    changes: list[Change] = []
    rest = [line.removesuffix("\r") for line in answer.split("\n")]
    at, path = 0, ""
    found: tuple[Change, int] | EditProblem
    while at < len(rest):
        line = rest[at]
        if _SEARCH.match(line):
            path = _path_above(rest, at) or path
            found = _block(rest, at, path)
        elif named := _FUNCTION.match(line):
            found = _whole_function(rest, at, named["path"].strip(), named["name"])
        else:
            at += 1
            continue
        if isinstance(found, EditProblem):
            return found
        change, at = found
        changes.append(change)
        if len(changes) > MOST:
            return EditProblem(f"The answer has more than {MOST} changes.")
    if not changes:
        return EditProblem("The answer has no SEARCH/REPLACE block and no FUNCTION.")
    return tuple(changes)


def _path_above(rest: list[str], at: int) -> str:
    """The path that stands on the line before a block, with or without a fence between."""
    for line in reversed(rest[max(0, at - 3) : at]):
        if _REPLACE.match(line):
            return ""
        if not line.strip() or _FENCE.match(line):
            continue
        word = re.sub(r"^(#+|[-*]+|File:?|Path:?)\s+", "", line.strip(), flags=re.IGNORECASE).strip("*`:'\" ")
        return word if word and " " not in word and ("." in word or "/" in word) else ""
    return ""


def _block(rest: list[str], at: int, path: str) -> tuple[Block, int] | EditProblem:
    if not path:
        return EditProblem("A SEARCH block has no line with the file's path above it.")
    divide = next((i for i in range(at + 1, len(rest)) if _DIVIDE.match(rest[i])), None)
    end = None if divide is None else next((i for i in range(divide + 1, len(rest)) if _REPLACE.match(rest[i])), None)
    if divide is None or end is None:
        return EditProblem(f"The block for {path} is not closed with ======= and >>>>>>> REPLACE.")
    if any(_SEARCH.match(line) for line in rest[at + 1 : end]):
        return EditProblem(f"The block for {path} has a second SEARCH inside.")
    return Block(path, tuple(rest[at + 1 : divide]), tuple(rest[divide + 1 : end])), end + 1


def _whole_function(rest: list[str], at: int, path: str, name: str) -> tuple[WholeFunction, int] | EditProblem:
    start = at + 1
    while start < len(rest) and not rest[start].strip():
        start += 1
    opened = _FENCE.match(rest[start]) if start < len(rest) else None
    if opened is None:
        return EditProblem(f"FUNCTION {path}::{name} is not followed by a fenced code block.")
    for end in range(start + 1, len(rest)):
        if rest[end].strip() == opened["ticks"]:
            return WholeFunction(path, name, tuple(rest[start + 1 : end])), end + 1
    return EditProblem(f"The code block of FUNCTION {path}::{name} is not closed.")


def clean_path(path: str) -> str | None:
    """A path as the repository names it, or None when it leads outside."""
    pure = PurePosixPath(path.strip().removeprefix("./"))
    outside = pure.is_absolute() or ".." in pure.parts or "\\" in path or not pure.parts or any(ord(c) < 32 for c in path)
    return None if outside else str(pure)


def resolve(changes: tuple[Change, ...], sources: Mapping[str, str | None]) -> Edits | EditProblem:
    """Place changes in the files' texts (`None`: there is no such file). Keys of `sources` are clean paths, one for each
    change; several changes of one file are placed one after the other.
    """
    texts: dict[str, str | None] = {}
    for change in changes:
        path = clean_path(change.path)
        if path is None:
            return EditProblem(f"{change.path!r} leads outside the repository.")
        current = texts.get(path, sources.get(path))
        placed = _place(change, path, current)
        if isinstance(placed, EditProblem):
            return placed
        texts[path] = placed
    edits = tuple(FileChange(path, sources.get(path), text) for path, text in texts.items() if text != sources.get(path))
    if not edits:
        return EditProblem("The answer changes nothing: SEARCH and REPLACE are the same.")
    for edit in edits:
        if (problem := _still_parses(edit)) is not None:
            return problem
    return edits


def _place(change: Change, path: str, text: str | None) -> str | EditProblem:
    if isinstance(change, WholeFunction):
        return EditProblem(f"There is no file {path}.") if text is None else _replace_function(change, path, text)
    if not any(line.strip() for line in change.search):
        if text:
            return EditProblem(f"{path} exists already, so its SEARCH must not be empty.")
        return "".join(f"{line}\n" for line in change.replace)
    if text is None:
        return EditProblem(f"There is no file {path}.")
    return _replace_lines(change, path, text)


def _replace_lines(block: Block, path: str, text: str) -> str | EditProblem:
    """Exact match first; then one that differs in trailing blanks; then one that is indented differently throughout."""
    here = [line.rstrip("\r\n") for line in lines(text)]
    for seen_as in (str, str.rstrip, str.strip):
        want = [seen_as(line) for line in block.search]
        have = [seen_as(line) for line in here]
        at = [i for i in range(len(have) - len(want) + 1) if have[i : i + len(want)] == want]
        if len(at) > 1:
            return EditProblem(f"The SEARCH lines occur {len(at)} times in {path}; give more lines around them.")
        if at:
            found = here[at[0] : at[0] + len(want)]
            new = block.replace if seen_as is not str.strip else _reindent(block.replace, block.search, found)
            if new is None:
                break
            return _splice(text, at[0], at[0] + len(want), new)
    first = next(line.strip() for line in block.search if line.strip())
    return EditProblem(f"The SEARCH lines do not occur in {path} (they begin with {first[:80]!r}); copy them exactly.")


def _reindent(new: tuple[str, ...], search: tuple[str, ...], found: list[str]) -> tuple[str, ...] | None:
    """The new lines, indented as the found ones are; None unless all found lines are off by the same indentation."""
    shifts = {(_indent(a), _indent(b)) for a, b in zip(search, found, strict=True) if a.strip()}
    added = {have.removesuffix(want) for want, have in shifts if have.endswith(want)}
    lost = {want.removesuffix(have) for want, have in shifts if want.endswith(have)}
    if len(added) == 1 and all(have.endswith(want) for want, have in shifts):
        (more,) = added
        return tuple(more + line if line.strip() else line for line in new)
    if len(lost) == 1 and all(want.endswith(have) for want, have in shifts):
        (less,) = lost
        if all(line.startswith(less) for line in new if line.strip()):
            return tuple(line.removeprefix(less) for line in new)
    return None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _splice(text: str, first: int, after: int, new: tuple[str, ...]) -> str:
    """Put lines in the place of others, with the line ends of the place and the end of file as it was."""
    old = lines(text)
    place = old[first:after] or old
    end = "\r\n" if sum(line.endswith("\r\n") for line in place) * 2 > len(place) else "\n"
    put = [line + end for line in new]
    if after == len(old) and not text.endswith("\n"):
        if put:
            put[-1] = put[-1].removesuffix(end)
        elif first:
            old[first - 1] = old[first - 1].rstrip("\r\n")
    return "".join(old[:first] + put + old[after:])


def _replace_function(change: WholeFunction, path: str, text: str) -> str | EditProblem:
    tree = _parse(text)
    if tree is None:
        return EditProblem(f"{path} is not Python that parses, so FUNCTION cannot be used; use a SEARCH/REPLACE block.")
    found = [node for name, node in _definitions(tree) if name == change.name]
    if len(found) != 1:
        return EditProblem(f"{path} has {'no' if not found else 'more than one'} {change.name}; use a SEARCH/REPLACE block.")
    body = list(change.text)
    while body and not body[-1].strip():
        body.pop()
    first_line = next((line for line in body if line.strip()), "")
    margin = _indent(first_line)
    code = _parse("\n".join(line.removeprefix(margin) for line in body))
    if code is None or [getattr(node, "name", None) for node in code.body] != [change.name.rpartition(".")[2]]:
        return EditProblem(f"The code of FUNCTION {path}::{change.name} is not one whole definition of that name.")
    (node,) = found
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    start = first if first_line.lstrip().startswith("@") else node.lineno  # decorators that the answer leaves out stay
    indent = " " * node.col_offset
    new = tuple(indent + line.removeprefix(margin) if line.strip() else "" for line in body)
    assert node.end_lineno is not None
    return _splice(text, start - 1, node.end_lineno, new)


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _definitions(tree: ast.AST, prefix: str = "") -> list[tuple[str, Definition]]:
    found: list[tuple[str, Definition]] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            found.append((prefix + node.name, node))
            found += _definitions(node, f"{prefix}{node.name}.")
        else:
            found += _definitions(node, prefix)
    return found


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _still_parses(edit: FileChange) -> EditProblem | None:
    """A Python file that parsed must parse afterwards; one that did not may be what is being mended."""
    if not edit.path.endswith((".py", ".pyi")) or edit.after is None:
        return None
    if edit.before is not None and _parse(edit.before) is None:
        return None
    try:
        ast.parse(edit.after)
    except SyntaxError as error:
        return EditProblem(f"With the change {edit.path} is not valid Python: {error.msg}, line {error.lineno}.")
    except (ValueError, RecursionError, MemoryError):
        return EditProblem(f"With the change {edit.path} cannot be parsed.")
    return None
