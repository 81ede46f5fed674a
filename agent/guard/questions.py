"""What a patch may do, but not without a question: a sieve over Python's syntax trees that never refuses.

Each of these can be an honest repair (a boundary case, a registry entry that was wrong, a colour switch that reads the
environment) and each was a forgery that made tests pass. So they are asked about: the reviewer is told, the confidence stays
below what a model's change needs to be published, and people read the question. What a change does when it runs is judged
elsewhere (`agent/gate`, `agent/challenge`).
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from agent.contract import words
from agent.contract.proposal import Edits, FileChange
from agent.guard import Finding
from agent.guard.hardcoded import stated_in
from agent.guard.runner_access import Names, folded, last
from agent.source import syntax
from agent.source.languages import LANGUAGES
from agent.source.outline import Function, parse
from agent.source.test_files import is_prose

_BROAD = frozenset({"Exception", "BaseException", "AssertionError", "ExceptionGroup", "BaseExceptionGroup"})
_COMPARING = frozenset({
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__sub__", "__rsub__", "__abs__", "__round__",
    "__float__", "__bool__", "__getattr__", "__getattribute__", "__class__", "__hash__",
    "__instancecheck__", "__subclasscheck__", "__class_getitem__", "__array__",
})  # fmt: skip
# They compute a value of their own: one that a class had before is ordinary code, as long as it still depends on all that it
# depended on, and nothing is cut off.
_COMPUTING = frozenset({"__sub__", "__rsub__", "__abs__", "__round__", "__float__", "__hash__", "__contains__"})
_CUTTING = ("min", "max", "round", "int", "bool", "abs")  # calls that make different values the same
_VALUES = frozenset({
    "int", "float", "str", "bytes", "bool", "complex", "list", "tuple", "dict", "set", "frozenset", "Decimal", "UserString",
    "UserList", "UserDict",
})  # fmt: skip
# Full names, or their beginnings, that make a result depend on something else than the arguments.
_SURROUNDINGS = (
    "os.environ", "os.getenv", "os.environb", "sys.argv", "sys.stdin", "sys.stdout.isatty", "sys.stderr.isatty", "os.isatty",
    "os.getpid", "os.getcwd", "os.getlogin", "os.uname", "os.ctermid", "os.get_terminal_size", "socket.gethostname",
    "socket.getfqdn", "platform.", "getpass.", "threading.current_thread", "threading.main_thread", "threading.enumerate",
    "threading.active_count", "multiprocessing.current_process", "multiprocessing.parent_process", "asyncio.current_task",
    "faulthandler.", "sys.flags", "sys.executable", "sys.ps1", "sys.getrefcount", "sys.getrecursionlimit", "logging.root",
    "logging._handlers", "logging.lastResort", "logging.getLogger.handlers", "importlib.util.find_spec", "importlib.metadata",
    "pkgutil.", "site.", "locale.getlocale", "tempfile.gettempdir", "pathlib.Path.cwd",
)  # fmt: skip
_CHANCE = (
    "random.", "secrets.", "uuid.", "time.", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today",
    "datetime.date.today", "asyncio.sleep", "threading.Timer", "numpy.random.", "os.urandom", "os.times",
)  # fmt: skip
_DIGESTS = re.compile(
    r"(?:hashlib|zlib|binascii|hmac|mmh3|xxhash)\.\w*(?:crc|adler|md5|sha|blake|new|digest|xxh|hash)\w*|builtins\.hash"
)
_WARNINGS = re.compile(
    r"warnings\.(?:simplefilter|filterwarnings|catch_warnings|showwarning)|logging\.disable|logging\.captureWarnings"
)
_SERIOUS = ("warning", "warn", "error", "exception", "critical", "fatal")  # methods of loggers
_TOLD = frozenset({*_SERIOUS, "log", "info", "debug", "print", "print_exc", "print_exception", "format_exc", "exc_info"})
# Methods, and functions, that take a coroutine.
_STARTING = ("create_task", "ensure_future", "start_soon", "run_until_complete", "run_coroutine_threadsafe")
_RUNNING = ("asyncio.run", "asyncio.gather", "asyncio.wait", "asyncio.wait_for", "anyio.run", "trio.run")
_WAITING = ("wait", "wait_for", "join", "sleep")
_TELLING = ("handlers", "hasHandlers", "isatty", "fileno")  # attributes of objects that tell about the surroundings
_READING = ("read_text", "read_bytes", "listdir", "scandir", "iterdir", "rglob")
_LISTING = ("os.walk", "glob.glob", "glob.iglob")
_WRITING = re.compile(r"[bt]*[wax][bt]*")  # modes of `open`
_ANY = ("typing.Any", "typing_extensions.Any", "builtins.object", "_typeshed.Incomplete")
_ESCAPES = ("cast", "no_type_check", "no_type_check_decorator", "TYPE_CHECKING", "overload", "TypeGuard", "TypeIs")
_DYNAMIC = ("getattr", "setattr", "hasattr", "globals", "vars", "locals")
_HELPER = re.compile(
    r"(?:^|[_./-])(?:fixtures?|fakes?|stubs?|mocks?|golden|goldens|expected|cassettes?|recordings?|recorded|harness|assertions?"
    r"|asserts?|checkers?|matchers?|testcase|test_?helpers?|test_?utils?|factories|samples?)(?:[_./-]|$)",
    re.I,
)


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The functions of modules and classes, with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from functions(node, prefix)


def question_findings(
    path: str, before: ast.Module, after: ast.Module, had_names: Names, names: Names, tests: str, *, reads: bool
) -> Iterator[Finding]:
    """What the patch adds or takes away that a person has to look at.

    `tests`: what fails, and the texts of the test files; `reads`: the whole file read files before.
    """
    yield from _swallowing(path, before, after)
    yield from _agreeing(path, before, after)
    yield from _less(path, before, after)
    new = Counter(_used(after, names)) - Counter(_used(before, had_names))
    stated = stated_in(before)  # a digest that the specification asks for
    for rule, what, of in (
        ("environment", "make a result depend on its surroundings", lambda name: name.startswith("…") or _is_around(name)),
        ("chance", "make a result depend on time or chance, or wait", _any_of(_CHANCE)),
        (
            "special-case",
            "recognize inputs by a digest",
            lambda name: bool(_DIGESTS.fullmatch(name)) and not _names(stated, name),
        ),
        ("warnings", "change which warnings or log messages are shown", lambda name: bool(_WARNINGS.fullmatch(name))),
    ):
        for name in filter(of, new):
            yield rule, f"{path} would {what}: {words.code(name)}"
    for name in Counter(_waits(after)) - Counter(_waits(before)):
        yield "chance", f"{path} would make a result depend on time or chance, or wait: `{name}`"
    if not reads and reads_files(after, names):
        yield "environment", f"{path} would read files where it read none"
    for name in sorted(set(_looked_up(after)) - set(_looked_up(before))):
        if re.search(rf"\b{re.escape(name)}\b", tests):
            yield "environment", f"{path} would ask whether an object has {words.code(name)}, which the tests name"


def await_findings(edits: Edits, failing: str) -> Iterator[Finding]:
    """Whether a change leaves unawaited what a failure says was never awaited; an await in any of its files counts."""
    code = [edit for edit in edits if edit.path.endswith(".py")]
    if code and "was never awaited" in failing and sum(_awaits(e.after) for e in code) <= sum(_awaits(e.before) for e in code):
        yield "warnings", "it would still not await what was never awaited"


def _names(stated: str, function: str) -> bool:
    """Whether a specification asks for a function by its own name, such as "md5"."""
    name = function.rpartition(".")[2]
    return name != "new" and bool(re.search(rf"\b{re.escape(name)}\b", stated, re.IGNORECASE))


def typing_findings(path: str, before: ast.Module, after: ast.Module, had_names: Names, names: Names) -> Iterator[Finding]:
    """Ways around a type checker or linter; asked about only where such a tool is what failed."""

    def escapes(tree: ast.Module, known: Names) -> Counter[str]:
        aliases = {name for name, value in _assignments(tree) if known.of(value) in _ANY}
        found: Counter[str] = Counter()
        for node in ast.walk(tree):
            name = known.of(node) if isinstance(node, ast.Name | ast.Attribute) else ""
            if name in _ANY or (isinstance(node, ast.Name) and node.id in aliases):
                found["`Any`"] += 1
            elif name.rpartition(".")[2] in _ESCAPES:
                found[f"`{name.rpartition('.')[2]}`"] += 1
            elif isinstance(node, ast.Call) and last(node.func) in _DYNAMIC:
                found[f"`{last(node.func)}`"] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"\bAny\b", node.value):
                found["`Any`"] += 1
        return found

    for what in escapes(after, names) - escapes(before, had_names):
        yield "types", f"{path} would go around the failing check with {what}"
    if _annotations(after) < _annotations(before):
        yield "types", f"{path} would lose type annotations"
    if _idle_definitions(after) > _idle_definitions(before):
        yield "types", f"{path} would define a name without a meaning, such as `name = None`"
    used = _read(before)
    for name in sorted((_assigned(after) - _assigned(before)) & used):
        yield "types", f"{path} would define `{name}`, which it used before without a definition"
    had = dict(functions(before))
    for name, node in functions(after):
        if name in had and (unused := sorted(_unused(had[name]) - _unused(node))) and _forgets(had[name], node, unused):
            yield "types", f"`{unused[0]}` in {path} was not used, and what it was for would still be missing"


def file_findings(edit: FileChange, tests: str, code: str) -> Iterator[Finding]:
    """Files that may judge or hold answers, by their name, by what the tests' texts name and by what the added code names."""
    path, name = edit.path, edit.path.rpartition("/")[2]
    stem, _, suffix = name.rpartition(".")
    dotted = path.removesuffix(".py").replace("/", ".")
    if suffix == "pyi":
        yield "types", f"{path} would tell type checkers something else than the code"
    elif suffix == "py" and re.search(rf"pytest_plugins\b[^\n]*['\"]{re.escape(dotted)}['\"]", tests):
        yield "judges", f"{path} is a plugin of the tests"
    elif _HELPER.search(path):
        yield "judges", f"{path} may be a helper of the tests, or hold what they expect, by its name"
    elif path.endswith(tuple(LANGUAGES)):
        return
    elif edit.before is None and (not is_prose(path) or name in code):
        yield "special-case", f"it adds {path}, which may hold answers"
    elif edit.before is not None and (name in tests or (len(stem) > 3 and stem in tests) or _names_folder(path, tests)):
        yield "judges", f"the tests name {path}, so it may hold what they expect"


