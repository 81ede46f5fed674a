"""Reads the code in a model's answers, and checks that it is what was asked for. Pure."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
import typing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from agent.edits.answers import clean_path
from agent.edits.changes import EditProblem
from agent.source import syntax
from agent.source.imports import with_imports

LONGEST = 200_000  # characters of an answer that are read
MOST_FILES = 12
BODY = "raise NotImplementedError"  # of a function that is to be written
Function = ast.FunctionDef | ast.AsyncFunctionDef
Files = Mapping[str, str]
"""Texts by path."""

CUT = EditProblem("Your answer was cut off: its last code block is not closed.")
_BLOCK = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[ \t]*(?P<kind>[\w+-]*)[^\n]*\n(?P<code>.*?)(?:^(?P<end>(?P=fence))[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_PATH = re.compile(r"[\s#*`]*(?:File:?\s*)?`?(?P<path>[\w./-]{1,200}\.py)`?[\s*`:]*$", re.IGNORECASE)
_PYTHON = ("", "py", "python", "python3")


_NETWORK, _PROCESSES, _FILES = "uses the network", "starts processes", "writes or deletes files"
_REACHING = {
    **dict.fromkeys(("socket", "ssl", "urllib", "http", "ftplib", "smtplib", "requests", "httpx", "aiohttp"), _NETWORK),
    **dict.fromkeys(("open_connection", "create_connection", "open_unix_connection"), _NETWORK),
    **dict.fromkeys(("subprocess", "multiprocessing", "pty", "create_subprocess_exec", "create_subprocess_shell"), _PROCESSES),
    **dict.fromkeys(("os.system", "os.popen", "os.fork", "os.posix_spawn"), _PROCESSES),
    **dict.fromkeys((f"os.{way}{end}" for way in ("exec", "spawn") for end in ("l", "le", "lp", "v", "ve", "vp")), _PROCESSES),
    **dict.fromkeys(("shutil", "tempfile", "write_text", "write_bytes", "unlink", "rmdir", "mkdir", "makedirs"), _FILES),
    **dict.fromkeys(("touch", "rmtree", "removedirs", "symlink_to", "os.remove", "os.rename", "os.replace"), _FILES),
    "import_module": "imports modules by computed names",
}
"""What code does, by a module that it imports, or by the name of what it uses."""


def for_people(problem: str, answer: str = "The last one") -> str:
    """A sentence about a model's answer that speaks to the model, for the user."""
    return problem.replace("Your answer", answer).replace("Your code", "The code").replace("your docstrings", "its docstrings")


def together(files: Files) -> str:
    """The files as one text; each of several below its path."""
    return "\n".join(files.values() if len(files) == 1 else (f"# {path}\n{text}" for path, text in files.items()))


def reaches(files: Files) -> list[str]:
    """What code does beyond computing, a clause each: people shall read it before they run it."""
    found: dict[str, None] = {}
    for node in (node for text in files.values() for node in ast.walk(_tree(text) or ast.Module([], []))):
        names: list[str] = []
        match node:
            case ast.Import(names=aliases):
                names = [alias.name.partition(".")[0] for alias in aliases]
            case ast.ImportFrom(module=str(module), names=aliases):
                names = [module.partition(".")[0], *(f"{module}.{alias.name}" for alias in aliases)]
                names += [alias.name for alias in aliases]
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                names = [name, f"{owner}.{name}"]
            case ast.Attribute(attr=name):
                names = [name]
            case ast.Call(func=ast.Name(id="open") | ast.Attribute(attr="open") as called, args=args, keywords=keywords):
                given = (*args[isinstance(called, ast.Name) :], *(word.value for word in keywords))
                modes = [str(each.value) for each in given if isinstance(each, ast.Constant)]
                names = ["shutil"] if any(re.fullmatch(r"(?=.*[wxa+])[rwxabt+]{1,4}", mode) for mode in modes) else []
        found |= dict.fromkeys(_REACHING[name] for name in names if name in _REACHING)
    return [f"the code {what}: read it before you run it" for what in found]


