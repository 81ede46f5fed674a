"""What is to be written: a specification in words, with what the user fixed about it. Pure.

Everything is checked before a model is asked, so that a mistake in the input costs nothing.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import keyword
import re
import symtable
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LONGEST = 20_000  # characters of the specification
LONGEST_TESTS = 200_000  # characters of the user's tests
MODULE = "solution"
THERE = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"}
"""What tests can import besides the code: the standard library of this process's Python, whose version may differ from the
sandbox's, and pytest."""
_TOO_DEEP = "is nested too deeply; write it in simpler parts"
_QUOTES = re.compile(r"(?:\"\"\"|''')\s*\Z")


class BadSpecification(Exception):
    """The specification cannot be used; the message is one line that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Example:
    """One example as in a docstring: `source` is a statement or an expression, `want` its output, or a traceback."""

    source: str
    want: str

    @property
    def is_call(self) -> bool:
        """An expression, which a statement before it may have prepared."""
        try:
            ast.parse(self.source.strip(), mode="eval")
        except SyntaxError:
            return False
        return True

    @property
    def is_checked(self) -> bool:
        """An expression with a result."""
        return bool(self.want) and self.is_call


@dataclass(frozen=True, slots=True)
class Specification:
    """What the user gave. `examples` and `tests` are contracts: no code is accepted that contradicts them."""

    text: str
    name: str = ""  # of the function; "" if the design chooses it
    signature: str = ""  # "def slug(text: str) -> str", "" if the design chooses it
    examples: tuple[Example, ...] = ()
    tests: str = ""  # a file of pytest functions
    module: str = MODULE  # the tests import the code from it


def specify(text: str, *, name: str = "", signature: str = "", doctests: str = "", tests: str = "") -> Specification:
    """Raises `BadSpecification`."""
    try:
        return _specified(text, name, signature, doctests, tests)
    except (RecursionError, MemoryError):
        raise BadSpecification(f"the signature, an example or a test {_TOO_DEEP}") from None


def _specified(text: str, name: str, signature: str, doctests: str, tests: str) -> Specification:
    _check_text(text)
    signature, named = read_signature(signature) if signature.strip() else ("", "")
    if name and not (name.isidentifier() and not keyword.iskeyword(name)):
        raise BadSpecification(f"the function's name {name!r} is not a Python identifier; take one like merge_intervals")
    if name and named and name != named:
        raise BadSpecification(
            f"the function's name is {name!r} and the signature says {named!r}; give one of the two, or the same name"
        )
    own, given = read_examples(text, strict=False), read_examples(doctests)
    if doctests.strip() and not given:
        raise BadSpecification("the doctests have no example; an example is a line `>>> slug('A b')`, and its result below")
    check_agreement(given, own)
    examples = (*given, *further(own, given))
    name = name or named
    if name and given and not any(_mentions(ast.parse(each.source), name) for each in given):
        raise BadSpecification(f"no example names `{name}`; correct the doctests, or the function's name")
    if signature:
        _check_calls(examples, name, signature)
    module = MODULE
    if tests.strip():
        module, imported = _home(tests, name)
        name = name or imported
    return Specification(text.strip(), name or _called(examples), signature, examples, tests.strip(), module)


def is_said(text: str, stub: str) -> bool:
    """Whether the words are in a stub's docstring, however they are indented: prompts need them once."""
    return " ".join(text.split()) in " ".join(stub.split())


def _check_text(text: str) -> None:
    if not text.strip():
        raise BadSpecification("the specification is empty; say in a few sentences what the code should do")
    if len(text) > LONGEST:
        raise BadSpecification(f"the specification is longer than {LONGEST:,} characters; keep what a developer must know")
    if "\0" in text:
        raise BadSpecification("the specification contains a zero byte, so it is probably not a text; give a text")


