"""Finds what the user's tests import: the module that is to be written, and perhaps its function. Pure.

Modules of the standard library and of pytest are there without the code; each other module may be the one. If the function's
name is known, it is the module from which the tests take that name. Else it is `solution`, if nothing or that is imported, or
the only module there is. If none of this decides, the user is asked for the name.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

MODULE = "solution"
THERE = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"}
"""What tests can import besides the code: the standard library of this process's Python, whose version may differ from the
sandbox's, and pytest."""


class BadSpecification(Exception):
    """The specification cannot be used; the message is one line that says why and what to do."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """`from module import name as bound`."""

    module: str
    name: str
    bound: str


def home(tests: str, name: str) -> tuple[str, str]:
    """The module from which the tests import the code, and the function's name if it is clear. Raises `BadSpecification`."""
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError) as error:
        at = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadSpecification(f"the tests are not Python{at}: {why}; give a file of pytest functions") from None
    if not any(bound.lower().startswith("test") for bound in bound_in(tree)):
        raise BadSpecification("the tests have no function whose name starts with `test`; give a file of pytest functions")
    called = {_spelled(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    modules, taken = _imports(tree, called)
    own = list(dict.fromkeys([*modules.values(), *(each.module for each in taken)]))
    if not name:
        return _without_name(own, modules, taken, called)
    attributes = {_spelled(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    stars = [each.module for each in taken if each.name == "*"]
    found = [each.module for each in sorted(taken, key=lambda each: each.bound != name) if each.name == name]
    if name in unbound_in(tree):
        found += stars[-1:] or [MODULE]  # imported from there later
    found += [module for bound, module in modules.items() if f"{bound}.{name}" in attributes]
    if MODULE in own or not own:
        found.append(MODULE)
    if len(own) == 1 and (len(taken) == len(stars) or mentions(tree, name)):  # reached by a command line, `getattr`, …
        found += own
    if found:
        return found[0], name
    raise BadSpecification(
        f"the tests import from {' and '.join(sorted(own))}, and `{name}` is not used as a function of one of them; "
        f"import `{name}` from the module that is to be written"
    )


def _without_name(own: list[str], modules: dict[str, str], taken: list[_Taken], called: set[str]) -> tuple[str, str]:
    if MODULE in own or not own:
        module = MODULE
    elif len(own) == 1:
        (module,) = own
    elif len(packages := {module.partition(".")[0] for module in own}) == 1:
        (module,) = packages
    else:
        raise BadSpecification(
            f"the tests import from {' and '.join(sorted(own))}, and it is not clear which of them is to be written; "
            "give the function's name (`--fn`, or `name` over HTTP)"
        )
    uses = {each.name: each.bound for each in taken if each.module == module}
    for bound in (bound for bound, known in modules.items() if known == module):
        uses |= {use.rpartition(".")[2]: use for use in called if use.rpartition(".")[0] == bound}
    if len(uses) != 1:
        return module, ""
    ((name, use),) = uses.items()
    return module, name if use in called and not is_class(name) else ""


def _imports(tree: ast.Module, called: set[str]) -> tuple[dict[str, str], list[_Taken]]:
    """By spelling, the modules that are used as such; and what is taken from others. Only of what is not there anyway.

    Raises `BadSpecification`.
    """
    modules, taken = dict[str, str](), list[_Taken]()
    for node in _walk_imports(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names if is_own(alias.name)}
        elif node.module and not node.level:
            taken += [
                _Taken(node.module, alias.name, alias.asname or alias.name) for alias in node.names if is_own(node.module)
            ]
        elif node in tree.body:  # elsewhere, it may never run
            raise BadSpecification(
                "the tests have a relative import, and they are no package; import from the module's name, without dots"
            )
    bases = {use.rpartition(".")[0] for use in called}
    inner = [each for each in taken if each.bound in bases - called and not is_class(each.name)]  # a module of a package
    modules |= {each.bound: f"{each.module}.{each.name}" for each in inner}
    return modules, [each for each in taken if each not in inner]


def _walk_imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports, without those that only replace others which fail: `except ImportError: from old import slug`."""
    left = deque([tree])
    while left:
        node = left.popleft()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        is_tried = isinstance(node, ast.Try) and any(
            isinstance(each, ast.Import) or (isinstance(each, ast.ImportFrom) and not each.level) for each in node.body
        )
        left.extend(child for child in ast.iter_child_nodes(node) if not (is_tried and isinstance(child, ast.ExceptHandler)))


def is_own(module: str) -> bool:
    return module.partition(".")[0] not in THERE


def is_class(name: str) -> bool:
    """By the usual spelling."""
    return name.lstrip("_")[:1].isupper()


def bound_in(tree: ast.AST) -> set[str]:
    """All names that definitions, imports, assignments and parameters bind."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def unbound_in(tree: ast.AST) -> set[str]:
    """The names that are used and nowhere bound."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used - bound_in(tree)


def mentions(tree: ast.AST, name: str) -> bool:
    """Whether the name is used, imported or defined, or a string has it."""
    for node in ast.walk(tree):
        if name in (getattr(node, "id", ""), getattr(node, "attr", "")):
            return True
        said = node.value if isinstance(node, ast.Constant) else getattr(node, "name", "")
        if isinstance(said, str) and name in said.split("."):
            return True
    return False


def _spelled(node: ast.expr) -> str:
    """ "slugs.slug" for a name or an attribute of one; else ""."""
    parts = list[str]()
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""
