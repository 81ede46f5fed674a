"""Patterns that follow other code of the same file: its dictionary keys, exceptions, guards, and what its functions return."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from agent.proposers.patterns.source import (
    FunctionNode,
    Rewrite,
    Source,
    arguments,
    called_name,
    each_of,
    first_statement,
    likeness,
    parameters,
    quoted,
    short,
)

LOOKUPS = ("get", "pop", "setdefault")
MOST_KEYS, MOST_TYPES, MOST_EXCEPTIONS, MOST_GUARDS, MOST_RETURNED = 8, 4, 6, 8, 4
MOST_PLACES = 6  # statements of a function before which a guard is tried
LONGEST_GUARD = 200  # characters
TABLE = 100  # keys of one file from which a table at module level is not searched
_ENDINGS = ("Error", "Exception", "Warning", "Exit", "Interrupt")


def keys(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Another key of the same file for one that is looked up or written down; those of the same mapping come first."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or (where := _mapping_of(source, node)) is None:
        return
    known = source.once(_keys, source.tree)
    if len(known[""]) > TABLE and source.function(node) is None:
        return
    same = [key for key in known[where] if key != node.value] if where else []
    others = [key for key in known[""][:TABLE] if key != node.value and key not in same]
    ranked = [key for group in (same, others) for key in sorted(group, key=lambda key: -likeness(key, str(node.value)))]
    quote = source.segment(node)[-1:]
    for rank, key in enumerate(ranked[:MOST_KEYS]):
        text = f"{quote}{key}{quote}" if quote in "'\"" and key.isprintable() and not {quote, "\\"} & set(key) else repr(key)
        named = key in source.words
        yield source.replaced(node, text, (0.7 if named else 0.6) - 0.03 * rank, title=quoted(source.segment(node), text))


def types(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """The types for which another check of the same file asks, where this one asks for one of them only, or for one more;
    and those from which the class inherits."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
            own = _type_names(source, asked)
            near = [text for text, names in source.once(_asked, source.tree).items() if names < own or own < names]
            inside = next((each for each in source.above(node) if isinstance(each, ast.ClassDef)), None)
            near += [name for name in (_bases(inside) if inside is not None else ()) if {name} != own]
            for rank, text in enumerate(near[:MOST_TYPES]):
                yield source.replaced(asked, text, 0.55 - 0.03 * rank)


def _type_names(source: Source, asked: ast.expr) -> frozenset[str]:
    return frozenset(map(source.segment, each_of(asked)))


