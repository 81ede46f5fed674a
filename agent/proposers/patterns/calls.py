"""Patterns on calls: their arguments, families of functions that are easily confused, wrapping and unwrapping."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from agent.proposers.patterns.names import kind_of, scope
from agent.proposers.patterns.operators import loosely
from agent.proposers.patterns.source import (
    FunctionNode,
    Rewrite,
    Source,
    called_name,
    has_place,
    is_compound,
    names_in,
    plain,
    quoted,
)

MADE_TO_BE_CALLED = re.compile(r"(?:^|_)(?:factory|func|function|callback|hook|getter|builder|constructor)$")


def _families(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(line.split()) for line in text.split("\n") if line.strip())


# One family of easily confused names per line: functions, then methods.
FAMILIES = _families(
    """
    min max sum
    any all
    int float round str
    sorted reversed list set tuple
    len sum max
    isinstance issubclass
    getattr hasattr
    ord chr
    bin hex oct
    map filter
    floor ceil trunc round
    zip zip_longest
    deepcopy copy
    ValueError TypeError RuntimeError NotImplementedError
    KeyError IndexError LookupError AttributeError ValueError
    OSError FileNotFoundError IOError PermissionError
    defaultdict OrderedDict Counter dict
    """
)
METHODS = _families(
    """
    append extend add appendleft insert
    pop popleft remove discard popitem
    update setdefault add
    startswith endswith
    find index rfind rindex count
    lower upper swapcase casefold
    capitalize title upper
    strip lstrip rstrip
    split rsplit splitlines
    partition rpartition
    ljust rjust center zfill
    isdigit isalpha isalnum isnumeric isdecimal
    isupper islower isalpha
    keys values items
    union intersection difference symmetric_difference
    issubset issuperset isdisjoint
    match search fullmatch
    findall finditer
    group groups groupdict
    read readline readlines
    put get
    get setdefault pop
    encode decode
    sort reverse
    removeprefix removesuffix lstrip rstrip
    start end
    acquire release
    warn warning
    bisect_left bisect_right bisect
    floor ceil
    now utcnow
    log log2 log10
    sin cos
    """
)
# Methods, attributes and built-in functions that Python removed or deprecated, and their replacements.
RENAMED = {
    names[0]: names[1]
    for names in _families(
        """
    iteritems items
    itervalues values
    iterkeys keys
    has_key __contains__
    __nonzero__ __bool__
    __getslice__ __getitem__
    func_name __name__
    func_code __code__
    func_defaults __defaults__
    im_func __func__
    im_self __self__
    getchildren iter
    getiterator iter
    tostring tobytes
    fromstring frombytes
    assertEquals assertEqual
    assertNotEquals assertNotEqual
    assertItemsEqual assertCountEqual
    assertRaisesRegexp assertRaisesRegex
    assertRegexpMatches assertRegex
    isAlive is_alive
    isSet is_set
    notifyAll notify_all
    readfp read_file
    getargspec getfullargspec
    izip zip
    imap map
    ifilter filter
    xrange range
    unicode str
    basestring str
    long int
    raw_input input
    unichr chr
    """
    )
}
PAIRED = {"max": True, "min": True, "gcd": True, "zip": False, "pow": False, "divmod": False}  # is the order irrelevant?
PAIRS_OF = 5  # names that are paired
OPTIONAL = {"get": "0", "pop": "0", "round": "2", "enumerate": "1", "sum": "0", "int": "2", "split": "' '", "range": "2"}
METHOD_WRAPPERS = ("lower", "strip", "copy", "items", "upper", "keys", "values", "split", "encode", "decode")
WRAPPERS = (
    "abs", "len", "str", "int", "list", "sorted", "set", "sum", "float", "bool", "tuple", "reversed", "dict", "iter", "round",
)  # fmt: skip


OTHER_END = {"lstrip": "rstrip", "rstrip": "lstrip", "removeprefix": "removesuffix", "removesuffix": "removeprefix"}
MIRRORED = str.maketrans("()[]{}<>", ")(][}{><")
NO_KEYS = ("list", "set", "dict", "sorted", "reversed", "iter")  # their results cannot be keys, or never equal another one


def _relatives(name: str, families: tuple[tuple[str, ...], ...]) -> dict[str, float]:
    found = {RENAMED[name]: 0.8} if name in RENAMED else {}
    for family in families:
        if name in family:
            for distance, other in enumerate(o for o in family if o != name):
                found.setdefault(other, 0.8 - 0.1 * distance)
    return found


def families(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for other, prior in _relatives(node.id, FAMILIES).items():
            yield source.replaced(node, other, prior)
    elif isinstance(node, ast.Attribute):
        _, end = source.span(node)
        for other, prior in _relatives(node.attr, METHODS).items():
            yield Rewrite(end - len(node.attr), end, other, quoted("." + node.attr, "." + other), prior)


def renamed(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Replaces a wrong name everywhere in the function, also in strings that look it up (`getattr`, `hasattr`)."""
    if not isinstance(node, FunctionNode):
        return
    places: dict[str, list[tuple[int, int]]] = {}
    for each in source.inside(node):
        if isinstance(each, ast.Attribute):
            end = source.span(each)[1]
            places.setdefault(each.attr, []).append((end - len(each.attr), end))
        elif isinstance(each, ast.Name) and each.id in RENAMED:
            places.setdefault(each.id, []).append(source.span(each))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier():
            start, end = source.span(each)
            if source.text[start + 1 : end - 1] == each.value:
                places.setdefault(each.value, []).append((start + 1, end - 1))
    for name, spans in places.items():
        if len(spans) > 1:
            for other, prior in _relatives(name, METHODS).items():
                title = f"`{name}` becomes `{other}` {len(spans)} times"
                yield source.together([(*span, other) for span in spans], title, prior if name in RENAMED else prior * 0.6)


