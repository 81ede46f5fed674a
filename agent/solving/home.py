"""Finds what the user's tests import: the module that is to be written, and perhaps its function. Pure.

Each module that is not there without the code may be the one. If the function's name is known, it is the module from which the
tests take that name. Else it is `solution`, if that or nothing is imported, or the only module there is. If none of this
decides, the user is asked for the name.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass

from agent.source import syntax

MODULE = "solution"
THERE = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"}
"""What tests can import besides the code: the standard library of this process's Python, whose version may differ from the
sandbox's, and pytest."""
DEEPEST = 20  # names in a spelling


class BadSpecification(Exception):
    """The specification cannot be used; the message is one line that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a module has, and how the tests spell it: `slugs.slug`. `name` is "" for the module itself."""

    module: str
    name: str
    spelled: str


def home(tests: str, name: str) -> tuple[str, str]:
    """The module from which the tests import the code, and the function's name if it is clear. Raises `BadSpecification`."""
    try:
        tree = syntax.tree(tests)
    except (SyntaxError, ValueError) as error:
        at = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadSpecification(f"the tests are not Python{at}: {why}; give a file of pytest functions") from None
    if not any(bound.lower().startswith("test") for bound in bound_in(tree)):
        raise BadSpecification("the tests have no function whose name starts with `test`; give a file of pytest functions")
    if any(isinstance(node, ast.ImportFrom) and node.level for node in tree.body):  # elsewhere, it may never run
        raise BadSpecification(
            "the tests have a relative import, and they are no package; import from the module's name, without dots"
        )
    called, found = _called(tree), taken(tree)
    if name in unbound_in(tree):  # `*` brings it, or it is imported later
        found.append(Taken(next((each.module for each in reversed(found) if each.name == "*"), MODULE), name, name))
    if named := [each for each in found if name and each.name == name]:
        return max(named, key=lambda each: each.spelled == name).module, name
    own = sorted({each.module for each in found})
    if MODULE in own or not own:
        module = MODULE
    elif len(own) == 1 and (not name or mentions(tests, name)):
        (module,) = own
    elif name:
        raise BadSpecification(
            f"the tests import from {' and '.join(own)}, and `{name}` is not used as a function of one of them; "
            f"import `{name}` from the module that is to be written"
        )
    else:
        raise BadSpecification(
            f"the tests import from {' and '.join(own)}, and it is not clear which of them is to be written; "
            "give the function's name (`--fn`, or `name` over HTTP)"
        )
    used = [each for each in found if each.module == module and each.name]
    is_clear = len(used) == 1 and used[0].spelled in called and not is_class(used[0].name)
    return module, name or (used[0].name if is_clear else "")


def taken(tree: ast.AST) -> list[Taken]:
    """What the code imports, and what it uses of imported modules, except from those that are there anyway."""
    found, called = list[Taken](), _called(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Taken(alias.name, "", alias.asname or alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [Taken(node.module, alias.name, alias.asname or alias.name) for alias in node.names]
    found = [each for each in found if each.module.partition(".")[0] not in THERE]
    bases = {use.rpartition(".")[0] for use in called} - called
    for at, each in enumerate(found):
        if each.name and each.spelled in bases and not is_class(each.name):  # a module of a package
            found[at] = Taken(f"{each.module}.{each.name}", "", each.spelled)
    modules = {each.spelled: each.module for each in found if not each.name}
    uses = sorted({spelled(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)})
    parts = [(base, name) for base, _, name in (use.rpartition(".") for use in uses)]
    return found + [Taken(modules[base], name, f"{base}.{name}") for base, name in parts if base in modules]


def is_class(name: str) -> bool:
    """By the usual spelling."""
    return name.lstrip("_")[:1].isupper()


def bound_in(tree: ast.AST) -> set[str]:
    """All names that definitions, imports, assignments and parameters bind."""
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                found.add(name)
            case ast.alias(asname=str(name)) | ast.alias(name=name) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
    return found


def unbound_in(tree: ast.AST) -> set[str]:
    """The names that are used and nowhere bound."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used - bound_in(tree)


def mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _called(tree: ast.AST) -> set[str]:
    return {spelled(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def spelled(node: ast.expr) -> str:
    """ "slugs.slug" for a name or an attribute of one; else ""."""
    parts = list[str]()
    while isinstance(node, ast.Attribute) and len(parts) < DEEPEST:
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""
