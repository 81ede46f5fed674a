"""Detects Python code that accesses its test runner: the runner's modules, frames, files and process.

Works on syntax trees: follows names through imports and `getattr`, and folds constant strings. It judges only the
code that a patch adds. Tamper detection during the run covers better disguises.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate

from agent.guard import Finding

TEST_TOOLS = frozenset({
    "pytest", "_pytest", "pluggy", "unittest", "doctest", "coverage", "selfheal_guest", "mock", "hypothesis", "nose", "nose2",
    "xdist", "freezegun", "testfixtures",
})  # fmt: skip
_RUNNER = "access the test runner"
_PROGRAMS = "start other programs"
_LEAVE = "end the process before its tests finish"
# Names that no repair needs, wherever they appear.
_NAMES: Mapping[str, Finding] = {
    **dict.fromkeys(
        (
            "_getframe", "_getframemodulename", "_current_frames", "_current_exceptions", "currentframe", "getouterframes",
            "getinnerframes", "f_back", "f_locals", "f_globals", "f_builtins", "tb_frame", "gi_frame", "cr_frame", "ag_frame",
            "cell_contents", "__closure__", "__globals__", "__builtins__", "meta_path", "path_hooks", "path_importer_cache",
            "pluginmanager", "addaudithook", "getppid", "orig_argv", "gettrace", "getprofile", "findCaller",
        ),
        ("under-test", _RUNNER),
    ),
    **dict.fromkeys(("_exit", "killpg", "raise_signal", "pthread_kill", "settrace", "setprofile"), ("way-out", _LEAVE)),
}  # fmt: skip
# The same for full names; a module covers everything in it.
_FULL: Mapping[str, Finding] = {
    **dict.fromkeys(
        (
            "sys.modules", "sys.path", "__main__",
            "sys.flags", "sys.warnoptions", "ctypes", "_ctypes", "linecache", "inspect.stack",
            "inspect.trace", "inspect.getsource", "inspect.getsourcelines", "inspect.getsourcefile", "inspect.findsource",
            "inspect.getfile", "inspect.getmodule", "inspect.getframeinfo", "traceback.extract_stack", "traceback.walk_stack",
            "traceback.format_stack", "traceback.print_stack", "importlib.reload", "importlib.util.spec_from_file_location",
            "importlib.machinery", "runpy", "site", "object.__subclasses__", "type.__subclasses__", "types.CodeType",
        ),
        ("under-test", _RUNNER),
    ),
    **dict.fromkeys(
        (
            "os._exit", "os.abort", "os.kill", "os.fork", "os.forkpty", "os.dup2", "os.execv", "os.execve", "os.execl",
            "os.execlp", "os.execvp", "signal.alarm", "signal.setitimer", "atexit", "_thread.interrupt_main", "sys.monitoring",
            "gc.get_objects", "gc.get_referrers", "gc.get_referents", "threading.settrace", "threading.setprofile",
        ),
        ("way-out", _LEAVE),
    ),
    **dict.fromkeys(
        ("subprocess", "pty", "os.popen", "os.system", "os.posix_spawn", "os.spawnv", "os.spawnl", "os.spawnlp", "os.spawnvp"),
        ("under-test", _PROGRAMS),
    ),
    **dict.fromkeys(("warnings.resetwarnings", "warnings.filters"), ("silenced", "silence warnings")),
}  # fmt: skip
_TESTING = re.compile(
    r"pytest|unittest|conftest|selfheal_?guest|sitecustomize|usercustomize|/proc/(self|thread-self|\d|\{)|\bPYTHON[A-Z]{3,}\b"
    r"|^tests$|(^|[/\\])tests?[/\\].*\.py$|(^|[/\\])test_[^/\\\s]*$|_tests?\.py$",
    re.I,
)
_INSIDES = re.compile(r"__(eq|ne|instancecheck|code|globals|builtins|subclasses|closure|defaults|kwdefaults)__")
_HIDING = ("ignore", "once", "module")  # actions of a warnings filter
_MAY_BE_SET = frozenset({"sys.stdout", "sys.stderr", "sys.stdin", "sys.tracebacklimit", "logging.raiseExceptions"})
_STARS = tuple(f"{name}.*" for name in ("sys", "os", "gc", "inspect", "ctypes", "signal", "traceback", "threading", "builtins"))
# Names that have a meaning without an import.
_UNIMPORTED = (
    "object",
    "type",
    "setattr",
    "delattr",
    "gc",
    "sys",
    "os",
    "inspect",
    "threading",
    "signal",
    "traceback",
    "builtins",
)
_SETTERS = ("setattr", "delattr", "__setattr__", "__delattr__")


def access_findings(path: str, before: ast.Module, after: ast.Module, had_names: Names, names: Names) -> Iterator[Finding]:
    """Violations that the patch adds. The trees can be reduced to the changed statements; the names come from whole files."""
    had = Counter(_reaches(before, had_names))
    for (rule, what), count in Counter(_reaches(after, names)).items():
        # A module that already starts programs can start another.
        if count > had[rule, what] and not (what == _PROGRAMS and had[rule, what]):
            yield rule, f"{path} would {what}"


def _reaches(tree: ast.Module, names: Names) -> Iterator[Finding]:
    own = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript) and last(node.slice) == "__name__"}
    for node in ast.walk(tree):
        yield from _imports(node)
        if isinstance(node, ast.Attribute | ast.Name | ast.Call) and id(node) not in own:
            yield from _named(node, names)
        if isinstance(node, ast.Call):
            yield from _calls(node, names)
        if isinstance(node, ast.Subscript) and names.of(node.value) == "sys.argv" and ast.unparse(node.slice) == "0":
            yield "under-test", "check how it was started"
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete | ast.For | ast.With):
            yield from _patches(node, names)
    yield from _strings(tree)
    yield from _exits(tree, names)


class Names:
    """Resolves expressions to full dotted names through the imports of a module."""

    def __init__(self, tree: ast.Module) -> None:
        self._known: dict[str, str] = {name: name for name in _UNIMPORTED}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._known[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    self._known[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def of(self, node: ast.AST) -> str:
        """The dotted name, or "" if it is unknown."""
        if isinstance(node, ast.Name):
            return self._known.get(node.id, "")
        if isinstance(node, ast.Attribute):
            return f"{owner}.{node.attr}" if (owner := self.of(node.value)) else ""
        if isinstance(node, ast.Call):
            called = last(node.func)
            if called in ("__import__", "import_module") and node.args:
                return folded(node.args[0]) or ""
            if called == "getattr" and len(node.args) > 1 and (owner := self.of(node.args[0])):
                return f"{owner}.{folded(node.args[1])}"
            if called == "vars" and node.args and (owner := self.of(node.args[0])):
                return f"{owner}.__dict__"
        return ""


def last(node: ast.AST) -> str:
    """The last part of a dotted name, or ""."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def folded(node: ast.AST) -> str | None:
    """The string that a constant expression builds, or None."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = folded(left), folded(right)
            return None if one is None or other is None else one + other
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(glue)), attr="join"), args=[ast.List(elts) | ast.Tuple(elts)]
        ):
            parts = [folded(part) for part in elts]
            return glue.join(part for part in parts if part is not None) if None not in parts else None
        case ast.JoinedStr(values=values):
            inner = [folded(one.value if isinstance(one, ast.FormattedValue) else one) for one in values]
            return "".join(part or "{}" for part in inner)
        case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=None, step=ast.UnaryOp(ast.USub(), ast.Constant(1)))):
            turned = folded(value)
            return None if turned is None else turned[::-1]
    return None


def _imports(node: ast.AST) -> Iterator[Finding]:
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        modules = [".".join(filter(None, (node.module, alias.name))) for alias in node.names]
    else:
        return
    for module in modules:
        first, *_ = parts = module.split(".")
        if module in _STARS:
            yield "under-test", f"import everything from `{first}`"
        if first in TEST_TOOLS:
            yield "under-test", f"import the test tool `{first}`"
        elif any(part in ("tests", "conftest") or re.fullmatch(r"test_\w+|\w+_tests?", part) for part in parts[:-1] or parts):
            yield "under-test", f"import the test module `{module}`"
        elif (found := _known(module)) is not None:
            yield found


def _named(node: ast.Attribute | ast.Name | ast.Call, names: Names) -> Iterator[Finding]:
    if (found := _NAMES.get(last(node)) or _known(names.of(node))) is not None:
        yield found


def _known(name: str) -> Finding | None:
    if not name:
        return None
    last = name.rpartition(".")[2]
    if "." in name and last in _NAMES:
        return _NAMES[last]
    return next((_FULL[start] for start in accumulate(name.split("."), "{}.{}".format) if start in _FULL), None)


def _calls(node: ast.Call, names: Names) -> Iterator[Finding]:
    called, short = names.of(node.func), last(node.func)
    if short in ("getattr", "attrgetter", "methodcaller") and node.args:
        asked = folded(node.args[1 if short == "getattr" and len(node.args) > 1 else 0])
        for part in (asked or "").split("."):
            if part in _NAMES:
                yield _NAMES[part]
        if short == "getattr" and asked is None and _is_foreign(names.of(node.args[0])):
            yield "under-test", "access Python or the test tools by a computed name"
    if short in _SETTERS and node.args and _is_foreign(names.of(node.args[0])):
        yield "under-test", f"patch `{names.of(node.args[0])}`"
    if called.rpartition(".")[2] in ("simplefilter", "filterwarnings") and called.startswith("warnings."):
        action = (
            folded(node.args[0]) if node.args else next((folded(k.value) for k in node.keywords if k.arg == "action"), None)
        )
        if action is None or action in _HIDING:
            yield "warnings", "silence warnings"
    if called == "warnings.catch_warnings" and any(word.arg in ("record", "action") for word in node.keywords):
        yield "warnings", "silence warnings"


def _is_foreign(name: str) -> bool:
    """Whether the name belongs to Python, to a test tool, or to a library's testing module."""
    parts = name.split(".")
    return bool(name) and (parts[0] in sys.stdlib_module_names or parts[0] in TEST_TOOLS or "testing" in parts)