def read_signature(signature: str) -> tuple[str, str]:
    """The signature as `def name(…) -> …`, and the name. `def` and the colon can be left out. Raises `BadSpecification`."""
    plain = " ".join(signature.strip().rstrip(":").split())
    head = plain if plain.startswith(("def ", "async def ")) else f"def {plain}"
    try:
        nodes = ast.parse(f"{head}: ...").body
        compile(f"{head}: ...", "signature", "exec", dont_inherit=True)  # finds more, such as two parameters of one name
    except (SyntaxError, ValueError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadSpecification(
            f"the signature {plain[:100]!r} does not parse ({why}); write it like `slug(text: str) -> str`"
        ) from None
    if len(nodes) != 1 or not isinstance(nodes[0], ast.FunctionDef | ast.AsyncFunctionDef):
        raise BadSpecification(f"the signature {plain[:100]!r} is not one function; write it like `slug(text: str) -> str`")
    return ast.unparse(nodes[0]).partition("\n")[0].rstrip(":"), nodes[0].name


def read_examples(text: str, *, strict: bool = True) -> tuple[Example, ...]:
    """The doctests in a text. Raises `BadSpecification` if `strict` and they are malformed."""
    try:
        found = doctest.DocTestParser().get_examples(text)
    except ValueError as error:
        if not strict:
            return ()
        raise BadSpecification(f"the doctests are malformed: {error}") from None
    examples = []
    for each in found:
        source = each.source.strip()
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if not strict:
                continue
            if isinstance(error, RecursionError | MemoryError):
                raise BadSpecification(f"the example `{source[:40]}` {_TOO_DEEP}") from None
            raise BadSpecification(f"the example {source[:100]!r} is not Python; write a call after `>>>`") from None
        want = _QUOTES.sub("", each.want).strip()  # a docstring that was pasted with its end
        examples.append(Example(source, want or ("True" if _is_comparison(source) else "")))
    return tuple(examples)


def further(examples: Sequence[Example], known: Sequence[Example]) -> tuple[Example, ...]:
    """The examples that are not known. Only calls whose result and preparing statements are the same as those of a known one
    are left out, and known statements at the end, which prepare nothing."""
    had = set(_prepared(known))
    found = [
        example
        for example, prepared in zip(examples, _prepared(examples), strict=True)
        if not example.is_checked or prepared not in had
    ]
    while found and not found[-1].is_checked and found[-1] in known:
        found.pop()
    return tuple(found)


def _prepared(examples: Sequence[Example]) -> Iterator[tuple[int, Example]]:
    """Each example, and a number for the statements before it."""
    before = 0
    for example in examples:
        yield before, example
        if not example.is_checked:
            before = hash((before, example))


def _is_comparison(source: str) -> bool:
    """People write `>>> add(1, 2) == 3` without a result, and mean that it holds."""
    body = ast.parse(source).body
    return len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Compare)