def _asked(source: Source, tree: ast.Module) -> dict[str, frozenset[str]]:
    """The types that each check of the file asks for, by its text."""
    found: dict[str, frozenset[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
                found[source.segment(asked)] = _type_names(source, asked)
    return found


def _mapping_of(source: Source, node: ast.Constant) -> str | None:
    """The text of the mapping in which the constant is a key, "" for one that is written down; None if it is no key."""
    parent = source.parents[node]
    match parent:
        case ast.Subscript(value=value, slice=index) if index is node:
            return source.segment(value)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[first, *_]) if first is node and name in LOOKUPS:
            return source.segment(value)
        case ast.Dict() if node in source.once(_written, parent):
            return ""
    return None


def _written(source: Source, node: ast.Dict) -> frozenset[ast.expr | None]:
    return frozenset(node.keys)


def _keys(source: Source, tree: ast.Module) -> dict[str, list[str]]:
    """The keys of each mapping, by its text; all of them under ""."""
    found: dict[str, dict[str, None]] = {"": {}}
    for node in source.parents:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= 60:
            where = _mapping_of(source, node)
            if where is not None:
                found[""][node.value] = None
                found.setdefault(where, {})[node.value] = None
    return {where: list(known) for where, known in found.items()}


def exceptions(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Another exception of the same file is raised or caught; those that the failing tests name come first."""
    if not isinstance(node, ast.Name) or not _is_exception(source, node):
        return
    known = [name for name in source.once(_exceptions, source.tree) if name != node.id]
    known.sort(key=lambda name: (name not in source.words, -likeness(name, node.id)))
    for rank, name in enumerate(known[:MOST_EXCEPTIONS]):
        yield source.replaced(node, name, (0.8 if name in source.words else 0.5) - 0.03 * rank)


def _is_exception(source: Source, node: ast.Name) -> bool:
    parent = source.parents[node]
    if (isinstance(parent, ast.Call) and parent.func is node) or isinstance(parent, ast.Tuple):
        node_above = source.parents.get(parent)
        return isinstance(node_above, ast.Raise) or (isinstance(node_above, ast.ExceptHandler) and node_above.type is parent)
    return isinstance(parent, ast.Raise) or (isinstance(parent, ast.ExceptHandler) and parent.type is node)


def _exceptions(source: Source, tree: ast.Module) -> list[str]:
    """The exceptions that the file defines, imports, raises or catches, and built-in ones that the failing tests name."""
    found: dict[str, None] = {}
    for node in source.parents:
        if isinstance(node, ast.ClassDef) and any(name.endswith(_ENDINGS) for name in (node.name, *_bases(node))):
            found[node.name] = None
        elif isinstance(node, ast.ImportFrom):
            about = (node.module or "").rpartition(".")[2].strip("_").startswith(("err", "exc"))
            names = [each.asname or each.name for each in node.names]
            found |= {name: None for name in names if name.endswith(_ENDINGS) or (about and name[:1].isupper())}
        elif isinstance(node, ast.Name) and _is_exception(source, node):
            found[node.id] = None
    found |= {word: None for word in source.words if word.endswith(_ENDINGS) and hasattr(builtins, word)}
    return list(found)


def _bases(node: ast.ClassDef) -> list[str]:
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]  # `Sequence[T]`
    return [base.id for base in bases if isinstance(base, ast.Name)]


def guards(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """An early exit that another function of the file has, where all its names are known; those of the same class first."""
    first = first_statement(source, node)
    if first is None or not isinstance(node, FunctionNode):
        return
    outside, home = source.once(_module_names, source.tree), source.parents[node]
    own = {source.segment(each.test) for each in ast.walk(node) if isinstance(each, ast.If)}
    found = [guard for guard in source.once(_guards, source.tree) if guard.condition not in own]
    found.sort(key=lambda guard: source.parents[guard.holder] is not home)
    known = outside | {each.arg for each in arguments(node)}
    places = [each for each in node.body if each.lineno >= first.lineno and source.has_own_lines(each)][:MOST_PLACES]
    for place in places:
        start, fitting = source.span(place)[0], [guard for guard in found if guard.names <= known]
        for rank, guard in enumerate(fitting[:MOST_GUARDS]):
            text = source.laid_out(place, "if {}:\n\t{}\n", guard.condition, guard.leaving)
            title = f"`if {short(guard.condition)}: {short(guard.leaving)}` is added, as in `{guard.holder.name}`"
            yield Rewrite(start, start, text, title, (0.45 if place is first else 0.36) - 0.02 * rank)
        known = known | {each.id for each in ast.walk(place) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


@dataclass(frozen=True, slots=True)
class _Guard:
    """`if condition: leaving` in a function, and the names that both read."""

    condition: str
    leaving: str
    holder: FunctionNode
    names: frozenset[str]


def _guards(source: Source, tree: ast.Module) -> list[_Guard]:
    found: dict[tuple[str, str], _Guard] = {}
    for node in source.parents:
        if not isinstance(node, ast.If) or node.orelse or len(node.body) != 1 or source.is_elif(node):
            continue
        holder, last = source.function(node), node.body[0]
        condition, leaving = source.segment(node.test), source.segment(last)
        is_one_line = "\n" not in condition + leaving and len(condition + leaving) <= LONGEST_GUARD
        if holder is not None and isinstance(last, ast.Return | ast.Raise) and is_one_line:
            names = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not hasattr(builtins, n.id))
            found.setdefault((condition, leaving), _Guard(condition, leaving, holder, names))
    return list(found.values())


def _module_names(source: Source, tree: ast.Module) -> set[str]:
    names = {each.name for each in tree.body if isinstance(each, FunctionNode | ast.ClassDef)}
    for each in tree.body:
        if isinstance(each, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in each.names}
        elif isinstance(each, ast.Assign):
            names |= {target.id for target in each.targets if isinstance(target, ast.Name)}
    return names


def returned(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A function ends without its result: returns what it assigned or changed last, a parameter of the type that it returns,
    or itself for calls in a chain."""
    if not isinstance(node, FunctionNode) or not source.has_own_lines(last := node.body[-1]):
        return
    if isinstance(last, ast.Return | ast.Raise | ast.Pass) or node.name == "__init__" or source.once(_yields, node):
        return
    wanted = node.returns is not None and source.segment(node.returns) != "None"
    elsewhere = any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(node))
    used = node.name in source.once(_used_results, source.tree)
    prior = 0.7 if wanted or elsewhere else 0.55 if used else 0.35
    method = bool(node.args.args) and node.args.args[0].arg == "self"
    names = [*_of_the_result(source, node), *_bound_last(node)[:MOST_RETURNED], *(["self"] if method else [])]
    if elsewhere:
        names += parameters(node)[::-1][:MOST_RETURNED]
    for rank, name in enumerate(dict.fromkeys(names)):
        title = f"`return {name}` is added at the end of `{node.name}`"
        yield source.put_behind(last, f"return {name}", title, prior - 0.05 * rank)


def _of_the_result(source: Source, node: FunctionNode) -> list[str]:
    """Parameters that are annotated like the result."""
    wanted = source.segment(node.returns) if node.returns is not None else None
    return [each.arg for each in arguments(node) if each.annotation is not None and source.segment(each.annotation) == wanted]


def _bound_last(node: FunctionNode) -> list[str]:
    """The function's own names, the one that was assigned or changed last first."""
    lines: dict[str, int] = {}
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name, ctx=ast.Store(), lineno=line):
                lines[name] = max(line, lines.get(name, 0))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name)), lineno=line) if name in lines:
                lines[name] = max(line, lines[name])
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store(), lineno=line):
                lines[name] = max(line, lines.get(name, 0))
    return sorted((name for name in lines if name not in ("self", "cls", "_")), key=lambda name: -lines[name])


def _yields(source: Source, node: FunctionNode) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node))


def _used_results(source: Source, tree: ast.Module) -> set[str]:
    """The names of functions and methods whose result is used somewhere in the file."""
    return {
        called_name(node)
        for node, parent in source.parents.items()
        if isinstance(node, ast.Call) and not isinstance(parent, ast.Expr)
    }