def files_in(answer: str, only: str) -> dict[str, str] | EditProblem:
    """The Python files in an answer: each is a code block, with its path in the line above or in its first line.

    A single block without a path is the file `only`. An answer that is nothing but Python counts as one block. A last
    block that is not closed counts if it parses: some models leave the closing fence out.
    """
    found: dict[str, str] = {}
    unnamed: list[str] = []
    for given, code, is_closed in _blocks(answer):
        if not is_closed and _tree(code) is None:
            return CUT
        if not given:
            unnamed.append(code)
            continue
        path = clean_path(given)
        if path is None:
            return EditProblem(f"{given} is not a path inside the project.")
        found[path] = code
    if not found and not unnamed:
        if (text := _read(answer).strip()) and _tree(text) is not None and defined(text):
            return {only: f"{text}\n"}
        return EditProblem("Your answer has no block of Python code.")
    if not found:
        return {only: _joined(unnamed)}
    if len(found) > MOST_FILES:
        return EditProblem(f"Your answer has {len(found)} files; write at most {MOST_FILES}.")
    return found


def _blocks(answer: str) -> Iterator[tuple[str, str, bool]]:
    """The Python blocks: the path ("" without one), the code, and whether the block is closed."""
    answer = _read(answer)
    for block in _BLOCK.finditer(answer):
        if block["kind"].lower() not in _PYTHON:
            continue
        code = block["code"]
        above = answer[: block.start()].rstrip("\n").rpartition("\n")[2]
        first, _, rest = code.partition("\n")
        if (named := _PATH.match(above)) is None and first.startswith("#") and (named := _PATH.match(first)) is not None:
            code = rest
        yield named["path"] if named else "", code, block["end"] is not None


def defined_twice(answer: str, only: str, name: str = "") -> str:
    """The function, `name` if given, that blocks define in different ways in one file, of which the last one counts; or "".

    A block without a path is of the file `only`. Docstrings do not count.
    """
    found: dict[tuple[str | None, str], str] = {}
    for path, tree in ((clean_path(given or only), _tree(text)) for given, text, _ in _blocks(answer)):
        for node in tree.body if tree else ():
            if isinstance(node, Function) and name in ("", node.name):
                if ast.get_docstring(node) is not None:
                    del node.body[0]
                if found.setdefault((path, node.name), ast.dump(node)) != ast.dump(node):
                    return node.name
    return ""


def is_open(answer: str) -> bool:
    """Whether the last code block is not closed."""
    return any(block["end"] is None for block in _BLOCK.finditer(_read(answer)))


def _read(answer: str) -> str:
    return _lines_ended((answer.rpartition("</think>")[2] or answer)[:LONGEST])


