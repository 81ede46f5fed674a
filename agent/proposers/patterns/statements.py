"""Patterns on statements: dropped, missing, misplaced ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agent.proposers.patterns.missing import filled
from agent.proposers.patterns.source import (
    FunctionNode,
    Rewrite,
    Source,
    called_name,
    first_statement,
    names_in,
    plain,
    quoted,
    short,
)

TAKING = frozenset({"pop", "popleft", "remove", "discard", "popitem"})
MOST_REPEATED = 4  # statements of a block that may have been a loop's
Simple = ast.Assign | ast.AugAssign | ast.Expr
Leaving = ast.Return | ast.Break | ast.Continue | ast.Raise
Compound = ast.For | ast.While | ast.If | ast.With


def dropped(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    if not isinstance(node, ast.stmt) or not source.has_own_lines(node):
        return
    is_documentation = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    is_kept = is_documentation or isinstance(node, FunctionNode | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Pass)
    if not is_kept and source.function(node) is not None:
        text = short(source.segment(node))
        yield source.replaced(node, "pass", 0.42, title=f"`{text}` is dropped")
        block, index = source.block(node)
        if isinstance(node, Simple) and index + 1 < len(block) and isinstance(other := block[index + 1], Simple):
            title = f"`{text}` and `{short(source.segment(other))}` are dropped"
            yield Rewrite(source.span(node)[0], source.span(other)[1], "pass", title, 0.25)
    if isinstance(node, ast.If) and not node.orelse and len(node.body) == 1:
        text = source.segment(node.body[0])
        if "\n" not in text:
            title = f"`{short(text)}` no longer depends on `{short(source.segment(node.test))}`"
            yield source.replaced(node, text, 0.4, title=title)


def flow(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """break and continue, return and yield, await, the order of items, augmented assignment, elif."""
    if isinstance(node, ast.Break | ast.Continue):
        yield source.replaced(node, "continue" if isinstance(node, ast.Break) else "break", 0.7)
        yield source.replaced(node, "return", 0.3)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.BinOp | ast.Compare | ast.Name):
        yield from _answering(source, node)
    elif isinstance(node, ast.Yield) and node.value is not None:
        yield Rewrite(source.span(node)[0], source.span(node.value)[0], "yield from ", quoted("yield", "yield from"), 0.6)
    elif isinstance(node, ast.YieldFrom):
        yield Rewrite(source.span(node)[0], source.span(node.value)[0], "yield ", quoted("yield from", "yield"), 0.6)
    elif isinstance(node, ast.Call) and isinstance(source.function(node), ast.AsyncFunctionDef):
        if not isinstance(source.parents[node], ast.Await | ast.Expr):
            known = called_name(node) in source.once(_coroutines, source.tree)
            yield source.replaced(node, "await " + source.segment(node), 0.8 if known else 0.5, compound=True)
    elif isinstance(node, ast.Tuple | ast.List) and 2 <= len(node.elts) <= 5:
        likely = 0.2 if _names_constants(source.parents[node]) else 0.6 if len(node.elts) == 2 else 0.5
        for i, one in enumerate(node.elts):
            for other in node.elts[i + 1 :]:
                a, b = source.segment(one), source.segment(other)
                yield from source.exchanged(one, other, quoted(f"{a}, {b}", f"{b}, {a}"), likely)
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        yield from _augmented(source, node, node.targets[0])
    elif isinstance(node, ast.If):
        yield from _elif(source, node)


def _names_constants(node: ast.AST) -> bool:
    """`low, high = 0, 10`: the names say which constant is which."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    return all(isinstance(each, ast.Constant | ast.UnaryOp) for each in node.value.elts)


def _augmented(source: Source, node: ast.Assign, target: ast.expr) -> Iterator[Rewrite]:
    """`=` becomes `+=` and the like: where the target has a value already, and likelier in a loop."""
    if not isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
        return
    end, value = source.span(target)[1], source.span(node.value)[0]
    gap = source.text[end:value]
    repeated = any(isinstance(each, ast.For | ast.While | ast.AsyncFor) for each in source.above(node))
    # An attribute or an item outlives the call; a container that was filled before would lose what it has.
    first = source.once(filled, source.function(node) or source.tree)
    kept = not isinstance(target, ast.Name) or first.get(target.id, node.lineno) < node.lineno
    for op, less in (("+", 0.0), ("-", 0.1), ("*", 0.1), ("|", 0.15)) if gap.strip() == "=" else ():
        title = quoted(source.segment(node), f"{source.segment(target)} {op}= …")
        yield Rewrite(end, value, gap.replace("=", op + "="), title, (0.55 if repeated or kept else 0.35) - less)


