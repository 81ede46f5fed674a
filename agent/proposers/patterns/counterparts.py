"""Patterns on what is done for one of two, or for one of several: the same is missing for the other."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterator

from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, short

# Words that stand for the two sides of something.
SIDES = (
    ("min", "max"), ("left", "right"), ("start", "end"), ("start", "stop"), ("begin", "end"), ("first", "last"),
    ("lower", "upper"), ("low", "high"), ("top", "bottom"), ("width", "height"), ("row", "col"), ("rows", "cols"),
    ("row", "column"), ("x", "y"), ("source", "target"), ("src", "dst"), ("key", "value"), ("keys", "values"),
    ("prefix", "suffix"), ("head", "tail"), ("old", "new"), ("before", "after"), ("prev", "next"),
    ("previous", "next"), ("parent", "child"), ("read", "write"), ("encode", "decode"), ("added", "removed"),
    ("open", "close"),
)  # fmt: skip
LONGEST = 240  # characters of a statement
MOST_UNREAD, MOST_STATE = 4, 6
SHORT = 80  # characters of a statement on the object itself
KINDS = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.If | ast.For | ast.Delete
WORD = re.compile(r"[A-Za-z_]\w*")


def sides(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """What is done for one side is done for the other behind it: `if max_val is None: …`, then `if min_val is None: …`."""
    if (function := _holder(source, node)) is None or not isinstance(node, ast.stmt):
        return
    text = source.segment(node)
    known, lines = source.once(_words, source.tree), source.once(_statements, function)
    for one, other in SIDES:
        for before, after in ((one, other), (other, one)):
            turned = _turned(text, before, after)
            if turned != text and set(WORD.findall(turned)) <= known and _plain(turned) not in lines:
                yield _behind(source, node, turned, 0.5)


def unread(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A statement with a constant of the module is repeated with one of the same kind that nothing in the file reads."""
    if _holder(source, node) is None or not isinstance(node, ast.stmt):
        return
    constants = source.once(_constants, source.tree)
    left = [name for name, is_read in constants.items() if not is_read]
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in constants} if left else set()
    for name in sorted(used):
        kin = [other for other in left if other.rpartition("_")[2] == name.rpartition("_")[2]]
        for other in kin[:MOST_UNREAD]:
            yield _behind(source, node, re.sub(rf"\b{re.escape(name)}\b", other, source.segment(node)), 0.5)


def state(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """What other methods of the class do to the object is missing at the end of this one: an index rebuilt, a cache dropped."""
    home = source.parents.get(node)
    if not isinstance(node, FunctionNode) or not isinstance(home, ast.ClassDef) or not source.has_own_lines(node.body[-1]):
        return
    own = source.once(_statements, node)
    known = [text for text, _ in source.once(_on_the_object, home).most_common() if _plain(text) not in own]
    for rank, text in enumerate(known[:MOST_STATE]):
        title, prior = f"`{short(text)}` is added at the end of `{node.name}`, as in another method", 0.42 - 0.03 * rank
        yield from _at_the_end(source, node, text, title, prior)


def awaited(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A variable is assigned and never read: what another function does with one of that name is missing at the end of this
    one."""
    if not isinstance(node, FunctionNode) or not source.has_own_lines(node.body[-1]):
        return
    waiting = source.once(_stored_only, node)
    known = source.once(_lines, source.tree) if waiting else {}
    for text in [each for each, names in known.items() if not waiting.isdisjoint(names)][:MOST_STATE]:
        title = f"`{short(text)}` is added at the end of `{node.name}`, as in another function"
        yield from _at_the_end(source, node, text, title, 0.6)


def _at_the_end(source: Source, function: FunctionNode, text: str, title: str, prior: float) -> Iterator[Rewrite]:
    """The statement before the last `return`, or as the last one if it would run."""
    last = function.body[-1]
    if isinstance(last, ast.Return):
        yield source.put_before(last, text, title, prior)
    elif not isinstance(last, ast.Raise | ast.Pass):
        yield source.put_behind(last, text, title, prior)


def _stored_only(source: Source, function: FunctionNode) -> frozenset[str]:
    """Unlike `unread`, also one of several that a statement assigns: there, what other functions do says that it is needed."""
    names = [each for each in ast.walk(function) if isinstance(each, ast.Name)]
    read = {each.id for each in names if isinstance(each.ctx, ast.Load)}
    return frozenset(each.id for each in names if isinstance(each.ctx, ast.Store) and not each.id.startswith("_")) - read


def _lines(source: Source, tree: ast.Module) -> dict[str, frozenset[str]]:
    """The short statements at the first level of the file's functions, with the names that they read."""
    found = {}
    for function in (each for each in ast.walk(tree) if isinstance(each, FunctionNode)):
        for node in function.body:
            if isinstance(node, KINDS) and source.has_own_lines(node) and len(text := source.segment(node)) <= LONGEST:
                names = [each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
                found[text] = frozenset(each.id for each in names)
    return found


def _on_the_object(source: Source, home: ast.ClassDef) -> Counter[str]:
    """Short statements that name nothing but `self`, with the number of the class's methods that have them."""
    found: Counter[str] = Counter()
    for method in home.body:
        texts = set()
        for node in ast.walk(method) if isinstance(method, FunctionNode) else ():
            if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call):
                continue
            if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Delete):
                names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and not hasattr(builtins, each.id)}
                text = source.segment(node)
                if names == {"self"} and "\n" not in text and len(text) <= SHORT:
                    texts.add(text)
        found.update(texts)
    return found


def _constants(source: Source, tree: ast.Module) -> dict[str, bool]:
    """The names that the module assigns once, each with whether it occurs elsewhere in the file."""
    counts = Counter(WORD.findall(source.text))
    assigned = [each.targets[0] for each in tree.body if isinstance(each, ast.Assign) and len(each.targets) == 1]
    return {each.id: counts[each.id] > 1 for each in assigned if isinstance(each, ast.Name)}


def _holder(source: Source, node: ast.AST) -> FunctionNode | None:
    """The function of a short statement that can be repeated in other words."""
    is_short = isinstance(node, KINDS) and len(source.segment(node)) <= LONGEST
    if not is_short or not isinstance(node, ast.stmt) or not source.has_own_lines(node):
        return None
    return None if isinstance(node, ast.If) and source.is_elif(node) else source.function(node)


def _behind(source: Source, node: ast.stmt, text: str, prior: float) -> Rewrite:
    return source.put_behind(node, text, f"`{short(text)}` is added behind its counterpart", prior)


def _turned(text: str, one: str, other: str) -> str:
    """The text with a word replaced in names such as `min_val`, `MIN` and `AbsMin`; the same text if both words occur."""
    if re.search(_pattern(other), text):
        return text
    return re.sub(_pattern(one), lambda found: _in_the_case_of(found[0], other), text)


def _pattern(word: str) -> str:
    return rf"(?<![A-Za-z])(?:{word}|{word.upper()})(?![A-Za-z])|{word.title()}(?![a-z])"


def _in_the_case_of(model: str, word: str) -> str:
    return word.upper() if model.isupper() and len(model) > 1 else word.title() if model[0].isupper() else word


def _words(source: Source, tree: ast.Module) -> set[str]:
    return set(WORD.findall(source.text))


def _statements(source: Source, function: FunctionNode) -> set[str]:
    return {_plain(source.segment(each)) for each in ast.walk(function) if isinstance(each, ast.stmt)}


def _plain(text: str) -> str:
    return "".join(text.split())
