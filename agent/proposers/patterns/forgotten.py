"""Patterns on what was forgotten beside code that stands: a keyword argument, a base's method, a condition of an exit."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.proposers.patterns.names import scope
from agent.proposers.patterns.source import (
    FunctionNode,
    Rewrite,
    Source,
    arguments,
    called_name,
    first_statement,
    names_in,
    quoted,
    short,
    unread,
)

MOST_KEYWORDS, MOST_NAMES = 6, 6


def keywords(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A keyword argument: a name that the called function of the file takes, or an own parameter that nobody reads."""
    if not isinstance(node, ast.Call) or (function := source.function(node)) is None or source.segment(node)[-1:] != ")":
        return
    given = {each.arg for each in node.keywords} | {each.id for each in node.args if isinstance(each, ast.Name)}
    parameters = source.once(_parameters, source.tree).get(called_name(node), frozenset())
    forgotten = source.once(unread, function)
    known = [name for name in scope(source, node) if name not in given]
    fitting = [name for name in known if name in parameters or name in forgotten]
    fitting.sort(key=lambda name: (name not in forgotten, name not in parameters))
    last = max((source.span(each)[1] for each in [*node.args, *(k.value for k in node.keywords)]), default=None)
    starred = next((k for k in node.keywords if k.arg is None), None)
    for rank, name in enumerate(fitting[:MOST_KEYWORDS]):
        prior = (0.65 if name in forgotten else 0.45) - 0.03 * rank
        title = f"`{short(source.segment(node))}` gets `{name}={name}`"
        if starred is not None:
            at = source.span(starred.value)[0] - 2
            yield Rewrite(at, at, f"{name}={name}, ", title, prior)
        elif last is not None:
            yield Rewrite(last, last, f", {name}={name}", title, prior)
        else:
            at = source.span(node)[1] - 1
            yield Rewrite(at, at, f"{name}={name}", title, prior)


def _parameters(source: Source, tree: ast.Module) -> dict[str, frozenset[str]]:
    """The parameters that each function of the file, or class by its `__init__`, takes by name."""
    found: dict[str, frozenset[str]] = {}
    for node in source.parents:
        if isinstance(node, FunctionNode):
            names = frozenset(each.arg for each in (*node.args.args, *node.args.kwonlyargs)) - {"self", "cls"}
            owner = source.parents[node]
            is_made = node.name == "__init__" and isinstance(owner, ast.ClassDef)
            name = owner.name if is_made and isinstance(owner, ast.ClassDef) else node.name
            found[name] = found.get(name, frozenset()) | names
    return found


def inherited(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A method of a class with a base does not call the base's method, and perhaps should, first or last."""
    first = first_statement(source, node)
    if first is None or not isinstance(node, FunctionNode) or not isinstance(owner := source.parents[node], ast.ClassDef):
        return
    calls_base = any(isinstance(each, ast.Call) and called_name(each) == "super" for each in ast.walk(node))
    if not owner.bases or calls_base or node.decorator_list or not (node.args.args and node.args.args[0].arg == "self"):
        return
    names = [each.arg for each in node.args.args[1:]]
    varied = [f"*{node.args.vararg.arg}"] if node.args.vararg else []
    varied += [f"**{node.args.kwarg.arg}"] if node.args.kwarg else []
    prior = 0.55 if node.name == "__init__" else 0.3
    made = [names[:count] + rest for count in range(len(names), -1, -1) for rest in ([varied, []] if varied else [[]])]
    last = node.body[-1]
    for rank, given in enumerate(dict.fromkeys(map(", ".join, made))):
        text = f"super().{node.name}({given})"
        title = f"`{text}` is added"
        yield source.put_before(first, text, title, prior - 0.03 * rank)
        if not isinstance(last, ast.Return | ast.Raise) and source.has_own_lines(last):
            yield source.put_behind(last, text, title, prior - 0.1 - 0.03 * rank)


def conditions(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Nothing after an exit in the middle of a block is ever reached: the exit gets a condition on what was bound before."""
    if not isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break) or not source.has_own_line(node):
        return
    block, index = source.block(node)
    function = source.function(node)
    if function is None or index + 1 >= len(block):
        return
    after = {name for statement in block[index + 1 :] for name in names_in(statement)}
    lines = source.once(_bindings, function)
    before = {
        name: max((line for line in lines.get(name, ()) if line < node.lineno), default=-1) for name in scope(source, node)
    }
    bound = sorted((name for name in before if before[name] >= 0), key=lambda name: (name not in after, -before[name]))
    start, text = source.span(node)[0], source.segment(node)
    for rank, name in enumerate(bound[:MOST_NAMES]):
        for less, test in enumerate((f"{name} is None", f"not {name}", f"{name} is not None", name)):
            title = quoted(text, f"if {test}: {text}")
            change = source.laid_out(node, "if {}:\n\t{}", test, text)
            yield Rewrite(start, source.span(node)[1], change, title, 0.7 - 0.04 * rank - 0.03 * less)


def _bindings(source: Source, function: FunctionNode) -> dict[str, list[int]]:
    """The lines where the function binds each name; a parameter is bound at `def`."""
    found = {each.arg: [function.lineno] for each in arguments(function)}
    for each in ast.walk(function):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.setdefault(each.id, []).append(each.lineno)
    return found


def delegated(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A method that hands its call on to another object usually calls the method of the same name there."""
    if (
        not isinstance(node, ast.Attribute)
        or not isinstance(parent := source.parents[node], ast.Call)
        or parent.func is not node
    ):
        return
    function = source.function(node)
    if function is not None and function.name != node.attr and not function.name.startswith("__") and len(function.body) <= 3:
        end = source.span(node)[1]
        name = function.name
        title = quoted(f"{source.segment(node.value)}.{node.attr}", f"{source.segment(node.value)}.{name}")
        yield Rewrite(end - len(node.attr), end, name, title, 0.55)
