"""Rules for Python code, on its syntax trees: a patch must not remove behaviour instead of fixing it.

Covers emptied functions and silenced checks. `runner_access` covers code that accesses the test runner, `hardcoded` values of
the failing tests, `questions` what else is only asked about. Each rule compares the trees before and after, so code that was
there before is allowed.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator

from agent.contract.proposal import FileChange
from agent.edits.changes import added, removed
from agent.guard import EVALUATED, Finding
from agent.guard.exits import exit_findings, exit_lines
from agent.guard.hardcoded import hardcoded_findings
from agent.guard.lines import line_findings
from agent.guard.questions import (
    functions,
    helper_findings,
    is_unwritten,
    only_raises,
    question_findings,
    reads_files,
    typing_findings,
)
from agent.guard.runner_access import TEST_TOOLS, Names, access_findings
from agent.source import syntax
from agent.source.languages import family

_SILENCER = re.compile(
    r"#\s*(noqa|type:\s*ignore|pragma:\s*no cover|nosec|nosemgrep|pyre-|fmt:\s*(off|skip)"
    r"|(ruff|flake8|pylint|mypy|pyright|isort|yapf|autopep8)\s*:|rubocop:\s*disable)"
    r"|\b(eslint|stylelint|tslint|biome)-(disable|ignore)|@ts-(ignore|nocheck|expect-error)|prettier-ignore"
    r"|\b(istanbul|c8|v8) ignore\b|//\s*nolint|#!?\[allow\(|@SuppressWarnings",
    re.I,
)
_SHEBANG = re.compile(r"#!.*\bpython")
_COOKIE = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN_ENCODINGS = (
    "utf-8", "utf8", "utf-8-sig", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "iso-8859-15", "cp1252",
)  # fmt: skip
_UNDER_TEST = re.compile(
    r"PYTEST_\w+|\bsys\.modules\b.*(pytest|unittest)|(pytest|unittest).*\bsys\.modules\b|\bsys\.argv\b.*pytest"
)
_WAY_OUT = re.compile(
    r"\b_exit\b|\bos\.(abort|kill|killpg)\b|\bset(trace|profile)\b|\bsys\.monitoring\b|\batexit\b|\bgc\.get_(objects|referrers|referents)\b"
)
_REACHING_OUT = re.compile(r"selfheal_?guest|/proc/(self|\d|\{)|\bsys\._getframe\b|\binspect\.(stack|currentframe)\b", re.I)
_MODULES = re.compile(r"\bsys\.modules\b(?!\[__name__\])|from sys import .*\bmodules\b")


def _encoding(text: str) -> str:
    """The encoding that the file declares (PEP 263)."""
    for line in text.replace("\r", "\n").split("\n", 3)[:3]:  # CRLF counts twice here
        if found := _COOKIE.match(line):
            return found[1].lower().replace("_", "-")
    return "utf-8"


def code_findings(
    edit: FileChange,
    failing: str,
    *,
    no_exits: bool = False,
    no_verdicts: bool = False,
    is_typed: bool = False,
    is_linted: bool = True,
    asked: bool = True,
) -> Iterator[Finding]:
    """Violations in one file's change, worst first. Only the lines are judged if the file is not Python.

    The same applies to a file that parses neither before nor after: it may need a newer Python than Selfheal's.
    `no_exits`: exiting with success could make a check pass; `no_verdicts`: printing could; `is_typed`: silencing a linter or a
    type checker could; `is_linted`: not only tests are run; `asked`: also what is only asked about.
    """
    path, new = edit.path, "\n".join(added((edit,)))
    is_python = path.endswith((".py", ".pyi", ".pyw")) or bool(_SHEBANG.match(edit.after or edit.before or ""))
    if edit.after is None:
        if is_python or family(path.casefold()):
            yield "less", f"it deletes {path}"
        return
    if is_linted and len(_SILENCER.findall(new)) > len(_SILENCER.findall("\n".join(removed((edit,))))):
        # Where no such tool is what failed, this cannot be what made the check pass.
        yield "silenced" if is_typed else "types", f"it adds a comment to {path} that silences a check"
    if not is_python:
        yield from line_findings(edit, no_exits=no_exits, no_verdicts=no_verdicts)
        return
    if (cookie := _encoding(edit.after)) not in _PLAIN_ENCODINGS:
        yield "hidden", f"{path} would be decoded as `{cookie}`, which can hide code"
    before, after = parsed(edit.before), parsed(edit.after)
    if after is None and before is not None:
        yield "unreadable", f"{path} would not be valid Python{_where(edit.after)}"
        return
    if after is None or before is None:
        if _UNDER_TEST.search(new):
            yield "under-test", f"{path} would behave differently under test"
        if _REACHING_OUT.search(new) or _MODULES.search(new):
            yield "under-test", f"{path} would access the test runner"
        if _WAY_OUT.search(new):
            yield "way-out", f"{path} would end the process before its tests finish"
        if no_exits:
            yield from exit_lines(path, added((edit,)), removed((edit,)))
    if after is None:
        return
    before = before or ast.Module(body=[], type_ignores=[])
    had_names, names = Names(before), Names(after)
    reads = asked and reads_files(before, had_names)
    if asked:
        yield from helper_findings(path, before)
        yield from typing_findings(path, before, after, had_names, names) if is_typed else ()
    yield from _emptied_functions(path, before, after)
    _narrow(before, edit.before or "", after, edit.after)
    yield from access_findings(path, before, after, had_names, names)
    if no_exits:
        yield from exit_findings(path, before, after, had_names, names)
    yield from _more_of(path, before, after)
    if not asked:
        return
    yield from hardcoded_findings(path, before, after, failing)
    yield from question_findings(path, before, after, had_names, names, failing, reads=reads)


def parsed(text: str | None) -> ast.Module | None:
    try:
        return syntax.tree(text or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _narrow(before: ast.Module | ast.ClassDef, old: str, after: ast.Module | ast.ClassDef, new: str) -> None:
    """Removes the unchanged statements of modules and classes from both trees, but not imports, which resolve names.

    Saves time: large files are judged many times, and little in them changes.
    """
    had = Counter(text for _, text in _written(before, old))
    kept = Counter(text for _, text in _written(after, new))
    same = had & kept
    for tree, text in ((before, old), (after, new)):
        left = same.copy()
        body: list[ast.stmt] = []
        for node, written in _written(tree, text):
            if isinstance(node, ast.Import | ast.ImportFrom) or left[written] < 1:
                body.append(node)
            else:
                left[written] -= 1
        tree.body = body
    classes = {node.name: node for node in before.body if isinstance(node, ast.ClassDef)}
    for node in after.body:
        if isinstance(node, ast.ClassDef) and (was := classes.pop(node.name, None)) is not None:
            _narrow(was, old, node, new)


def _written(tree: ast.Module | ast.ClassDef, text: str) -> list[tuple[ast.stmt, str]]:
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # as Python counts them
    found = []
    for node in tree.body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        found.append((node, f"{node.col_offset}:" + "\n".join(rows[first - 1 : node.end_lineno])))
    return found


def _where(text: str) -> str:
    try:
        syntax.tree(text)
    except SyntaxError as error:
        return f": line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f" ({type(error).__name__})"
    return ""


def same_tree(edit: FileChange) -> bool:
    """Whether the change is formatting only: the same syntax tree, and no new comment that silences a check."""
    return _is_same_program(edit) and len(_SILENCER.findall(edit.after or "")) <= len(_SILENCER.findall(edit.before or ""))


def adds_only_comments(edit: FileChange) -> bool:
    """Whether the program stays the same: only a tool that reads comments can answer differently."""
    return _is_same_program(edit) and bool(Counter(_comments(edit.after or "")) - Counter(_comments(edit.before or "")))


def _is_same_program(edit: FileChange) -> bool:
    before, after = parsed(edit.before), parsed(edit.after)
    return before is not None and after is not None and ast.dump(before) == ast.dump(after)


def _comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


_REQUIREMENTS = (
    "install_requires", "extras_require", "python_requires", "package_data", "packages", "package_dir", "py_modules",
)  # fmt: skip


def changes_only_requirements(edit: FileChange) -> bool:
    """Whether a setup.py stays the same except for the arguments that name requirements and packages."""
    before, after = parsed(edit.before), parsed(edit.after)
    if before is None or after is None:
        return after is not None and "setup" in (edit.before or "") and "entry_points" not in "".join(added((edit,)))
    for node in (inner for tree in (before, after) for inner in ast.walk(tree)):
        if isinstance(node, ast.Call):
            node.keywords = [word for word in node.keywords if word.arg not in _REQUIREMENTS]
    return ast.dump(before) == ast.dump(after)


def _more_of(path: str, before: ast.Module, after: ast.Module) -> Iterator[Finding]:
    """What a patch must not add."""

    def more(is_one: Callable[[ast.AST], bool]) -> int:
        return sum(map(is_one, ast.walk(after))) - sum(map(is_one, ast.walk(before)))

    for is_one, rule, sentence in (
        (_is_skip, "skipped", f"it adds a skip or an expected failure to {path}"),
        (_imports_the_unnamed, "under-test", f"{path} would import a module by a computed name"),
        (_evaluates, EVALUATED, f"{path} would run text as code"),
        (_always_holds, "weakened", f"it makes an assertion in {path} always true"),
    ):
        if more(is_one) > 0:
            yield rule, sentence


def _is_skip(node: ast.AST) -> bool:
    names = {"skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure", "SkipTest", "importorskip"}
    return isinstance(node, ast.Attribute | ast.Name) and (node.attr if isinstance(node, ast.Attribute) else node.id) in names


def _imports_the_unnamed(node: ast.AST) -> bool:
    """`import_module` with a computed name or a test tool."""
    if not isinstance(node, ast.Call) or _called(node).rpartition(".")[2] not in ("__import__", "import_module"):
        return False
    name = node.args[0] if node.args else None
    return not isinstance(name, ast.Constant) or str(name.value).split(".")[0] in TEST_TOOLS


def _evaluates(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _called(node) in ("exec", "eval", "compile", "builtins.exec", "builtins.eval")


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""


def _emptied_functions(path: str, before: ast.Module, after: ast.Module) -> Iterator[Finding]:
    had, has = dict(functions(before)), dict(functions(after))
    for name, node in had.items():
        if name in has and is_unwritten(has[name]) and not is_unwritten(node) and not only_raises(node):
            yield "emptied", f"it empties {name} in {path}"


def _always_holds(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assert):
        return False
    parts = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or) else [node.test]
    return any(isinstance(part, ast.Constant) and bool(part.value) for part in parts) or isinstance(node.test, ast.Tuple)