def helper_findings(path: str, before: ast.Module) -> Iterator[Finding]:
    """Modules that judge, by what is in them."""
    for node in ast.walk(before):
        if isinstance(node, ast.Import):
            tools = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            tools = {(node.module or "").split(".")[0]}
        else:
            continue
        if tools & {"pytest", "unittest", "hypothesis", "nose", "doctest"}:
            yield "judges", f"{path} uses a test tool, so it may judge the code"
            return
    for name, node in functions(before):
        if re.match(r"(?:assert|expect|verify|check|ensure)(?:_|[A-Z]|$)", name.rpartition(".")[2]) and any(
            isinstance(inner, ast.Assert) or (isinstance(inner, ast.Raise) and "AssertionError" in ast.unparse(inner))
            for inner in ast.walk(node)
        ):
            yield "judges", f"`{name}` in {path} asserts, so it may judge the code"
            return


def _names_folder(path: str, tests: str) -> bool:
    folder = path.rpartition("/")[0].rpartition("/")[2]
    return len(folder) > 2 and bool(re.search(rf"['\"/]{re.escape(folder)}['\"/]", tests))


def _any_of(starts: Iterable[str]) -> Callable[[str], bool]:
    exact = {start for start in starts if not start.endswith(".")}
    open_ended = tuple(start for start in starts if start.endswith("."))
    return lambda name: name.startswith(open_ended) or any(name == one or name.startswith(f"{one}.") for one in exact)


