"""Patterns on statements: dropped, missing, misplaced ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agent.proposers.patterns.layout import indent, line_end, siblings, stands_alone, step
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, quoted, short


def dropped(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    if isinstance(node, ast.stmt) and not isinstance(
        node, FunctionNode | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Pass
    ):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if source.function(node) is not None and stands_alone(source, node):
            start, end = source.span(node)
            yield Rewrite(start, end, "pass", f"`{short(source.segment(node))}` is dropped", 0.42)
            block = siblings(source, node)
            index = block.index(node)
            simple = (ast.Assign, ast.AugAssign, ast.Expr)
            if isinstance(node, simple) and index + 1 < len(block) and isinstance(other := block[index + 1], simple):
                title = f"`{short(source.segment(node))}` and `{short(source.segment(other))}` are dropped"
                yield Rewrite(start, source.span(other)[1], "pass", title, 0.25)
    if isinstance(node, ast.If) and not node.orelse and node.body and stands_alone(source, node) and len(node.body) == 1:
        text = source.segment(node.body[0])
        start, end = source.span(node)
        if "\n" not in text:
            yield Rewrite(start, end, text, f"`{short(text)}` no longer depends on `{short(source.segment(node.test))}`", 0.4)


def flow(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """break and continue, return and yield, unpacking, what is returned."""
    if isinstance(node, ast.Break | ast.Continue):
        start, end = source.span(node)
        before, after = ("break", "continue") if isinstance(node, ast.Break) else ("continue", "break")
        yield Rewrite(start, end, after, quoted(before, after), 0.7)
        yield Rewrite(start, end, "return", quoted(before, "return"), 0.3)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.BinOp | ast.Compare | ast.Name):
        start, _ = source.span(node)
        text = source.segment(node)
        yield Rewrite(start, start, "return ", quoted(text, "return " + text), 0.55)
        function = source.function(node)
        if function is not None and any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function)):
            yield Rewrite(start, start, "yield from ", quoted(text, "yield from " + text), 0.6)
        if isinstance(function, ast.AsyncFunctionDef):
            yield Rewrite(start, start, "await ", quoted(text, "await " + text), 0.7)
        if (
            isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and isinstance(node.value.func.value, ast.Name)
        ):
            name = node.value.func.value.id
            yield Rewrite(start, start, f"{name} = ", quoted(text, f"{name} = {text}"), 0.35)
    elif isinstance(node, ast.Yield) and node.value is not None:
        start, _ = source.span(node)
        inner = source.span(node.value)[0]
        yield Rewrite(start, inner, "yield from ", quoted("yield", "yield from"), 0.6)
    elif isinstance(node, ast.YieldFrom):
        start, _ = source.span(node)
        yield Rewrite(start, source.span(node.value)[0], "yield ", quoted("yield from", "yield"), 0.6)
    elif isinstance(node, ast.Call) and isinstance(source.function(node), ast.AsyncFunctionDef):
        if not isinstance(source.parents[node], ast.Await | ast.Expr):
            start, _ = source.span(node)
            text = source.segment(node)
            yield source.replaced(node, "await " + text, compound=True, title=quoted(text, "await " + text), prior=0.5)
    elif isinstance(node, ast.Tuple | ast.List) and 2 <= len(node.elts) <= 5:
        spans = [source.span(element) for element in node.elts]
        for i, (a, b) in enumerate(spans):
            for c, d in spans[i + 1 :]:
                one, other = source.text[a:b], source.text[c:d]
                if one != other:
                    shown = quoted(f"{one}, {other}", f"{other}, {one}")
                    yield Rewrite(a, d, other + source.text[b:c] + one, shown, 0.6 if len(spans) == 2 else 0.5)
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        end, value = source.span(node.targets[0])[1], source.span(node.value)[0]
        gap = source.text[end:value]
        if gap.strip() == "=":
            for op in ("+", "-", "*"):
                yield Rewrite(
                    end, value, gap.replace("=", op + "="), quoted(source.segment(node), f"{node.targets[0].id} {op}= …"), 0.35
                )
    if isinstance(node, ast.If) and stands_alone(source, node) and source.text.startswith("if", source.span(node)[0]):
        block = siblings(source, node)
        index = block.index(node)
        if index and isinstance(block[index - 1], ast.If) and block[index - 1].col_offset == node.col_offset:
            start, _ = source.span(node)
            yield Rewrite(start, start + 2, "elif", f"`if {short(source.segment(node.test))}` becomes `elif`", 0.35)
    if isinstance(node, ast.If) and source.text.startswith("elif", source.span(node)[0]):
        start, _ = source.span(node)
        yield Rewrite(start, start + 4, "if", f"`elif {short(source.segment(node.test))}` becomes `if`", 0.35)


def moved(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Two statements in a row change places; a last statement leaves its block, or one moves into it."""
    if not isinstance(node, ast.stmt) or not stands_alone(source, node) or source.function(node) is None:
        return
    block = siblings(source, node)
    index = block.index(node)
    start, end = source.span(node)
    space = indent(source, node)
    if index + 1 < len(block) and stands_alone(source, block[index + 1]) and indent(source, block[index + 1]) == space:
        other = block[index + 1]
        a, b = source.span(other)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.If) and isinstance(
            other, ast.Assign | ast.AugAssign | ast.Expr | ast.If
        ):
            first, second = source.segment(node), source.segment(other)
            yield Rewrite(
                start, b, second + source.text[end:a] + first, f"`{short(first)}` and `{short(second)}` change places", 0.4
            )
        if isinstance(node, ast.For | ast.While | ast.If | ast.With) and "\n" not in source.segment(other):
            # What follows a block moves into it.
            last = (getattr(node, "orelse", None) or node.body)[-1]
            if stands_alone(source, last):
                title = f"`{short(source.segment(other))}` moves into the block before it"
                yield Rewrite(a, a, indent(source, last).removeprefix(space), title, 0.35)
    parent = source.parents[node]
    if (
        index == len(block) - 1
        and index > 0
        and isinstance(parent, ast.For | ast.While | ast.If | ast.With)
        and "\n" not in source.segment(node)
    ):
        outer = indent(source, parent)
        if (
            not outer.strip()
            and block is not getattr(parent, "test", None)
            and not (getattr(parent, "orelse", None) and block is parent.body)
        ):
            line = source.offset(node.lineno, 0)
            yield Rewrite(line, end, outer + source.text[start:end], f"`{short(source.segment(node))}` leaves its block", 0.45)