def _coroutines(source: Source, tree: ast.Module) -> set[str]:
    """The names of the file's coroutine functions and methods, and of those that it awaits."""
    found = {node.name for node in source.parents if isinstance(node, ast.AsyncFunctionDef)}
    awaited = (node.value for node in source.parents if isinstance(node, ast.Await))
    return found | {called_name(node) for node in awaited if isinstance(node, ast.Call)}


def _answering(source: Source, node: ast.Expr) -> Iterator[Rewrite]:
    """The value of an expression statement is returned, yielded, awaited or assigned."""
    start, text, function = source.span(node)[0], source.segment(node), source.function(node)
    found = [("return ", 0.55)]
    if function is not None and any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function)):
        found.append(("yield from ", 0.6))
    if isinstance(function, ast.AsyncFunctionDef):
        known = isinstance(node.value, ast.Call) and called_name(node.value) in source.once(_coroutines, source.tree)
        found.append(("await ", 0.85 if known else 0.7))
    match node.value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            found.append((f"{name} = ", 0.35))
    for word, prior in found:
        yield Rewrite(start, start, word, quoted(text, word + text), prior)


def _elif(source: Source, node: ast.If) -> Iterator[Rewrite]:
    start, test = source.span(node)[0], short(source.segment(node.test))
    if source.is_elif(node):
        yield Rewrite(start, start + 4, "if", f"`elif {test}` becomes `if`", 0.35)
    elif source.has_own_lines(node):
        block, index = source.block(node)
        if index and isinstance(block[index - 1], ast.If) and block[index - 1].col_offset == node.col_offset:
            yield Rewrite(start, start + 2, "elif", f"`if {test}` becomes `elif`", 0.35)