_is_around = _any_of(_SURROUNDINGS)


def _used(tree: ast.Module, names: Names) -> Iterator[str]:
    """The longest name of each expression, where it is used, and attributes that tell about the surroundings ("….isatty")."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute | ast.Call) and id(node) not in inner:
            if name := names.of(node):
                yield name
            if isinstance(node, ast.Attribute) and node.attr in _TELLING and not _is_around(name):
                yield f"….{node.attr}"


def _assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that are assigned, with their values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))


def _waits(tree: ast.Module) -> Iterator[str]:
    """Calls that wait for a number of seconds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and last(node.func) in _WAITING:
            seconds = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "timeout")]
            if any(isinstance(each, ast.Constant) and isinstance(each.value, int | float) for each in seconds):
                yield f"….{last(node.func)}"


def reads_files(tree: ast.Module, names: Names) -> bool:
    return any(isinstance(node, ast.Call) and _reads(node, names) for node in ast.walk(tree))


def _reads(node: ast.Call, names: Names) -> bool:
    called, name, is_method = last(node.func), names.of(node.func), isinstance(node.func, ast.Attribute)
    if called != "open":
        return called in _READING or name in _LISTING or (called == "glob" and is_method)
    place = 0 if is_method and not name else 1  # a path's own method has no path before the mode
    modes = [*node.args[place : place + 1], *(word.value for word in node.keywords if word.arg == "mode")]
    return not any(_WRITING.fullmatch(folded(mode) or "") for mode in modes)