def check_agreement(*sources: Sequence[Example]) -> None:
    """Raises `BadSpecification` if two examples demand different results of the same call, in the same source or in two.

    An import changes no result unless it gives a name another meaning, and neither does a name for a constant, if the constant
    is the same. After any other statement of a source, results may be others, and so they may after a call without arguments,
    as of a counter, or of another function. The results of calls without arguments, and with a name that a statement bound,
    may be others each time.
    """
    known: dict[tuple[object, ...], Example] = {}
    origins: dict[str, str] = {}  # by name: where its first import found it; "" if it was used before
    for examples in sources:
        meanings = dict[str, str]()  # of the names that do not mean what they do in other examples
        changing, used = set[str](), set[str]()
        functions: set[str] | None = None  # of the last call
        before = 0  # a number for what may have changed results
        for example in examples:
            tree = ast.parse(example.source)
            if (imported := _imported(tree)) is not None:
                for name, origin in imported.items():
                    if origins.setdefault(name, "" if name in used else origin) == origin:
                        meanings.pop(name, None)
                    else:
                        meanings[name] = origin
                changing -= imported.keys()
                continue
            if (bound := _constants(tree)) is not None:
                meanings |= bound
                changing -= bound.keys()
                continue
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            used |= names
            called = [(_function(node), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
            is_stateful = any(function and not (node.args or node.keywords) for function, node in called)
            if not example.is_checked or names & changing or is_stateful:
                before = hash((before, example.source))
                changing |= _bound_in(tree)
                continue
            before_it, functions = functions, {function for function, _ in called if function}
            if before_it not in (None, functions):
                before = hash((before, *sorted(functions)))
            call = _plain(tree, example.source)
            meant = [(name, meanings[name]) for name in sorted(meanings.keys() & (names | {"*"}))]
            first = known.setdefault((call, *meant, before), example)
            if _meaning(first.want) != _meaning(example.want):
                raise BadSpecification(
                    f"two examples contradict each other: `{call}` gives `{first.want}` in one and `{example.want}` in the "
                    "other; remove the wrong one"
                )


def _plain(tree: ast.AST, source: str) -> str:
    """The source in one spelling."""
    try:
        return ast.unparse(tree)
    except RecursionError:  # nested too deeply for this, though not for Python
        return source


def _imported(tree: ast.Module) -> dict[str, str] | None:
    """By name, what imports bind it to; None if there is any other statement."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            found |= {each.asname or each.name: f"{'.' * node.level}{node.module or ''}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.asname or each.name.partition(".")[0]: each.name for each in node.names}
        else:
            return None
    return found


def _function(call: ast.Call) -> str:
    """What is called, such as "slug" or "shop.total"; "" if it is built in or has no name."""
    node, parts = call.func, list[str]()
    while isinstance(node, ast.Attribute | ast.Subscript):
        parts.append(node.attr if isinstance(node, ast.Attribute) else "[]")
        node = node.value
    if not isinstance(node, ast.Name) or hasattr(builtins, node.id):
        return ""
    return ".".join((node.id, *reversed(parts)))


def _constants(tree: ast.Module) -> dict[str, str] | None:
    """The names that assignments bind to constants that cannot change; None if there is any other statement."""
    found: dict[str, str] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not all(isinstance(target, ast.Name) for target in node.targets):
            return None
        try:
            hash(ast.literal_eval(node.value))
            value = ast.unparse(node.value)
        except (ValueError, TypeError, RecursionError, MemoryError):
            return None
        found |= {target.id: value for target in node.targets if isinstance(target, ast.Name)}
    return found


def _bound_in(tree: ast.Module) -> set[str]:
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return defined | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _mentions(tree: ast.AST, name: str) -> bool:
    """Whether the name is used, imported or defined, or a string has it."""
    for node in ast.walk(tree):
        if name in (getattr(node, "id", ""), getattr(node, "attr", "")):
            return True
        said = node.value if isinstance(node, ast.Constant) else getattr(node, "name", "")
        if isinstance(said, str) and name in said.split("."):
            return True
    return False


def _check_calls(examples: Sequence[Example], name: str, signature: str) -> None:
    """Raises `BadSpecification` if an example expects a value of a call that the signature does not allow."""
    parameters = _parameters(signature)
    for example in examples:
        tree = ast.parse(example.source)
        if name in _bound_in(tree) or (_imported(tree) or {}).get(name, name).rpartition(".")[2] != name:
            return  # from here on, it is something else
        if not example.is_checked or example.want.startswith("Traceback"):
            continue
        for node in _walk_now(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name):
                continue
            if any(isinstance(each, ast.Starred) for each in node.args) or not all(each.arg for each in node.keywords):
                continue
            try:
                parameters.bind(*node.args, **{each.arg: each.value for each in node.keywords if each.arg})
            except TypeError as error:
                raise BadSpecification(
                    f"the example `{ast.unparse(node)[:100]}` does not fit the signature `{signature.removeprefix('def ')}` "
                    f"({error}); correct one of the two"
                ) from None


def _walk_now(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that are evaluated at once: not those of a `lambda`, which may be never called, or to see it fail."""
    left = deque([tree])
    while left:
        node = left.popleft()
        yield node
        left.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.Lambda))


