"""Patterns on names: a variable, an attribute or a called function is confused with a similar one."""

from __future__ import annotations

import ast
import builtins
import difflib
import importlib
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from types import ModuleType
from typing import TypeGuard

from agent.proposers.patterns.operators import is_idle
from agent.proposers.patterns.source import (
    FunctionNode,
    Rewrite,
    Source,
    assigned,
    is_compound,
    likeness,
    names_in,
    quoted,
    unread,
)

MAX_NAMES, MAX_CONSTANTS = 14, 6
_UNDERSCORED = re.compile(r"[A-Za-z]\w*_\w+")
AWAITED = 0.8  # prior of a variable that was assigned and is not read anywhere
QUESTIONS = frozenset({"hasattr", "isinstance", "issubclass", "callable", "any", "all", "startswith", "endswith", "isdigit"})
MAX_EXPRESSIONS = 10
# Modules of the standard library whose names may be confused. Importing some others does something.
LIBRARY = frozenset({
    "array", "ast", "asyncio", "base64", "binascii", "bisect", "bz2", "calendar", "cmath", "codecs", "collections", "colorsys",
    "contextlib", "copy", "csv", "datetime", "decimal", "difflib", "fnmatch", "fractions", "functools", "glob", "gzip",
    "hashlib", "heapq", "hmac", "html", "io", "ipaddress", "itertools", "json", "keyword", "locale", "logging", "lzma",
    "math", "mimetypes", "numbers", "operator", "os", "os.path", "pickle", "posixpath", "pprint", "queue", "quopri", "random",
    "re", "secrets", "shlex", "shutil", "signal", "socket", "ssl", "stat", "statistics", "string", "struct", "subprocess",
    "sys", "tempfile", "textwrap", "threading", "time", "tokenize", "types", "typing", "unicodedata", "urllib.parse", "uuid",
    "warnings", "zlib",
})  # fmt: skip
MOST_SIBLINGS, SIBLING = 4, 0.5  # names of a module that are taken for each other: how many, and their likeness
ALIKE = 0.6  # likeness of names that are taken for each other, although they are of different kinds
FORMS = (  # in which a forgotten argument might be used
    ("{}", 0.6), ("str({})", 0.45), ("len({})", 0.45), ("int({})", 0.4), ("abs({})", 0.4), ("bin({})", 0.36),
    ("sorted({})", 0.36), ("set({})", 0.36), ("-{}", 0.36),
)  # fmt: skip
TOGETHER = ("{0} + {1}", "{1} + {0}", "{0} - {1}", "{1} - {0}", "{0} * {1}")
MOST_PARTS = 4