def _lines_ended(text: str) -> str:
    """The text with the line endings that Python reads."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _joined(blocks: Sequence[str]) -> str:
    """The blocks as one file; of those that define the same name, the last one counts."""
    parsed = [block for block in blocks if _tree(block) is not None and defined(block)]
    kept = [block for at, block in enumerate(parsed) if not any(defined(block) & defined(later) for later in parsed[at + 1 :])]
    return "\n\n".join(block.strip("\n") for block in kept or blocks[:1]) + "\n"


def problem_in(files: Files, path: str, name: str, signature: str) -> EditProblem | None:
    """Why these files are not what was asked for: they must parse, and `path` must define the function with its parameters.

    Defaults, annotations, `*` and `/` need not agree: `signed` restores them.
    """
    for each, text in files.items():
        try:
            syntax.tree(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            why = error.msg if isinstance(error, SyntaxError) else type(error).__name__
            return EditProblem(f"The code of {each} does not parse{at}: {why}.")
    if path not in files:
        return EditProblem(f"Your answer has no file {path}.")
    if not name:
        return None
    nodes = functions(files[path], name)
    if not nodes:
        others = [node.name for node in syntax.tree(files[path]).body if isinstance(node, Function)]
        what = f"it defines {', '.join(f'`{other}`' for other in others[:3])}" if others else "it defines no function"
        return EditProblem(f"The code must define a function `{name}` at the top level; {what}.")
    if len(nodes) > 1:
        return EditProblem(f"The code defines `{name}` {len(nodes)} times; define it once.")
    if (wanted := _stated(signature)) is None:
        return None
    if type(nodes[0]) is not type(wanted):
        how = "must be an `async def`" if isinstance(wanted, ast.AsyncFunctionDef) else "must not be an `async def`"
        return EditProblem(f"`{name}` {how}, as its signature says.")
    names, given = _parameters(wanted), _parameters(nodes[0])
    if given != names:
        return EditProblem(f"`{name}` must keep its parameters ({', '.join(names)}), not ({', '.join(given)}).")
    return None


def signed(text: str, name: str, signature: str) -> str:
    """The code with the function's head as the signature states it: kinds, defaults and annotations.

    The text must pass `problem_in`. An annotation that the signature lacks is kept, and names from `typing` are imported.
    """
    wanted, nodes = _stated(signature), functions(text, name)
    if wanted is None or not nodes:
        return text
    node = nodes[0]
    own = {each.arg: each.annotation for each in _arguments(node)}
    for each in _arguments(wanted):
        each.annotation = each.annotation or own[each.arg]
    wanted.returns = wanted.returns or node.returns
    if ast.dump(wanted.args) == ast.dump(node.args) and _same(wanted.returns, node.returns):
        return text
    lines = _lines_ended(text).split("\n")
    row, column = _head_end(lines, node)
    lines[node.lineno - 1 : row] = [ast.unparse(wanted).partition("\n")[0] + lines[row - 1][column:]]
    return with_hints("\n".join(lines), ast.unparse(wanted).partition("\n")[0].rstrip(":"))


def with_hints(text: str, signature: str) -> str:
    """The code with what the signature's names need: imports from `typing`; annotations of foreign names are not evaluated."""
    node = _stated(signature)
    if node is None:
        return text
    bound = _bound(text)
    unknown = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - bound - set(dir(builtins))
    known = sorted(unknown & set(typing.__all__))
    if unknown.difference(known) and "annotations" not in bound:
        text = with_imports(text, ["from __future__ import annotations"])
    return with_imports(text, [f"from typing import {', '.join(known)}"] if known else [])


def _stated(signature: str) -> Function | None:
    """The function of a signature, without a body to speak of; None for no signature."""
    node = syntax.tree(f"{signature}: ...").body[0] if signature else None
    return node if isinstance(node, Function) else None


def functions(text: str, name: str) -> list[Function]:
    """The functions of this name at the top level of a text that parses."""
    return [node for node in syntax.tree(text).body if isinstance(node, Function) and node.name == name]


def public(text: str) -> list[str]:
    """The functions at the top level whose names do not start with an underscore; none of a text that does not parse."""
    tree = _tree(text) or ast.Module([], [])
    return [node.name for node in tree.body if isinstance(node, Function) and not node.name.startswith("_")]


def unasked(files: Files, asked: str) -> list[str]:
    """The functions at the top level that nothing in the files uses and that `asked` does not name.

    A decorated one may be used by its decorator, and one that is called `__getattr__` by Python.
    """
    trees = [tree for text in files.values() if (tree := _tree(text)) is not None]
    used = Counter(name for tree in trees for name in _used(tree))
    found = [node for tree in trees for node in tree.body if isinstance(node, Function) and not node.decorator_list]
    unused = [node.name for node in found if used[node.name] == list(_used(node)).count(node.name)]
    return [name for name in unused if not name.startswith("__") and not re.search(rf"\b{name}\b", asked)]