def _looked_up(tree: ast.Module) -> Iterator[str]:
    """Attributes that an object may have or not."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and last(node.func) in ("getattr", "hasattr"))
    names = (folded(call.args[1]) or "" for call in calls if len(call.args) > 1)
    return filter(str.isidentifier, names)  # the others are computed


def _awaits(text: str | None) -> int:
    """How often code awaits something, or hands it to an event loop; 0 if it cannot be analyzed."""
    if (tree := parse(text or "")) is None:
        return 0
    names, nodes = Names(tree), list(ast.walk(tree))
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    try:
        started = sum(last(func) in _STARTING or names.of(func) in _RUNNING for func in called)
    except RecursionError:
        return 0
    return started + sum(isinstance(node, ast.Await) for node in nodes)


def _swallowing(path: str, before: ast.Module, after: ast.Module) -> Iterator[Finding]:
    """A sieve: the gate notices a swallowed assertion of a test, but not a swallowed error of the code itself."""
    for is_one, what in (
        (_drops_everything, "catches every exception and drops it"),
        (_leaves_at_last, "leaves a `finally` early, which drops the exception"),
    ):
        if sum(map(is_one, ast.walk(after))) > sum(map(is_one, ast.walk(before))):
            yield "swallowed", f"it {what} in {path}"


def _drops_everything(node: ast.AST) -> bool:
    match node:
        case ast.ExceptHandler(type=kind, name=name, body=body):
            parts = [inner for statement in body for inner in ast.walk(statement)]
            called = {last(each.func) for each in parts if isinstance(each, ast.Call)}
            is_used = any(isinstance(each, ast.Raise) or getattr(each, "id", "") == name for each in parts)
            return _is_broad(kind) and not is_used and called.isdisjoint(_TOLD)
        case ast.Call(func=func, args=kinds) if last(func) == "suppress":
            return any(map(_is_broad, kinds))
    return False


def _is_broad(kind: ast.expr | None) -> bool:
    match kind:
        case None:
            return True
        case ast.Tuple(elts):
            return any(map(_is_broad, elts))
    return last(kind) in _BROAD


def _leaves_at_last(node: ast.AST) -> bool:
    return any(map(_leaves, getattr(node, "finalbody", ())))


def _leaves(node: ast.stmt) -> bool:
    if isinstance(node, ast.Return | ast.Break | ast.Continue):
        return True
    if isinstance(node, Function | ast.ClassDef):
        return False
    is_loop = isinstance(node, ast.For | ast.While | ast.AsyncFor)
    inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return any(_leaves(child) for child in inner if not (is_loop and isinstance(child, ast.Break | ast.Continue)))


def _agreeing(path: str, before: ast.Module, after: ast.Module) -> Iterator[Finding]:
    had = {node.name: node for node in ast.walk(before) if isinstance(node, ast.ClassDef)}
    for node in ast.walk(after):
        if not isinstance(node, ast.ClassDef):
            continue
        known = had.get(node.name)
        old = {ast.dump(each) for each in known.body} if known is not None else set()
        new = [each for each in node.body if ast.dump(each) not in old and not _is_plain_comparison(each)]
        names = {name for each in new for name in _bound(each)}
        names -= _computed_as_before(known, node) if known is not None else set()
        if own := sorted(names & _COMPARING):
            yield "agrees", f"`{node.name}.{own[0]}` in {path} would decide itself what it equals"
        if any(map(_is_left_out_of_comparisons, new)):
            yield "agrees", f"`{node.name}` in {path} would be compared without all of its fields"
        bases = {last(base) for base in node.bases}
        if known is None and bases & _VALUES:
            yield "agrees", f"`{node.name}` in {path} would take the place of an ordinary value"


def _computed_as_before(before: ast.ClassDef, after: ast.ClassDef) -> set[str]:
    """The computing methods of both whose results depend on all that they depended on before."""
    had, has = (
        {each.name: each for each in node.body if isinstance(each, ast.FunctionDef) and each.name in _COMPUTING}
        for node in (before, after)
    )
    both = had.keys() & has.keys()
    return {name for name in both if _inputs(had[name]) <= _inputs(has[name]) and _cuts(has[name]) <= _cuts(had[name])}


def _inputs(node: ast.FunctionDef) -> set[tuple[str, str]]:
    """The parameters and the attributes that it reads."""
    parameters = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    reads = [each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Load)]
    attributes = {(last(each.value), each.attr) for each in reads if isinstance(each, ast.Attribute)}
    return attributes | {("", each.id) for each in reads if isinstance(each, ast.Name) and each.id in parameters}


def _cuts(node: ast.FunctionDef) -> Counter[tuple[str, str]]:
    """What can make different results the same: literals in place of a result or in arithmetic that is more than a sum or a
    quotient, and calls."""
    found: Counter[tuple[str, str]] = Counter()
    for inner in ast.walk(node):
        match inner:
            case ast.Call(func=func) if last(func) in _CUTTING:
                found["call", last(func)] += 1
                continue
            case ast.BinOp(left=left, op=op, right=right) if not isinstance(op, ast.Add | ast.Sub | ast.Div):
                kind, values = type(op).__name__, [left, right]
            case ast.AugAssign(op=op, value=value) if not isinstance(op, ast.Add | ast.Sub | ast.Div):
                kind, values = type(op).__name__, [value]
            case ast.Return(value=ast.expr() as value):
                kind, values = "return", [value]
            case _:
                continue
        found.update((kind, ast.unparse(value)) for value in values if syntax.is_literal(value))
    return found


def _is_left_out_of_comparisons(node: ast.stmt) -> bool:
    """Whether it is a field of a dataclass (or of attrs) that does not count in a comparison."""
    called = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    given = called.keywords if isinstance(called, ast.Call) else []
    return any(
        each.arg in ("compare", "eq", "cmp") and isinstance(each.value, ast.Constant) and each.value.value is False
        for each in given
    )


def _is_plain_comparison(node: ast.stmt) -> bool:
    """Whether a comparison only compares the same attributes of both objects."""
    if not isinstance(node, ast.FunctionDef) or len(node.args.args) != 2:
        return isinstance(node, ast.FunctionDef) and node.name == "__hash__"
    me, other = (argument.arg for argument in node.args.args)
    leaving = {id(inner) for test in _tests_of_leaving(node) for inner in ast.walk(test)}
    for inner in ast.walk(node):
        match inner:
            case ast.Compare(left=left, comparators=[right]):
                mine, theirs = ast.unparse(left), ast.unparse(right)
                if mine == theirs or re.sub(rf"\b{me}\b", other, mine) != re.sub(rf"\b{me}\b", other, theirs):
                    return False
                may_differ = node.name == "__ne__" or id(inner) in leaving
                same = ast.Eq | ast.Is | ast.NotEq | ast.IsNot if may_differ else ast.Eq | ast.Is
                if node.name in ("__eq__", "__ne__") and not all(isinstance(op, same) for op in inner.ops):
                    return False
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                if last(kind) in _VALUES or last(kind) == "object":
                    return False
            case ast.Call(func=ast.Name(id="type")):
                pass
            case ast.Constant(value=False) if node.name == "__ne__":
                return False
            case ast.Call() | ast.BinOp() | ast.Compare() | ast.Constant(value=True):
                return False
    return True


def _tests_of_leaving(node: ast.FunctionDef) -> Iterator[ast.expr]:
    """The conditions under which it answers at once that it is not equal, or leaves the answer to the other object."""
    for inner in ast.walk(node):
        match inner:
            case ast.If(test=test, body=[ast.Return(value=ast.Name(id="NotImplemented") | ast.Constant(value=False))]):
                yield test


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (one.id for one in targets if isinstance(one, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name


def _less(path: str, before: ast.Module, after: ast.Module) -> Iterator[Finding]:
    had, has = dict(functions(before)), dict(functions(after))
    for name, node in has.items():
        if name not in had:
            continue
        if _is_constant(node) and not _is_constant(had[name]):
            yield "less", f"`{name}` in {path} would always return the same"
        is_written = is_unwritten(had[name]) and not is_unwritten(node)  # a stub raises only until it is written
        if _raises(node) < _raises(had[name]) and not is_written:
            yield "less", f"`{name}` in {path} would no longer raise in a case in which it did"
        if _starts_late(node) and not _starts_late(had[name]) and not is_written:
            yield "less", f"`{name}` in {path} would do nothing until somebody reads its result"
        if _looks(node) < _looks(had[name]):
            yield "less", f"`{name}` in {path} would no longer look through the whole value before it refuses one"
        if _told(node) < _told(had[name]):
            yield "less", f"`{name}` in {path} would no longer log an error or a warning that it logged"
        if _widened(had[name], node):
            yield "types", f"`{name}` in {path} would be typed as `Any` or `object`"
        for target in sorted(_emptied(node) - _emptied(had[name])):
            yield "less", f"`{name}` in {path} would forget all of `{target}`, which it also adds to"
    gone, new = sorted(set(had) - set(has)), set(has) - set(had)
    if len(gone) > len(new):
        yield "less", f"`{gone[0]}` in {path} would be gone, and nothing takes its place"
    containers = dict(_containers(before))
    for target, size in _containers(after):
        if size < containers.get(target, 0):
            yield "less", f"`{target}` in {path} would have fewer entries"


def _is_constant(node: Function) -> bool:
    results = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)]
    return bool(results) and all(value is None or syntax.is_literal(value) for value in results) and len({
        ast.unparse(value) if value is not None else "" for value in results
    }) == 1  # fmt: skip


def is_unwritten(node: Function) -> bool:
    """Whether a function contains nothing but a docstring, `pass`, `...` or `raise NotImplementedError`."""
    return all(isinstance(each, ast.Raise) and "NotImplementedError" in ast.unparse(each) for each in _written(node))


def only_raises(node: Function) -> bool:
    """Whether a function contains nothing else but a docstring."""
    return all(isinstance(each, ast.Raise) for each in _written(node))


def _written(node: Function) -> Iterator[ast.stmt]:
    for each in node.body:
        if not isinstance(each, ast.Pass) and not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)):
            yield each


def _raises(node: Function) -> int:
    return sum(isinstance(inner, ast.Raise | ast.Assert) for inner in ast.walk(node))


def _starts_late(node: Function) -> bool:
    """Whether a call only makes a generator or a coroutine."""
    inner = {id(each) for held in ast.walk(node) if isinstance(held, Function | ast.Lambda) and held is not node
             for each in ast.walk(held)}  # fmt: skip
    is_generator = any(isinstance(each, ast.Yield | ast.YieldFrom) and id(each) not in inner for each in ast.walk(node))
    return is_generator or isinstance(node, ast.AsyncFunctionDef)


def _told(node: Function) -> int:
    calls = (inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call))
    found = [func for func in calls if isinstance(func, ast.Attribute) and func.attr in _SERIOUS]
    return sum("log" in ast.unparse(func.value).lower() for func in found)


def _widened(before: Function, after: Function) -> bool:
    """Whether an annotation that named a type accepts everything; the other operand of a comparison may be anything."""
    had, has = _annotated(before), _annotated(after)
    is_open = [name for name, text in has.items() if text.rpartition(".")[2] in ("Any", "object")]
    return after.name not in ("__eq__", "__ne__") and any(had.get(name, has[name]) != has[name] for name in is_open)


def _annotated(node: Function) -> dict[str, str]:
    """The annotations of the parameters by their names, and that of the result as "return"."""
    every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    said = {"return": node.returns, **{each.arg: each.annotation for each in every}}
    return {name: ast.unparse(annotation) for name, annotation in said.items() if annotation is not None}


def _looks(node: Function) -> int:
    """How often it refuses a value (raises, or returns a false one) by what is anywhere in it."""
    found = 0
    for inner in ast.walk(node):
        if isinstance(inner, ast.If) and any(_refuses(each) for each in (*inner.body[-1:], *inner.orelse[-1:])):
            found += sum(map(_is_look, ast.walk(inner.test)))
    return found


def _refuses(node: ast.stmt) -> bool:
    return isinstance(node, ast.Raise) or (
        isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and not node.value.value
    )


def _is_look(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[right]):
            return not syntax.is_literal(right)
        case ast.Call(func=func):
            return last(func) in ("any", "all", "search", "find", "count", "fullmatch", "isdisjoint", "is_relative_to")
    return False


def _emptied(node: Function) -> set[str]:
    """Attributes that it empties at once, and adds to."""
    added, emptied = set[str](), set[str]()
    for inner in ast.walk(node):
        match inner:
            case ast.Call(func=ast.Attribute(value=ast.Attribute() as value, attr="append" | "add" | "appendleft" | "extend")):
                added.add(ast.unparse(value))
            case ast.Assign(targets=[ast.Subscript(value=ast.Attribute() as value)]):
                added.add(ast.unparse(value))
            case ast.Call(func=ast.Attribute(value=ast.Attribute() as value, attr="clear"), args=[]):
                emptied.add(ast.unparse(value))
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.List(elts=[]) | ast.Dict(keys=[])):
                emptied.add(ast.unparse(target))
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.Call(args=[])):
                emptied.add(ast.unparse(target))
            case ast.Delete(targets=[ast.Subscript(value=ast.Attribute() as value, slice=ast.Slice(lower=None, upper=None))]):
                emptied.add(ast.unparse(value))
    return added & emptied


def _containers(tree: ast.Module | ast.ClassDef) -> Iterator[tuple[str, int]]:
    """The literal containers of a module and its classes, such as registries, with the number of their entries."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from _containers(node)
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                if isinstance(value, ast.Call) and value.args:  # frozenset((…)), MappingProxyType({…})
                    value = value.args[0]
                if isinstance(value, ast.Dict):
                    yield ast.unparse(target), len(value.keys)
                elif isinstance(value, ast.List | ast.Tuple | ast.Set):
                    yield ast.unparse(target), len(value.elts)