def alternatives(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """What follows an `if` should happen only otherwise, or what its `else` does should always happen."""
    if not isinstance(node, ast.If) or not stands_alone(source, node) or source.function(node) is None:
        return
    branch = node
    while len(branch.orelse) == 1 and isinstance(branch.orelse[0], ast.If) and _is_elif(source, branch.orelse[0]):
        branch = branch.orelse[0]
    space, asked = indent(source, node), short(source.segment(node.test))
    if not branch.orelse:
        block = siblings(source, node)
        after = block[block.index(node) + 1 :][:1]
        if after and _is_line(source, after[0]) and indent(source, after[0]) == space and node.body[0].lineno > node.lineno:
            start = source.span(after[0])[0]
            text = f"else:{line_end(source)}{space}{step(space)}"
            title = f"`{short(source.segment(after[0]))}` only if not `{asked}`"
            yield Rewrite(start, start, text, title, 0.42)
    elif len(branch.orelse) == 1 and _is_line(source, branch.orelse[0]):
        end, start = source.span(branch.body[-1])[1], source.span(branch.orelse[0])[0]
        word = re.search(r"(?m)^[ \t]*(else[ \t]*:[^\S\n]*\r?\n[ \t]*)\Z", source.text[end:start])
        if word is not None:
            text = f"`{short(source.segment(branch.orelse[0]))}` also if `{asked}`"
            yield Rewrite(end + word.start(1), start, "", text, 0.34)


def _is_elif(source: Source, node: ast.If) -> bool:
    return source.text.startswith("elif", source.span(node)[0])


def _is_line(source: Source, node: ast.stmt) -> bool:
    simple = isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Return | ast.Break | ast.Continue | ast.Raise)
    return simple and stands_alone(source, node) and "\n" not in source.segment(node)


def conditions(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A statement in a loop gets a condition over the names at hand."""
    if (
        not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr)
        or not stands_alone(source, node)
        or "\n" in source.segment(node)
    ):
        return
    loops = [n for n in source.above(node) if isinstance(n, ast.For)]
    names = list(dict.fromkeys(n.id for loop in loops for n in ast.walk(loop.target) if isinstance(n, ast.Name)))[:3]
    if not names or isinstance(source.parents[node], ast.If):
        return
    start, _ = source.span(node)
    space, line = indent(source, node), line_end(source)
    deeper = space + step(space)
    tests = [f"{a} {op} {b}" for i, a in enumerate(names) for b in names[i + 1 :] for op in ("==", "!=", "<", ">")]
    tests += [test for name in names for test in (name, f"not {name}", f"{name} is not None")]
    for test in tests:
        text = f"if {test}:{line}{deeper}"
        yield Rewrite(start, start, text, f"`{short(source.segment(node))}` only if `{test}`", 0.3)


def answers(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Every True and False that a function returns, turned round together."""
    if not isinstance(node, FunctionNode):
        return
    flags = [
        n.value
        for n in ast.walk(node)
        if isinstance(n, ast.Return) and isinstance(n.value, ast.Constant) and isinstance(n.value.value, bool)
    ]
    if len(flags) < 2:
        return
    places = sorted((source.span(flag), not flag.value) for flag in flags)
    start, end = places[0][0][0], places[-1][0][1]
    text, position = "", start
    for (a, b), flag in places:
        text += source.text[position:a] + str(flag)
        position = b
    yield Rewrite(start, end, text, f"`{node.name}` returns True for False and False for True", 0.55)


def guards(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """An early return for empty, missing or zero arguments, at the beginning of a function."""
    if not isinstance(node, FunctionNode):
        return
    body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if not body or not stands_alone(source, body[0]) or body[0].lineno == node.lineno:
        return
    start, _ = source.span(body[0])
    space, line = indent(source, body[0]), line_end(source)
    names = [a.arg for a in node.args.args if a.arg not in ("self", "cls")][:3]
    deeper = space + step(space)
    for name in names:
        for condition in (f"not {name}", f"{name} is None"):
            for value in ("None", name, "[]", "0", "False", "True", "''"):
                text = f"if {condition}:{line}{deeper}return {value}{line}{space}"
                yield Rewrite(start, start, text, f"returns `{value}` first if `{condition}`", 0.3)
