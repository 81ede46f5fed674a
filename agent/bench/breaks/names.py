"""Slips with names: the wrong variable, attribute, key, exception or method. Each operator yields its possible edits."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from agent.bench.breaks.code import Code, Edit, Function, literal, nearest

_SIBLINGS = {
    "ValueError": "TypeError", "TypeError": "ValueError", "KeyError": "IndexError", "IndexError": "KeyError",
    "AttributeError": "KeyError", "OSError": "RuntimeError", "RuntimeError": "ValueError",
    "FileNotFoundError": "PermissionError", "UnicodeDecodeError": "UnicodeEncodeError",
    "UnicodeEncodeError": "UnicodeDecodeError",
    "NotImplementedError": "RuntimeError", "ImportError": "AttributeError", "OverflowError": "ZeroDivisionError",
}  # fmt: skip
_METHODS = {
    "startswith": "endswith", "endswith": "startswith", "lstrip": "strip", "rstrip": "strip", "split": "rsplit",
    "rsplit": "split", "partition": "rpartition", "rpartition": "partition", "append": "extend", "extend": "append",
    "popleft": "pop", "appendleft": "append", "find": "rfind", "rfind": "find", "search": "match", "match": "search",
    "fullmatch": "match", "keys": "values", "values": "keys", "items": "values", "union": "intersection", "isdigit": "isalnum",
    "removeprefix": "removesuffix", "removesuffix": "removeprefix", "ljust": "rjust", "rjust": "ljust",
    "lower": "upper", "upper": "lower", "issubset": "issuperset", "discard": "remove",
}  # fmt: skip
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SIMILAR = 0.4  # below it, nobody takes one name for the other


def wrong_variable(code: Code) -> Iterator[Edit]:
    """Another variable that has a value there, the one with the most similar name."""
    called = {id(node.func) for node in code.nodes if isinstance(node, ast.Call)}
    beside: dict[int, set[str]] = {}  # the names on each line: none of them is taken for another one there
    for node in code.nodes:
        if isinstance(node, ast.Name):
            beside.setdefault(node.lineno, set()).add(node.id)
    for node in code.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in code.bound and id(node) not in called:
            known = (name for name, line in code.bound.items() if line < node.lineno and name not in beside[node.lineno])
            other = nearest(node.id, known)
            if other is not None:
                yield code.replaced(node, other)


def wrong_attribute(code: Code) -> Iterator[Edit]:
    """Another attribute that the class or the function uses on the same variable, both called or both not."""
    scope = code.owner or code.node
    used: dict[tuple[str, bool], list[str]] = {}
    called = {id(node.func) for node in ast.walk(scope) if isinstance(node, ast.Call)}
    for node in ast.walk(scope):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and not node.attr.startswith("__"):
            used.setdefault((node.value.id, id(node) in called), []).append(node.attr)
    for node in code.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            other = nearest(node.attr, used.get((node.value.id, id(node) in called), []), _SIMILAR)
            if other is not None and not node.attr.startswith("__"):
                yield code.replaced(node, f"{code.source(node.value)}.{other}")


def wrong_key(code: Code) -> Iterator[Edit]:
    """Another key of the same module, preferably one that is looked up in the same mapping."""
    keys = code.module.keys
    for node in code.nodes:
        places: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.Subscript):
            places = [(ast.unparse(node.value), node.slice)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr in ("get", "pop", "setdefault"):
                places = [(ast.unparse(node.func.value), node.args[0])]
        elif isinstance(node, ast.Dict):
            places = [("", key) for key in node.keys if key is not None]
        for where, place in places:
            for key in literal(place):
                other = nearest(key, keys.get(where, ())) or nearest(key, keys[""], _SIMILAR)
                if other is not None:
                    quote = code.source(place)[-1:]
                    yield code.replaced(place, f"{quote}{other}{quote}" if quote in "'\"" else repr(other))


def sibling_exception(code: Code) -> Iterator[Edit]:
    """Another exception is raised or caught: a built-in sibling, or the module's own with the most similar name."""
    own = [name for name in code.module.exceptions if not hasattr(builtins, name)]
    for node in code.nodes:
        named = node.exc if isinstance(node, ast.Raise) else node.type if isinstance(node, ast.ExceptHandler) else None
        named = named.func if isinstance(named, ast.Call) else named
        every = named.elts if isinstance(named, ast.Tuple) else [named]
        for one in every:
            if isinstance(one, ast.Name):
                other = _SIBLINGS.get(one.id) or (nearest(one.id, own) if one.id in own else None)
                if other is not None and not any(isinstance(each, ast.Name) and each.id == other for each in every):
                    yield code.replaced(one, other)


def wrong_method(code: Code) -> Iterator[Edit]:
    """A method or function that is often confused with the right one, such as `max` for `min`."""
    for node in code.nodes:
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            yield code.replaced(node.func, f"{code.source(node.func.value)}.{_METHODS[node.func.attr]}")
        elif isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            yield code.replaced(node.func, _FUNCTIONS[node.func.id])


def get_for_setdefault(code: Code) -> Iterator[Edit]:
    """The default is returned, but not stored."""
    for node in code.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setdefault":
            yield code.replaced(node.func, f"{code.source(node.func.value)}.get")


def wrong_function(code: Code) -> Iterator[Edit]:
    """Another method of the class or function of the module that takes as many parameters, with the most similar name."""
    home = code.owner.body if code.owner is not None else code.module.tree.body
    known = {node.name: _arity(node) for node in home if isinstance(node, Function) and not node.name.startswith("__")}
    for node in code.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        )
        is_own = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "self"
        if name in known and is_own == (code.owner is not None):
            alike = (
                each
                for each, arity in known.items()
                if arity == known[name] and each != code.node.name and each.startswith("_") == name.startswith("_")
            )
            other = nearest(name, alike, _SIMILAR)
            if other is not None:
                yield code.replaced(node.func, f"self.{other}" if is_own else other)


def lost_text(code: Code) -> Iterator[Edit]:
    """A literal text lacks its last character, such as the space after a comma."""
    unused = {id(node.value) for node in code.nodes if isinstance(node, ast.Expr)}  # such as docstrings
    for node in code.nodes:
        if (
            id(node) not in unused
            and isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and 1 < len(node.value) < 40
        ):
            text = code.source(node)
            if text[:1] in "'\"" and text[:1] == text[-1:] and not text[-2].isalnum() and text[-2] not in "\\'\"}])":
                yield code.replaced(node, text[:-2] + text[-1])


def _arity(node: Function) -> tuple[int, int]:
    return len(node.args.args), len(node.args.kwonlyargs)