def variables(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Another name of the same scope; names that seem to hold the same kind of value come first."""
    if not isinstance(node, ast.Name):
        return
    function = source.function(node)
    if function is None:
        return
    kinds = source.once(_kinds, function)
    if node.id.isupper() and isinstance(node.ctx, ast.Load):
        for rank, name in enumerate(_other_constants(source, node.id)):
            yield source.replaced(node, name, 0.6 - 0.03 * rank)
    called = isinstance(parent := source.parents[node], ast.Call) and node is parent.func
    names = [n for n in scope(source, node) if n != node.id] if not called else _functions(source, node.id)
    own, is_read = kinds.get(node.id), isinstance(node.ctx, ast.Load)
    waiting = source.once(_never_read, function) if is_read else frozenset[str]()
    names.sort(key=lambda n: (n not in waiting, kinds.get(n) != own if own else False, -likeness(n, node.id)))
    base = 0.7 if is_read else 0.45
    for rank, name in enumerate(names[:MAX_NAMES]):
        prior = base - 0.02 * rank - (0.25 if own and kinds.get(name) not in (None, own) else 0)
        prior = AWAITED if name in waiting else prior
        change = source.replaced(node, name, max(prior, 0.1))
        yield change if called else replace(change, names=(node.id, name))


def _other_constants(source: Source, name: str) -> list[str]:
    """Other constants of the module; those that one statement defines with this one come first."""
    groups = source.once(_constants, source.tree)
    own = next((group for group in groups if name in group), [])
    rest = [each for group in groups if group is not own for each in group]
    others = [each for each in own if each != name]
    return [*others, *sorted(rest, key=lambda each: -likeness(each, name))][:MAX_CONSTANTS] if own else []


def _constants(source: Source, tree: ast.Module) -> list[list[str]]:
    """The names in capitals that each statement of the module defines or imports."""
    groups = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [each.asname or each.name for each in node.names]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
        else:
            continue
        groups.append([name for name in names if name.isupper()])
    return [group for group in groups if group]


def scope(source: Source, node: ast.AST) -> list[str]:
    """Names of the innermost function at the node and of its enclosing functions: arguments first, then assigned names; none
    at module level."""
    function = node if isinstance(node, FunctionNode) else source.function(node)
    return list(source.once(_scope, function)) if function is not None else []


def _scope(source: Source, function: FunctionNode) -> list[str]:
    names: dict[str, None] = {}
    around = [function, *(n for n in source.above(function) if isinstance(n, FunctionNode))]
    for each in around:
        a = each.args
        names |= {x.arg: None for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x is not None}
        for inner in ast.walk(each):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                names[inner.id] = None
    return [n for n in names if n not in ("self", "cls", "_")]


def _functions(source: Source, name: str) -> list[str]:
    """Functions of the module with a similar name, or its classes if the name is written like one. Nobody takes a builtin
    function for one of them, unless the names are alike."""
    known = [n.name for n in source.tree.body if isinstance(n, FunctionNode | ast.ClassDef)]
    of_the_kind = [n for n in known if n != name and n[:1].isupper() == name[:1].isupper()]
    return difflib.get_close_matches(name, of_the_kind, 6, ALIKE if hasattr(builtins, name) else 0.3)


def _kinds(source: Source, function: FunctionNode) -> dict[str, str]:
    """The kind of value that each name seems to hold, guessed from assignments, loops and annotations."""
    kinds: dict[str, str] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                kinds.setdefault(name, _kind(value))
            case (
                ast.For(iter=ast.Call(func=ast.Name(id="range")), target=ast.Name(id=name))
                | ast.For(iter=ast.Call(func=ast.Name(id="enumerate")), target=ast.Tuple(elts=[ast.Name(id=name), *_]))
            ):
                kinds[name] = "number"
            case ast.arg(arg=name, annotation=ast.Name(id=kind)):
                kinds[name] = {"int": "number", "float": "number", "str": "text"}.get(kind, kind)
            case ast.arguments(posonlyargs=first, args=rest, defaults=[*defaults]) if defaults:
                for each, default in zip([*first, *rest][-len(defaults) :], defaults, strict=True):
                    kinds.setdefault(each.arg, _kind(default))
    return {name: kind for name, kind in kinds.items() if kind}


def kind_of(source: Source, function: FunctionNode, node: ast.expr) -> str:
    """The kind of value that an expression seems to have ("number", "text", "list", "dict", "set", "truth"), or ""."""
    return source.once(_kinds, function).get(node.id, "") if isinstance(node, ast.Name) else _kind(node)


def _kind(value: ast.expr) -> str:
    match value:
        case ast.Constant(value=str()) | ast.JoinedStr() | ast.Call(func=ast.Name(id="str" | "bin" | "hex" | "repr" | "chr")):
            return "text"
        case ast.Constant(value=bool()):
            return "truth"
        case ast.Constant(value=int() | float()):
            return "number"
        case ast.List() | ast.ListComp() | ast.Call(func=ast.Name(id="list" | "sorted")):
            return "list"
        case ast.Dict() | ast.DictComp() | ast.Call(func=ast.Name(id="dict")):
            return "dict"
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set")):
            return "set"
        case (
            ast.Call(func=ast.Name(id="len" | "int" | "sum" | "abs" | "round" | "float"))
            | ast.BinOp(right=ast.Constant(value=int()))
        ):
            return "number"
    return ""


def attributes(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Another attribute that the class (or the module) uses on the same object or a similar one, or that a module of the
    standard library has; first those that only the function's docstring names, then the nearest spelling."""
    if not isinstance(node, ast.Attribute):
        return
    owner, unlikely = source.segment(node.value), {node.attr}
    around: ast.AST = next((n for n in source.above(node) if isinstance(n, ast.ClassDef)), source.tree)
    used = source.once(_attributes, around)
    known = set(used.get(owner, ()))
    if owner in ("self", "cls") and isinstance(around, ast.ClassDef):
        methods = {n.name: n for n in around.body if isinstance(n, FunctionNode)}
        known |= methods.keys()
        if not isinstance(node.ctx, ast.Load):
            unlikely |= {name for name, method in methods.items() if not method.decorator_list}  # nobody assigns to a method
    known |= _of_the_library(source, owner, node.attr)
    alike = set[str]().union(*(names for other, names in used.items() if node.attr in names)) - known  # perhaps of one type
    ranked = [name for names in (known - unlikely, alike) for name in sorted(names, key=lambda a: (-likeness(a, node.attr), a))]
    function = source.function(node)
    told = source.once(_only_told, function) if function is not None else frozenset[str]()
    ranked.sort(key=lambda name: name not in told)
    _, end = source.span(node)
    for rank, name in enumerate(ranked[:8]):
        prior = AWAITED if name in told else 0.6 - 0.04 * rank
        yield Rewrite(end - len(node.attr), end, name, quoted(f"{owner}.{node.attr}", f"{owner}.{name}"), prior)


def _only_told(source: Source, function: FunctionNode) -> frozenset[str]:
    """The names with an underscore, unlike prose, that the docstring has and the code has not."""
    used = {each.attr for each in ast.walk(function) if isinstance(each, ast.Attribute)} | {*names_in(function)}
    return frozenset(_UNDERSCORED.findall(ast.get_docstring(function) or "")) - used


def _of_the_library(source: Source, owner: str, name: str) -> set[str]:
    """What a module of the standard library has of the same kind and with a similar name: `compress` for `decompress`.

    Not its submodules: which of them it has depends on what this process has loaded.
    """
    modules = source.once(_imported, source.tree)
    path = modules.get(owner, owner if owner.partition(".")[0] in modules else "")
    module = importlib.import_module(path) if path in LIBRARY else None
    own = getattr(module, name, None)
    if own is None or isinstance(own, ModuleType):
        return set()
    others = [each for each in dir(module) if not each.startswith("_") and isinstance(getattr(module, each), type(own))]
    return set(difflib.get_close_matches(name, [each for each in others if each != name], MOST_SIBLINGS, SIBLING))


def _imported(source: Source, tree: ast.Module) -> dict[str, str]:
    """The names under which modules are imported as a whole, with the modules' names."""
    found = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    tops = ((each, each.name.partition(".")[0]) for each in found)
    return {each.asname or top: each.name if each.asname else top for each, top in tops}


def _attributes(source: Source, around: ast.AST) -> dict[str, set[str]]:
    """The attributes that are used on each object."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(around):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            found.setdefault(source.segment(node.value), set()).add(node.attr)
    return found


def sliced(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A whole sequence is used where a slice is meant."""
    function = source.function(node)
    if function is None or not _is_value(node, source) or not isinstance(node, ast.Name | ast.Attribute):
        return
    kinds, before = source.once(_kinds, function), source.segment(node)
    if kinds.get(before, "list") not in ("list", "text"):
        return
    unused = source.once(unread, function)
    for rank, name in enumerate(_numbers(source, function, {before})):
        for text in (f"{before}[{name}:]", f"{before}[:{name}]"):
            yield source.replaced(node, text, 0.55 if name in unused else 0.36 - 0.01 * rank)


def bounded(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A slice has only one of its two bounds."""
    function = source.function(node)
    if function is None or not _is_value(node, source):
        return
    match node:
        case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=ast.expr() as bound, step=None)):
            form = "{0}[{2}:{1}]"
        case ast.Subscript(value=value, slice=ast.Slice(lower=ast.expr() as bound, upper=None, step=None)):
            form = "{0}[{1}:{2}]"
        case _:
            return
    for rank, name in enumerate(_numbers(source, function, names_in(node))):
        yield source.replaced(node, form.format(source.segment(value), source.segment(bound), name), 0.4 - 0.01 * rank)


def _numbers(source: Source, function: FunctionNode, without: Collection[str]) -> list[str]:
    """Names in scope that may stand for numbers."""
    kinds = source.once(_kinds, function)
    found = [n for n in scope(source, function) if kinds.get(n, "number") == "number" and n not in without]
    return found[:MAX_EXPRESSIONS]


def offset(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Adds a term of the same kind: adds or subtracts a number, prepends or appends a list or a text."""
    function = source.function(node)
    if function is None or not _is_value(node, source):
        return
    parent = source.parents[node]
    if not isinstance(parent, ast.Call | ast.Return | ast.Compare | ast.Slice | ast.Assign) and not (
        isinstance(parent, ast.Subscript) and node is parent.slice
    ):
        return
    before, kinds = source.segment(node), source.once(_kinds, function)
    own = kinds.get(before, "number") if isinstance(node, ast.Name) else _kind(node)
    if own == "number" and isinstance(node, ast.Name):
        forms: tuple[str, ...] = ("{0} - {1}", "{0} + {1}")
    elif own in ("list", "text") and isinstance(parent, ast.Return | ast.Assign) and not isinstance(node, ast.Constant):
        forms = ("{1} + {0}", "{0} + {1}")
    else:
        return
    names = [n for n in scope(source, function) if n != before and kinds.get(n, own) == own]
    for rank, name in enumerate(names[:MAX_EXPRESSIONS]):
        for form in forms:
            yield source.replaced(node, form.format(before, name), 0.33 - 0.01 * rank, compound=True)


def forgotten(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Uses what nothing reads yet, an argument or a variable: instead of this name or constant, or together with this value."""
    if not _is_value(node, source) or not isinstance(node, ast.Name | ast.Constant | ast.Attribute | ast.Subscript | ast.Call):
        return
    holder = next((n for n in source.above(node) if isinstance(n, FunctionNode | ast.Lambda)), None)
    if holder is None or any(part is node for part in ast.walk(holder.args)):
        return
    before = source.segment(node)
    is_number = isinstance(holder, FunctionNode) and kind_of(source, holder, node) == "number"
    together = [form for form in TOGETHER if not (is_number and form == "{1} + {0}")]
    for name in source.once(unread, holder):
        for form, prior in FORMS if isinstance(node, ast.Name | ast.Constant) else ():
            if (text := form.format(name)) != before:
                yield source.replaced(node, text, prior, compound=text.startswith("-"))
        for part in _parts(source, holder, name):
            for rank, form in enumerate(together):
                yield source.replaced(node, form.format(before, part), 0.55 - 0.03 * rank, compound=True)


def _never_read(source: Source, function: FunctionNode) -> frozenset[str]:
    """Variables that are assigned for nothing: where another name is read, they were perhaps meant."""
    return frozenset(source.once(unread, function)) & assigned(function)


def _parts(source: Source, holder: FunctionNode | ast.Lambda, name: str) -> list[str]:
    """The name, or its items if a tuple, or a call with a tuple such as `known.get(key, (0, 0))`, is assigned to it."""
    for node in ast.walk(holder):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                tuples = [value, *value.args] if isinstance(value, ast.Call) else [value]
                sizes = [len(each.elts) for each in tuples if isinstance(each, ast.Tuple)]
                return [f"{name}[{at}]" for at in range(min(max(sizes, default=0), MOST_PARTS))] or [name]
    return [name]


def _is_value(node: ast.AST, source: Source) -> TypeGuard[ast.expr]:
    """Is it an expression whose value is read, and not the function of a call?"""
    if not isinstance(node, ast.expr) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    parent = source.parents[node]
    if isinstance(parent, ast.Expr | ast.JoinedStr | ast.FormattedValue):
        return False
    return not (isinstance(parent, ast.Call) and node is parent.func)


def expressions(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Replaces an expression by a name, or a name by an expression of the same function."""
    function = source.function(node) if isinstance(node, ast.expr) else None
    if function is None:
        return
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        for text, _ in _donors(source, function, node, ending="]"):
            yield source.replaced(node, text, 0.36)
        return
    if not _is_value(node, source):
        return
    if isinstance(node, ast.Call | ast.BinOp | ast.Subscript | ast.Attribute | ast.Constant):
        for rank, name in enumerate(scope(source, function)[:MAX_NAMES]):
            if _may_be_a_name(node, name):
                yield source.replaced(node, name, 0.42 - 0.01 * rank)
    if isinstance(node, ast.Name | ast.Constant | ast.Subscript | ast.Call):
        donors = _donors(source, function, node)
        if _is_question(source.segment(node)):
            donors = [each for each in donors if _is_question(each[0])]
        for rank, (text, compound) in enumerate(donors):
            if not is_idle(source.parents[node], node, text):
                yield source.replaced(node, text, 0.38 - 0.01 * rank, compound=compound)


def _may_be_a_name(node: ast.expr, name: str) -> bool:
    """Nobody computes a value from several others where a plain variable is meant, nor takes an attribute by accident, unless
    they are called alike."""
    if isinstance(node, ast.Attribute):
        return likeness(node.attr, name) >= ALIKE
    if isinstance(node, ast.Call | ast.BinOp):
        read = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - vars(builtins).keys()
        return len(read | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}) <= 1
    return True


def _is_question(text: str) -> bool:
    """Whether it calls a builtin function or a method that answers with True or False."""
    return text.partition("(")[0].rpartition(".")[2] in QUESTIONS


def _donors(source: Source, function: FunctionNode, node: ast.expr, ending: str = "") -> list[tuple[str, bool]]:
    """Expressions of the same function; those similar to the replaced one come first."""
    before = source.segment(node)
    head = before.split("(")[0] + "("
    others = [entry for entry in source.once(_short_expressions, function) if entry[0] != before and entry[0].endswith(ending)]
    return sorted(others, key=lambda entry: not entry[0].startswith(head))[:MAX_EXPRESSIONS]


def _short_expressions(source: Source, function: FunctionNode) -> list[tuple[str, bool]]:
    """The text of each, and whether it needs parentheses elsewhere."""
    found: dict[str, bool] = {}
    annotations = {
        part
        for node in ast.walk(function)
        for held in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if held is not None
        for part in ast.walk(held)
    }
    for node in ast.walk(function):
        if node in annotations:
            continue
        if isinstance(node, ast.Call | ast.BinOp | ast.Subscript | ast.Attribute | ast.Tuple | ast.Constant):
            text = source.segment(node)
            written = isinstance(getattr(node, "ctx", None), ast.Store)
            if len(text) <= (20 if isinstance(node, ast.Constant) else 40) and "\n" not in text and not written:
                found.setdefault(text, is_compound(node))
    return list(found.items())
