"""Applies a model's changes to the files' texts, each at exactly one location, or gives the reason why it cannot. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from agent.contract.proposal import Edits, FileChange
from agent.edits.answers import (
    Block,
    Change,
    Import,
    WholeFile,
    WholeFunction,
    below_imports,
    clean_path,
    only_definition,
    readings,
)
from agent.edits.changes import EditProblem, lines
from agent.source import syntax
from agent.source.imports import with_imports
from agent.source.outline import Definition, Module, parse

_DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_ELISION = re.compile(
    r"\s*(?:\.\.\.|#.{0,80}(?:\.\.\.|…|\b(?:unchanged|existing code|rest of|remains? the same)\b).{0,80})\s*$", re.IGNORECASE
)


def resolve(changes: tuple[Change, ...], sources: Mapping[str, str | None], shown: Sequence[str] = ()) -> Edits | EditProblem:
    """Apply changes to texts in order. `sources` maps clean paths to texts (`None`: no such file), for every path that a change
    names and for the `shown` files, in which changes without a path belong.
    """
    texts: dict[str, str | None] = {}
    for change in changes:
        path = (
            _meant(change, {**sources, **texts}, shown)
            if change.path
            else _home(change, {path: sources.get(path) for path in shown} | texts)
        )
        if isinstance(path, EditProblem):
            return path
        if path is None:
            return EditProblem(f"{change.path!r} points outside the repository.")
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


def _meant(change: Change, sources: Mapping[str, str | None], shown: Sequence[str]) -> str | None:
    """The path of a change to a part of a file. If there is no such file, the only shown file that it can name:
    `calc.py`, `a/pkg/calc.py` or `/repo/pkg/calc.py` for `pkg/calc.py`."""
    path, given = clean_path(change.path), change.path.strip()
    creates = isinstance(change, Block) and not any(line.strip() for line in change.search)
    if creates or isinstance(change, WholeFile) or (path is not None and sources.get(path) is not None) or ".." in given:
        return path
    is_long = given.startswith(("/", "a/", "b/"))
    alike = [each for each in dict.fromkeys(shown) if each.endswith(f"/{given}") or (is_long and given.endswith(f"/{each}"))]
    return alike[0] if len(alike) == 1 else path


def _home(change: Change, sources: Mapping[str, str | None]) -> str | EditProblem:
    """The only file that fits a change without a path."""
    fits = [path for path, text in sources.items() if text and isinstance(_place(change, path, text), str)]
    if len(fits) == 1:
        return fits[0]
    what = "A SEARCH block" if isinstance(change, Block) else "A code block"
    why = "fits more than one file" if fits else "fits no file that was shown"
    return EditProblem(f"{what} has no line with its file's path above it, and it {why}.")


def _place(change: Change, path: str, text: str | None) -> str | EditProblem:
    if isinstance(change, WholeFile):
        return _replace_file(change, path, text)
    if isinstance(change, WholeFunction):
        if text is None:
            return EditProblem(f"There is no file {path}.")
        imports, code, rest = below_imports(change.text)
        return _with_imports(_replace_function(replace(change, text=rest), path, text), path, imports, code)
    if not any(line.strip() for line in change.search):
        if text:
            return EditProblem(f"{path} already exists, so a block for it needs SEARCH lines.")
        return "".join(f"{line}\n" for line in change.replace)
    if text is None:
        return EditProblem(f"There is no file {path}.")
    first: EditProblem | None = None
    for reading in readings(change):
        placed = _replace_lines(reading, path, text)
        if isinstance(placed, str):
            return placed
        first = first or placed
    assert first is not None, "a block has at least one reading"
    return first


def _replace_lines(block: Block, path: str, text: str) -> str | EditProblem:
    """Tries an exact match, then one without trailing blanks, then one with a constant difference in indentation, then one
    without any blanks."""
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
    if isinstance(placed := _replace_densely(block, path, text, here), str):
        return placed
    first = next(line.strip() for line in block.search if line.strip())
    return EditProblem(f"The SEARCH lines do not occur in {path} (they begin with {first[:80]!r}); copy them exactly.")


def _replace_densely(block: Block, path: str, text: str, here: list[str]) -> str | None:
    """Replaces the only lines that are like SEARCH if blanks and blank lines do not count; None if there are none."""
    want = [line for line in block.search if line.strip()]
    have = [(number, line) for number, line in enumerate(here) if line.strip()]
    dense, wanted = [_dense(line) for _, line in have], [_dense(line) for line in want]
    at = [i for i in range(len(dense) - len(wanted) + 1) if dense[i : i + len(wanted)] == wanted]
    if len(at) != 1:
        return None
    found = have[at[0] : at[0] + len(want)]
    new = _reindent(block.replace, tuple(want), [line for _, line in found])
    return None if new is None else _splice(text, found[0][0], found[-1][0] + 1, new)


def _dense(line: str) -> str:
    """Without blanks, unless they may stand in a text or a comment."""
    return line.strip() if any(mark in line for mark in "\"'`#") else "".join(line.split())


def _reindent(new: tuple[str, ...], search: tuple[str, ...], found: list[str]) -> tuple[str, ...] | None:
    """The new lines, indented like the found ones; None unless all differ by the same indentation."""
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
    """Replace lines, keeping their line endings and the end of the file."""
    old = lines(text)
    near = old[first:after] or old
    end = "\r\n" if sum(line.endswith("\r\n") for line in near) * 2 > len(near) else "\n"
    put = [line + end for line in new]
    if after == len(old) and not text.endswith("\n"):
        if put:
            put[-1] = put[-1].removesuffix(end)
        elif first:
            old[first - 1] = old[first - 1].rstrip("\r\n")
    return "".join(old[:first] + put + old[after:])


def _replace_file(change: WholeFile, path: str, text: str | None) -> str | EditProblem:
    """Replaces the file if the code block has all its definitions; one definition if the block has only that one."""
    if text is None:
        return EditProblem(f"There is no file {path}; a new one is a block with an empty SEARCH.")
    body = "\n".join(change.text)
    before, after = parse(text), parse(body)
    if before is not None and after is None and (name := only_definition(change.text)) is not None:  # an indented method
        return _replace_function(WholeFunction(path, name, change.text), path, text)
    if before is None or after is None:
        return EditProblem(f"The code block for {path} cannot be placed; use a SEARCH/REPLACE block.")
    names, given = ({each.name for each in Module(path, source).definitions} for source in (text, body))
    missing = (names | _bound(before.body)) - (given | _bound(after.body))
    if names and not missing:
        if _leaves_out(body, text):
            return _elided(f"The code block for {path}")
        return body + "\n" if text.endswith("\n") and not body.endswith("\n") else body
    imports = [node for node in after.body if isinstance(node, Import)]
    code = [node for node in after.body if node not in imports]
    if given and given <= names and all(getattr(node, "name", None) in given for node in code):
        return _with_imports(_replace_each(code, body, path, text, ""), path, imports, code)
    what = f" ({min(names - given or missing)} is missing)" if missing else ""
    return EditProblem(f"The code block for {path} is not the whole file{what}; use a SEARCH/REPLACE block.")


def _replace_each(nodes: Sequence[ast.stmt], body: str, path: str, text: str, owner: str) -> str | EditProblem:
    """Replaces the definitions of `text` in `owner` by those of the same name in `nodes`, which are parts of `body`."""
    result: str | EditProblem = text
    every = body.split("\n")
    for node in nodes:
        if isinstance(node, _DEFINITION) and isinstance(result, str):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            code = tuple(every[first - 1 : node.end_lineno])
            result = _replace_function(WholeFunction(path, f"{owner}{node.name}", code), path, result)
    return result


def _replace_function(change: WholeFunction, path: str, text: str) -> str | EditProblem:
    if parse(text) is None:
        return EditProblem(f"{path} does not parse as Python, so FUNCTION cannot be used; use a SEARCH/REPLACE block.")
    definitions = Module(path, text).definitions
    found = [each for each in definitions if each.name == change.name]
    if not found and "." not in change.name:
        found = [each for each in definitions if each.name.endswith(f".{change.name}")]
    if len(found) != 1:
        return EditProblem(f"{path} has {'no' if not found else 'more than one'} {change.name}; use a SEARCH/REPLACE block.")
    (old,) = found
    body = list(change.text)
    while body and not body[-1].strip():
        body.pop()
    first_line = next((line for line in body if line.strip()), "")
    margin = _indent(first_line)
    plain = [line.removeprefix(margin) for line in body]
    code = parse("\n".join(plain))
    holder = code.body[0] if code is not None and len(code.body) == 1 else None
    methods = _methods(holder, old) if isinstance(holder, ast.ClassDef) else []
    if isinstance(methods, str):
        return EditProblem(
            f"The code block of FUNCTION {path}::{change.name} leaves out {methods}; use a SEARCH/REPLACE block."
        )
    if methods:
        owner = old.name if old.is_class else old.name.rpartition(".")[0]
        return _replace_each(methods, "\n".join(plain), path, text, f"{owner}.")
    if _leaves_out("\n".join(plain), "\n".join(text.split("\n")[old.first - 1 : old.last])):
        return _elided(f"The code block of FUNCTION {path}::{change.name}")
    if holder is None or getattr(holder, "name", None) != change.name.rpartition(".")[2]:
        return EditProblem(f"The code block of FUNCTION {path}::{change.name} must be exactly one definition of that name.")
    is_decorated = bool(getattr(holder, "decorator_list", None))
    start = old.first if is_decorated else old.node.lineno  # decorators that the answer leaves out stay
    indent = " " * old.node.col_offset
    new = tuple(indent + line.removeprefix(margin) if line.strip() else "" for line in body)
    return _splice(text, start - 1, old.last, new)


def _with_imports(
    placed: str | EditProblem, path: str, imports: Sequence[Import], code: Sequence[ast.stmt]
) -> str | EditProblem:
    """The file with the imports of those names that it lacks; `code` is the answer's code that uses them.

    A name that is imported for type checkers only stays so: at run time, its import may be circular.
    """
    if isinstance(placed, EditProblem) or (tree := parse(placed)) is None:
        return placed
    known, bound = dict[str, dict[str, int]](), {name for name, _, _ in _bindings(tree.body)}
    for name, what, line in _bindings(tree.body, at_run_time=True):
        known.setdefault(name, {}).setdefault(what, line)
    is_lazy = any(what == "__future__.annotations" for _, what, _ in _bindings([*tree.body, *imports]))
    used, lacking = _evaluated(code, is_lazy), list[str]()
    for node in imports:
        new: list[ast.alias] = []
        for alias in node.names:
            names = _imported(node, alias)
            for name, what in names.items():
                if what not in known.get(name, {what: 0}):
                    there = placed.splitlines()[next(iter(known[name].values())) - 1].strip()[:80]
                    return EditProblem(
                        f"`{name}` cannot be imported in {path}, where it is something else (`{there}`); use it as it is there."
                    )
                if name not in known and name in bound and name.partition(".")[0] in used:
                    return EditProblem(
                        f"`{name}` is imported only for type checkers in {path}; quote it in annotations, "
                        "and import it inside the function if it is needed at run time."
                    )
            if any(name not in known and name not in bound for name in names):
                new.append(alias)
        if new:
            node.names = new
            lacking.append(ast.unparse(node))
    return with_imports(placed, lacking)


def _imported(node: Import, alias: ast.alias) -> dict[str, str]:
    """The names that a part of an import binds, each with the full name of what it becomes: `a` and `a.b` for `import a.b`."""
    if isinstance(node, ast.ImportFrom):
        source = f"{'.' * node.level}{node.module or ''}.{alias.name}"
        return {source if alias.name == "*" else alias.asname or alias.name: source}
    if alias.asname:
        return {alias.asname: alias.name}
    return {name: name for name in accumulate(alias.name.split("."), "{}.{}".format)}


def _evaluated(code: Sequence[ast.stmt], is_lazy: bool) -> set[str]:
    """The names that the code uses at run time: without those in annotations if these are lazy."""

    def below(node: ast.AST) -> list[ast.AST]:
        unread = (getattr(node, "annotation", None), getattr(node, "returns", None)) if is_lazy else ()
        return [child for child in ast.iter_child_nodes(node) if child not in unread]

    return {node.id for node in _walked(code, below) if isinstance(node, ast.Name)}


def _leaves_out(new: str, old: str) -> bool:
    """Does the new code stand for more: with `...` as a statement, or a comment about the rest, that the old one lacks?"""

    def signs(code: str) -> int:
        return sum(bool(_ELISION.match(line)) for line in code.split("\n"))

    return signs(new) > signs(old)


def _elided(what: str) -> EditProblem:
    return EditProblem(f"{what} leaves out code (`...`); write all of it, or use a SEARCH/REPLACE block.")


def _methods(given: ast.ClassDef, old: Definition) -> list[ast.stmt] | str:
    """The methods to replace, if the answer has them inside their class and leaves the class's others out; else none.

    A text that names a member of the class if the answer leaves that out although it has more than methods.
    """
    functions = [node for node in given.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not isinstance(old.node, ast.ClassDef):
        owner, _, name = old.name.rpartition(".")
        return [node for node in functions if node.name == name and owner.rpartition(".")[2] == given.name]
    missing = _bound(old.node.body) - _bound(given.body)
    if given.name != old.node.name or not missing:
        return []
    rest = [node for node in given.body if node not in functions and not _is_documentation(node)]
    is_part = bool(functions) and not rest and {node.name for node in functions} <= _bound(old.node.body)
    return list(functions) if is_part else min(missing)


def _is_documentation(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _bound(body: Sequence[ast.stmt]) -> set[str]:
    """The names that these statements give to something, also inside `if` and `try`."""
    return {"*" if name.endswith("*") else name.partition(".")[0] for name, _, _ in _bindings(body)}


def _bindings(body: Sequence[ast.stmt], *, at_run_time: bool = False) -> Iterator[tuple[str, str, int]]:
    """Each name, the full name of what is imported under it (or ""), and the line."""

    def below(node: ast.AST) -> Iterable[ast.AST]:
        if isinstance(node, _DEFINITION | ast.Lambda | ast.comprehension):  # they have names of their own
            return ()
        if at_run_time and isinstance(node, ast.If):
            is_typing = getattr(node.test, "attr", getattr(node.test, "id", "")) == "TYPE_CHECKING"
            return node.orelse if is_typing else [node.test, *node.body, *node.orelse]
        return ast.iter_child_nodes(node)

    for node in _walked(body, below):
        if isinstance(node, _DEFINITION):
            yield node.name, "", node.lineno
        elif isinstance(node, Import):
            for alias in node.names:
                yield from ((name, what, node.lineno) for name, what in _imported(node, alias).items())
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, "", node.lineno


def _walked(nodes: Iterable[ast.AST], below: Callable[[ast.AST], Iterable[ast.AST]]) -> Iterator[ast.AST]:
    """The nodes in the order of the text, each before what is below it. Trees may be deeper than Python's stack."""
    todo = [*nodes][::-1]
    while todo:
        node = todo.pop()
        yield node
        todo += [*below(node)][::-1]


def _still_parses(edit: FileChange) -> EditProblem | None:
    """A Python file that parsed must still parse. One that did not may be the file under repair."""
    if not edit.path.endswith((".py", ".pyi")) or edit.after is None:
        return None
    if edit.before is not None and parse(edit.before) is None:
        return None
    try:
        syntax.tree(edit.after)
    except SyntaxError as error:
        return EditProblem(f"With the change, {edit.path} is not valid Python: {error.msg}, line {error.lineno}.")
    except (ValueError, RecursionError, MemoryError):
        return EditProblem(f"With the change, {edit.path} cannot be parsed.")
    return None