def _used(tree: ast.AST) -> Iterator[str]:
    """The names that code reads, imports, or has as texts, such as in `__all__`."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.Constant(value=str(name)):
                yield name


def stubs(files: Files) -> dict[str, str]:
    """The files, which parse, without the bodies of their functions."""
    found = {}
    for path, text in files.items():
        tree = syntax.tree(text)
        for node in ast.walk(tree):
            if isinstance(node, Function):
                node.body = [*node.body[: ast.get_docstring(node) is not None], *syntax.tree(BODY).body]
        found[path] = f"{ast.unparse(tree)}\n"
    return found


def _arguments(node: Function) -> list[ast.arg]:
    given = node.args
    starred = [each for each in (given.vararg, given.kwarg) if each is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *starred]


def _parameters(node: Function) -> tuple[str, ...]:
    """The names of the parameters, in order: "text", "*rest", "limit"."""
    given = node.args
    rest = [f"*{given.vararg.arg}"] if given.vararg else []
    named = [f"**{given.kwarg.arg}"] if given.kwarg else []
    return (*(each.arg for each in [*given.posonlyargs, *given.args]), *rest, *(each.arg for each in given.kwonlyargs), *named)


def _same(one: ast.expr | None, other: ast.expr | None) -> bool:
    return (ast.dump(one) if one else "") == (ast.dump(other) if other else "")


def _head_end(lines: Sequence[str], node: Function) -> tuple[int, int]:
    """Line (from 1) and column behind the colon that ends a function's head."""
    depth, body = 0, "\n".join(lines[node.lineno - 1 :])
    for token in tokenize.generate_tokens(io.StringIO(body).readline):
        depth += (token.string in ("(", "[", "{")) - (token.string in (")", "]", "}"))
        if token.type == tokenize.OP and token.string == ":" and depth == 0:
            return node.lineno - 1 + token.end[0], token.end[1]
    raise AssertionError("a function has a colon")


def _bound(text: str) -> set[str]:
    """The names that a module defines or imports."""
    tree = syntax.tree(text)
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | defined(text) | {name for node in ast.walk(tree) for name in imported(node)}


def completed(text: str, stub: str) -> str:
    """The code with the imports, docstrings and examples of its stub that it lacks, as models like to leave them out."""
    tree, known = _tree(text), _tree(stub)
    if tree is None or known is None:
        return text
    lines = text.split("\n")
    documented = {
        node.name: node for node in known.body if isinstance(node, Function | ast.ClassDef) and ast.get_docstring(node)
    }
    for node in reversed(tree.body):
        if not isinstance(node, Function | ast.ClassDef) or (old := documented.get(node.name)) is None:
            continue
        own, first, docstring = ast.get_docstring(node) or "", node.body[0], old.body[0]
        is_less = not own or (">>>" not in own and ">>>" in (ast.get_docstring(old) or ""))
        if is_less and not lines[first.lineno - 1][: first.col_offset].strip() and first.col_offset == docstring.col_offset:
            end = (first.end_lineno or first.lineno) if own else first.lineno - 1
            if own and lines[end - 1].encode()[first.end_col_offset :].strip():  # `"""Own."""; return x`
                continue
            lines[first.lineno - 1 : end] = stub.split("\n")[docstring.lineno - 1 : docstring.end_lineno]
    bound = {name for node in tree.body for name in imported(node)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    missing = [ast.unparse(node) for node in known.body if (names := set(imported(node))) & used and not names & bound]
    return with_imports("\n".join(lines), missing)


def imported(node: ast.AST) -> list[str]:
    """The names that an import statement binds."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return []
    return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]


def defined(text: str) -> set[str]:
    tree = _tree(text)
    return {node.name for node in tree.body if isinstance(node, Function | ast.ClassDef)} if tree is not None else set()


def _tree(text: str) -> ast.Module | None:
    try:
        return syntax.tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