def arguments(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Swaps or drops arguments; adds the optional argument of a well-known function."""
    if not isinstance(node, ast.Call):
        return
    before, texts = source.segment(node), [source.segment(a) for a in node.args]
    if not any(isinstance(a, ast.Starred) for a in node.args):
        is_unordered = isinstance(node.func, ast.Name) and PAIRED.get(node.func.id, False)
        for i, one in enumerate(() if is_unordered else node.args):
            for j, other in enumerate(node.args[i + 1 :], i + 1):
                title = f"the arguments `{texts[i][:30]}` and `{texts[j][:30]}` of `{before[:40]}` are swapped"
                yield from source.exchanged(one, other, title, 0.75)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner) as one), args=[ast.Name() as other], keywords=[]):
                if {owner, other.id} <= {*scope(source, node)}:
                    # `out.append(x)` is hardly ever the wrong way round.
                    prior = 0.2 if isinstance(source.parents.get(node), ast.Expr) else 0.5
                    yield from source.exchanged(one, other, f"`{owner}` and `{other.id}` are swapped in `{before[:40]}`", prior)
        for one, other in ((a, k.value) for a in node.args[:1] for k in node.keywords if k.arg is None):  # `dict(a, **b)`
            yield from source.exchanged(
                one, other, f"`{source.segment(one)[:30]}` and `{source.segment(other)[:30]}` are swapped", 0.5
            )
        spans = [source.span(a) for a in node.args]
        for i, (a, b) in enumerate(spans if len(spans) > 1 else ()):
            start, end = (a, spans[i + 1][0]) if i + 1 < len(spans) else (spans[i - 1][1], b)
            yield Rewrite(start, end, "", f"the argument `{texts[i][:40]}` of `{before[:40]}` is dropped", 0.4)
    more = OPTIONAL.get(called_name(node))
    if more and len(node.args) == 1 and not node.keywords and before[-2] != ",":
        close = source.span(node)[1] - 1
        yield Rewrite(close, close, ", " + more, f"`{before[:60]}` gets `{more}`", 0.3)


def mirrored(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """What is taken from one end of a text is taken from the other, too: `.lstrip("[")` → `.lstrip("[").rstrip("]")`."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=[ast.Constant(value=str(text))], keywords=[]) if name in OTHER_END:
            call = f".{OTHER_END[name]}({text[::-1].translate(MIRRORED)!r})"
            end = source.span(node)[1]
            yield Rewrite(end, end, call, f"`{source.segment(node)[:60]}` gets `{call}`", 0.4)


def defaulted(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """`d.get(key, default)` and `d.get(key) or default`, which differ for what is empty."""
    match node:
        case ast.Call(func=ast.Attribute(attr="get") as asking, args=[key, default], keywords=[]) if not _is_open(key, default):
            text = f"{source.segment(asking)}({source.segment(key)}) or {loosely(source, default)}"
            yield source.replaced(node, text, 0.45, compound=True)
        case ast.BoolOp(op=ast.Or(), values=[ast.Call(func=ast.Attribute(attr="get") as asking, args=[key]) as call, default]):
            if not call.keywords and not _is_open(key, default):
                text = f"{source.segment(asking)}({source.segment(key)}, {source.segment(default)})"
                yield source.replaced(node, text, 0.45)


def chosen(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A default for None takes the place of what is only empty: `a or b` → `a if a is not None else b`."""
    match node, source.parents.get(node):
        case ast.BoolOp(op=ast.Or(), values=[ast.Name() | ast.Attribute() as given, default]), (
            ast.Assign() | ast.AnnAssign() | ast.Return() | ast.keyword() | ast.Call()
        ):
            text = source.segment(given)
            if re.fullmatch(r"[\w.]+", text) and "\n" not in source.segment(node) and not _is_open(default):
                yield source.replaced(node, f"{text} if {text} is not None else {source.segment(default)}", 0.5, compound=True)


def uncalled(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A function in the place of what it returns: `self.make` → `self.make()`."""
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    parent, name = source.parents.get(node), node.id if isinstance(node, ast.Name) else node.attr
    is_given = isinstance(parent, ast.Call) and node in parent.args and called_name(parent) not in ("isinstance", "issubclass")
    is_value = is_given or isinstance(parent, ast.Assign | ast.Return | ast.keyword)
    if is_value and (name in source.once(_called, source.tree) or MADE_TO_BE_CALLED.search(name)):
        yield source.replaced(node, f"{source.segment(node)}()", 0.45 if isinstance(parent, ast.stmt) else 0.25)


def _called(source: Source, tree: ast.Module) -> frozenset[str]:
    """The names that the file calls without arguments."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and not node.args and not node.keywords)
    return frozenset(map(called_name, calls))


def _is_open(*nodes: ast.expr) -> bool:
    """Whether one of them cannot stand everywhere without parentheses."""
    return any(isinstance(node, ast.Starred | ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.GeneratorExp) for node in nodes)


def chained(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Two calls in the other order: `text.strip().lower()` → `text.lower().strip()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Attribute(value=owner)) as inner)):
            start, middle, end = (source.span(each)[1] for each in (owner, inner, node))
            start += len(source.text[start:middle]) - len(source.text[start:middle].lstrip(") \n"))  # `(a + b).strip()`
            first, second = source.text[start:middle], source.text[middle:end]
            if first != second and first.startswith(".") and second.lstrip().startswith("."):
                title = f"the calls `{first.strip()[:30]}` and `{second.strip()[:30]}` are swapped"
                yield Rewrite(start, end, second + first, title, 0.5)


def bracketed(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """The bracket of a call at another place: `f(a[1:])` → `f(a)[1:]`, `f(a).strip()` → `f(a.strip())`."""
    if isinstance(source.parents.get(node), ast.Raise):
        return
    match node:
        case ast.Call(args=[ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner)) as middle], keywords=[]):
            pass
        case ast.Subscript(value=ast.Call(args=[inner], keywords=[]) as middle, ctx=ast.Load()):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Call(args=[inner], keywords=[]) as middle)):
            pass
        case _:
            return
    if isinstance(inner, ast.Constant) and not isinstance(inner.value, str | bytes):
        return
    ends = [source.span(each)[1] for each in (inner, middle, node)]
    first, second = source.text[ends[0] : ends[1]], source.text[ends[1] : ends[2]]
    if sorted((first[:1], second[:1])) in ([")", "."], [")", "["]) and ")" in (first, second):
        before = source.segment(node)
        after = source.text[source.span(node)[0] : ends[0]] + second + first
        yield Rewrite(ends[0], ends[2], second + first, quoted(before, after), 0.5)


def interpolated(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Two values of an f-string in the other order."""
    if not isinstance(node, ast.JoinedStr):
        return
    values = [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
    for one, other in pairwise(each for each in values if source.once(has_place, each)):
        title = f"`{source.segment(one)[:30]}` and `{source.segment(other)[:30]}` are swapped in the text"
        yield from source.exchanged(one, other, title, 0.5)


def paired(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A function that takes several values is called with one: `max(a)` → `max(best, x)`, `max(a, x)`."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in PAIRED and source.function(node):
            if isinstance(argument, ast.Starred):
                return
        case _:
            return
    before, close = source.segment(node), source.span(node)[1] - 1
    near: list[str] = []  # the assigned names and the variables of enclosing loops come first
    for each in source.above(node):
        targets = each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.For) else []
        near += [name for target in targets for name in names_in(target)]
    names = list(dict.fromkeys([*near, *scope(source, node)]))[:PAIRS_OF]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    if not PAIRED[name]:
        pairs += [(b, a) for a, b in pairs]
    for rank, pair in enumerate(map(", ".join, pairs)):
        yield source.replaced(argument, pair, 0.42 - 0.01 * rank, title=quoted(before, f"{name}({pair})"))
    for rank, other in enumerate(names):
        if other != source.segment(argument):
            yield Rewrite(close, close, f", {other}", quoted(before, f"{before[:-1]}, {other})"), 0.4 - 0.01 * rank)


def wrapping(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Removes a call around an expression, or adds one."""
    if not isinstance(node, ast.expr) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return
    parent = source.parents[node]
    if isinstance(node, ast.Call) and not isinstance(parent, ast.Expr):  # as a statement, its argument rarely does anything
        inner: list[ast.expr] = [a for a in node.args[:1] if not isinstance(a, ast.Starred)]
        if isinstance(node.func, ast.Attribute):
            inner.append(node.func.value)
        for kept in inner:
            yield source.replaced(node, source.segment(kept), 0.6, compound=is_compound(kept))
    is_held = (isinstance(parent, ast.Call) and node is parent.func) or (
        isinstance(parent, ast.Attribute | ast.Subscript) and node is parent.value
    )
    is_simple = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    if is_held or not (is_simple or isinstance(node, ast.BinOp | ast.ListComp | ast.GeneratorExp)):
        return
    before = source.segment(node)
    inside = before[1:-1] if isinstance(node, ast.GeneratorExp) and before.startswith("(") else before
    taken = source.segment(parent.func) if isinstance(parent, ast.Call) else ""
    is_key = isinstance(parent, ast.Subscript) and node is parent.slice
    for name in WRAPPERS:
        if name != taken and not before.startswith(name + "(") and not (is_key and name in NO_KEYS):
            yield source.replaced(node, f"{name}({inside})", 0.42 if name in WRAPPERS[:6] else 0.3)
    for method in dict.fromkeys((*source.lost, *METHOD_WRAPPERS)) if is_simple else ():
        yield source.replaced(node, f"{before}.{method}()", 0.65 if method in source.lost else 0.3)
    if is_simple or isinstance(node, ast.BinOp):
        yield from _turned(source, node)


def _turned(source: Source, node: ast.expr) -> Iterator[Rewrite]:
    """The negated expression, its square, or a part of it."""
    function, before = source.function(node), source.segment(node)
    kind = kind_of(source, function, node) if function is not None else ""
    if kind != "text":
        yield source.replaced(node, f"-{plain(source, node)}", 0.3, compound=True)
    if is_compound(node):
        return
    if kind != "text":
        yield source.replaced(node, f"{before} ** 2", 0.3, compound=True)
    if kind != "number":
        for part in ("[::-1]", "[1:]", "[0]", *(("[2:]", "[:-1]", "[-1]") if isinstance(node, ast.Call) else ())):
            yield source.replaced(node, before + part, 0.3)