def _parameters(signature: str) -> inspect.Signature:
    """The parameters without their defaults' values and their annotations, so that nothing is evaluated."""
    (node,) = ast.parse(f"{signature}: ...").body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    required = len(positional) - len(given.defaults)
    found = [
        inspect.Parameter(
            each.arg,
            inspect.Parameter.POSITIONAL_ONLY if at < len(given.posonlyargs) else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if at < required else None,
        )
        for at, each in enumerate(positional)
    ]
    if given.vararg:
        found.append(inspect.Parameter(given.vararg.arg, inspect.Parameter.VAR_POSITIONAL))
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        kind = inspect.Parameter.KEYWORD_ONLY
        found.append(inspect.Parameter(each.arg, kind, default=inspect.Parameter.empty if default is None else None))
    if given.kwarg:
        found.append(inspect.Parameter(given.kwarg.arg, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(found)


def _meaning(want: str) -> object:
    try:
        return repr(ast.literal_eval(want))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return want


def _home(tests: str, name: str) -> tuple[str, str]:
    """The module from which the tests import the code, and the imported function if there is only one.

    Raises `BadSpecification`.
    """
    if len(tests) > LONGEST_TESTS:
        raise BadSpecification(f"the tests are longer than {LONGEST_TESTS:,} characters; leave some out")
    try:
        tree, unbound = ast.parse(tests), _unbound(tests)
    except (SyntaxError, ValueError) as error:
        at = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadSpecification(f"the tests are not Python{at}: {why}; give a file of pytest functions") from None
    if not any(isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.lower().startswith("test") for node in tree.body):
        raise BadSpecification("the tests have no function whose name starts with `test`; give a file of pytest functions")
    imported, used = _imports(tree)
    if name:
        for module, names in (*imported.items(), *((module, used[module]) for module in used if _is_own(module))):
            if name in names:
                return module, name
    own = {module: {*names, *used.get(module, ())} for module, names in imported.items() if _is_own(module)}
    if MODULE in own:
        return MODULE, _only(own[MODULE])
    takes_all = any("*" in names for names in own.values())
    if not own or (not takes_all and (name in unbound if name else unbound)):
        return MODULE, ""  # a function that is used without an import is imported from there
    if len(own) == 1 and (takes_all or not name):
        (only,) = own
        return only, _only(own[only])
    from_ = f"the tests import from {' and '.join(sorted(own))}"
    if name:
        raise BadSpecification(
            f"{from_} and never use the function `{name}`; import `{name}` from the module that is to be written"
        )
    raise BadSpecification(f"{from_}, and it is not clear which of them is to be written; name the function with --fn")


def _is_own(module: str) -> bool:
    return module.partition(".")[0] not in THERE


def _only(names: set[str]) -> str:
    return next(iter(names)) if len(names) == 1 and "*" not in names else ""


def _imports(tree: ast.Module) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
    """By module: the names that are imported from it, and those that are used as its attributes. Raises `BadSpecification`."""
    imported: dict[str, list[str]] = {}
    spelled: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                raise BadSpecification(
                    "the tests have a relative import, and they are no package; import from the module's name, without dots"
                )
            imported.setdefault(node.module, []).extend(alias.name for alias in node.names)
            spelled |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                imported.setdefault(alias.name, [])
                spelled[alias.asname or alias.name] = alias.name
    used: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name | ast.Attribute):
            continue
        if (module := spelled.get(ast.unparse(node.value))) is not None:
            used.setdefault(module, []).append(node.attr)
    return imported, used


def _unbound(tests: str) -> set[str]:
    """The names that the tests use and do not bind. Raises `SyntaxError`."""
    tables = list(_tables(symtable.symtable(tests, "tests", "exec")))
    top, *_ = tables
    bound = {each.get_name() for each in top.get_symbols() if each.is_assigned() or each.is_imported()}
    used = {each.get_name() for each in top.get_symbols() if each.is_referenced()}
    for table in tables[1:]:
        for each in table.get_symbols():
            if each.is_global():
                (bound if each.is_assigned() else used).add(each.get_name())
    return {name for name in used - bound if not hasattr(builtins, name) and not name.startswith("__")}


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _called(examples: Sequence[Example]) -> str:
    """The one function that all examples call, or "". What they define themselves is none, and neither are classes."""
    names, origins, bound = set[str](), dict[str, str](), set[str]()
    for example in examples:
        tree = ast.parse(example.source)
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names |= {call.id for call in calls[:1] if isinstance(call, ast.Name)}
        origins |= _imported(tree) or {}
        bound |= _bound_in(tree)
    found = [origins.get(name, name).rpartition(".") for name in names - bound if not hasattr(builtins, name)]
    own = {name for module, _, name in found if _is_own(module) and not _is_class(name)}
    return own.pop() if len(own) == 1 else ""


def _is_class(name: str) -> bool:
    """By the usual spelling."""
    return name.lstrip("_")[:1].isupper()