def _patches(node: ast.AST, names: Names) -> Iterator[Finding]:
    targets: list[ast.expr]
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            pass
        case (
            ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target) | ast.NamedExpr(target=target)
        ):
            targets = [target]
        case ast.With(items=items):
            targets = [item.optional_vars for item in items if item.optional_vars is not None]
        case _:
            return
    for target in (inner for one in targets for inner in _unpacked(one)):
        holder = target.value if isinstance(target, ast.Subscript) else None
        name = names.of(holder if holder is not None else target)
        is_inside = isinstance(target, ast.Attribute) or (holder is not None and name.endswith("__dict__"))
        if is_inside and "." in name and _is_foreign(name) and name not in _MAY_BE_SET:
            yield "under-test", f"patch `{name}`"


def _unpacked(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Tuple | ast.List):
        for inner in node.elts:
            yield from _unpacked(inner)
    else:
        yield node


def _strings(tree: ast.Module) -> Iterator[Finding]:
    idle = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings and other unused strings
    for node in ast.walk(tree):
        text = folded(node) if id(node) not in idle and isinstance(node, ast.expr) else None
        if text is None:
            continue
        if _INSIDES.fullmatch(text):
            yield "under-test", f"use `{text}`, which controls comparison or execution"
        elif _TESTING.search(text):
            yield "under-test", f"refer to its tests: `{' '.join(text.split())[:60]}`"


def _exits(tree: ast.Module, names: Names) -> Iterator[Finding]:
    """Exits at import time. `sys.exit` at the end of a `main` function is ordinary."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            waiting += statement.orelse
            continue
        inner = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt)]
        inner += [child for handler in getattr(statement, "handlers", ()) for child in handler.body]
        waiting += inner
        if isinstance(statement, ast.Raise) and "SystemExit" in ast.unparse(statement):
            yield "way-out", _LEAVE
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            called = names.of(statement.value.func) or last(statement.value.func)
            if called in ("sys.exit", "exit", "quit"):
                yield "way-out", _LEAVE