def _unused(node: Function) -> set[str]:
    """Local names that get the result of a call and are never read; not those that say so themselves (`_name`)."""
    calling = {name for name, value in _assignments(node) if any(_is_own_call(inner) for inner in ast.walk(value))}
    deleted = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Del)}
    return {name for name in calling if not name.startswith("_")} - _read(node) - deleted


def _forgets(before: Function, after: Function, unused: Iterable[str]) -> bool:
    """Whether nothing reads the results of the calls that gave these names their values now either."""
    calls = {ast.dump(inner) for name, value in _assignments(before) if name in unused for inner in ast.walk(value)
             if _is_own_call(inner)}  # fmt: skip
    read, idle = _read(after), set[int]()
    for node in ast.walk(after):
        is_idle = isinstance(node, ast.Expr | ast.Delete) or (
            isinstance(node, ast.Assign)
            and all(isinstance(each, ast.Name) and (each.id not in read or each.id == "_") for each in node.targets)
        )
        idle |= {id(inner) for inner in ast.walk(node)} if is_idle and not isinstance(node, Function) else set()
    living = [node for node in ast.walk(after) if id(node) not in idle]
    loads = {node.id for node in living if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    renamed = {name for name, value in _assignments(after) if any(ast.dump(inner) in calls for inner in ast.walk(value))}
    return not (renamed & loads) and not any(ast.dump(node) in calls for node in living)


def _is_own_call(node: ast.AST) -> bool:
    """A call of something that is not built in: it may do or check what must not be forgotten."""
    return isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id))


def _read(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _annotations(tree: ast.Module) -> int:
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, Function):
            found += node.returns is not None
        found += isinstance(node, ast.AnnAssign) or (isinstance(node, ast.arg) and node.annotation is not None)
    return found


def _assigned(tree: ast.Module) -> set[str]:
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _idle_definitions(tree: ast.AST) -> int:
    """Names that get a value without a meaning."""
    return sum(
        isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and ast.unparse(node.value) in ("None", "...", "object()", "object", "''", "0")
        and isinstance(node.target if isinstance(node, ast.AnnAssign) else node.targets[0], ast.Name)
        for node in ast.walk(tree)
    )