def repeated(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A loop that always ends in its first pass answers for one item only; an `if` that takes something away is a loop."""
    if (
        isinstance(node, ast.For | ast.While | ast.AsyncFor)
        and not node.orelse
        and isinstance(last := node.body[-1], ast.Return)
    ):
        block, index = source.block(node)
        after = block[index + 1] if index + 1 < len(block) else None
        if last.value is None or not source.has_own_line(last) or not isinstance(after, ast.Return) or after.value is None:
            return
        text = plain(source, last.value)
        for default, test in (("False", text), ("True", f"not {text}")):
            if source.segment(after.value) == default:
                answer = "True" if default == "False" else "False"
                new = source.laid_out(last, "if {}:\n\treturn {}", test, answer)
                yield source.replaced(last, new, 0.8, title=f"the loop goes on unless `{short(test)}`")
        new = source.laid_out(last, "if {}:\n\t{}", text, source.segment(last))
        yield source.replaced(last, new, 0.5, title=f"the loop goes on unless there is `{short(text)}`")
    elif isinstance(node, ast.If) and not node.orelse and not source.is_elif(node) and len(node.body) <= MOST_REPEATED:
        calls = [each for part in node.body for each in ast.walk(part) if isinstance(each, ast.Call)]
        start, tested = source.span(node)[0], ast.unparse(node.test)
        for call in calls:
            if called_name(call) in TAKING and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in tested:
                yield Rewrite(start, start + 2, "while", f"`if {short(source.segment(node.test))}` becomes `while`", 0.6)
                return


def moved(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Swaps two adjacent statements; moves the last statement out of its block, or the next one into it."""
    if not isinstance(node, ast.stmt) or not source.has_own_lines(node) or source.function(node) is None:
        return
    block, index = source.block(node)
    start, end = source.span(node)
    space, shown = source.indent(node), short(source.segment(node))
    following = block[index + 1] if index + 1 < len(block) else None
    if following is not None and source.has_own_lines(following) and source.indent(following) == space:
        other = short(source.segment(following))
        if isinstance(node, Simple | ast.If) and isinstance(following, Simple | ast.If):
            yield from source.exchanged(node, following, f"`{shown}` and `{other}` are swapped", 0.4)
        if isinstance(node, Compound) and source.has_own_line(following):
            # The statement after a block moves into it.
            last = (getattr(node, "orelse", None) or node.body)[-1]
            if source.has_own_lines(last):
                at, title = source.span(following)[0], f"`{other}` moves into the block before it"
                yield Rewrite(at, at, source.indent(last).removeprefix(space), title, 0.35)
    parent = source.parents[node]
    if following is None and index and isinstance(parent, Compound) and source.has_own_line(node):
        outer = source.indent(parent)
        if not outer.strip() and not (getattr(parent, "orelse", None) and block is parent.body):
            line = source.offset(node.lineno, 0)
            yield Rewrite(line, end, outer + source.text[start:end], f"`{shown}` moves out of its block", 0.45)


def alternatives(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Moves the statement after an `if` into an `else` branch, or the body of its `else` out of it."""
    if not isinstance(node, ast.If) or not source.has_own_lines(node) or source.function(node) is None:
        return
    branch = node
    while len(branch.orelse) == 1 and isinstance(branch.orelse[0], ast.If) and source.is_elif(branch.orelse[0]):
        branch = branch.orelse[0]
    asked = short(source.segment(node.test))
    block, index = source.block(node)
    after = (branch.orelse or block[index + 1 :])[:1]
    if not after or not isinstance(after[0], Simple | Leaving) or not source.has_own_line(after[0]):
        return
    start, shown = source.span(after[0])[0], short(source.segment(after[0]))
    if not branch.orelse:
        if source.indent(after[0]) == source.indent(node) and node.body[0].lineno > node.lineno:
            yield Rewrite(start, start, source.laid_out(node, "else:\n\t"), f"`{shown}` runs only if not `{asked}`", 0.42)
    elif len(branch.orelse) == 1:
        end = source.span(branch.body[-1])[1]
        word = re.search(r"(?m)^[ \t]*(else[ \t]*:[^\S\n]*\r?\n[ \t]*)\Z", source.text[end:start])
        if word is not None:
            yield Rewrite(end + word.start(1), start, "", f"`{shown}` also runs if `{asked}`", 0.34)


def conditions(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A statement in a loop gets a condition on the loop variables."""
    if not isinstance(node, Simple) or not source.has_own_line(node) or isinstance(source.parents[node], ast.If):
        return
    loops = [n for n in source.above(node) if isinstance(n, ast.For)]
    names = list(dict.fromkeys(name for loop in loops for name in names_in(loop.target)))[:3]
    start, text = source.span(node)[0], short(source.segment(node))
    tests = [f"{a} {op} {b}" for i, a in enumerate(names) for b in names[i + 1 :] for op in ("==", "!=", "<", ">")]
    tests += [test for name in names for test in (name, f"not {name}", f"{name} is not None")]
    for test in tests:
        yield Rewrite(start, start, source.laid_out(node, "if {}:\n\t", test), f"`{text}` runs only if `{test}`", 0.3)


def answers(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Inverts every True and False that a function returns, in one change."""
    if not isinstance(node, FunctionNode):
        return
    returned = [n.value for n in ast.walk(node) if isinstance(n, ast.Return) and isinstance(n.value, ast.Constant)]
    flags = [value for value in returned if isinstance(value.value, bool)]
    if len(flags) > 1:
        parts = [(*source.span(flag), str(not flag.value)) for flag in flags]
        yield source.together(parts, f"`{node.name}` returns False for True, and the reverse", 0.55)


def guards(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Adds an early return for empty, missing or zero arguments at the start of a function."""
    first = first_statement(source, node)
    if first is None or not isinstance(node, FunctionNode):
        return
    start, _ = source.span(first)
    for name in [a.arg for a in node.args.args if a.arg not in ("self", "cls")][:3]:
        for condition in (f"not {name}", f"{name} is None"):
            for value in ("None", name, "[]", "0", "False", "True", "''"):
                text = source.laid_out(first, "if {}:\n\treturn {}\n", condition, value)
                yield Rewrite(start, start, text, f"an early return of `{value}` if `{condition}` is added", 0.3)
