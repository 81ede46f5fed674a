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
from collections.abc import Iterator, Mapping, Sequence, Set
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
    may be others each time. Whether the statements of one source also prepare the examples of the next one is left open.
    """
    changing = set[str]()  # names of what has a state
    before = [0, 0]  # numbers for what may have changed results: in all sources so far, and in this one
    known: dict[tuple[object, ...], Example] = {}
    origins: dict[str, str] = {}  # by name: where its first import found it; "" if it was used before
    for examples in sources:
        meanings = dict[str, str]()  # of the names that do not mean what they do in other examples
        used = set[str]()
        functions: set[str] | None = None  # of the last call
        before = [before[0], 0]
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
                before = [hash((each, example.source)) for each in before]
                changing |= _bound_in(tree)
                continue
            before_it, functions = functions, {function for function, _ in called if function}
            if before_it not in (None, functions):
                before = [hash((each, *sorted(functions))) for each in before]
            call = _plain(tree, example.source)
            meant = [(name, meanings[name]) for name in sorted(meanings.keys() & (names | {"*"}))]
            first = known.setdefault((call, *meant, *before), example)
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
    if not any(name.lower().startswith("test") for node in ast.walk(tree) for name in _bound_by(node)):
        raise BadSpecification("the tests have no function whose name starts with `test`; give a file of pytest functions")
    uses = _uses(tree)
    own = uses.own
    if name:
        if (module := _home_of(name, uses, unbound, is_mentioned=_mentions(tree, name))) is not None:
            return module, name
        raise BadSpecification(
            f"the tests import from {' and '.join(sorted(own))}, and `{name}` is not used as a function of one of them; "
            f"import `{name}` from the module that is to be written"
        )
    if MODULE in own:
        return uses.home(MODULE)
    if not own or (unbound and not uses.stars):
        return MODULE, ""  # a function that is used without an import is imported from there
    if len(own) == 1:
        return uses.home(*own)
    raise BadSpecification(
        f"the tests import from {' and '.join(sorted(own))}, and it is not clear which of them is to be written; "
        "give the function's name (`--fn`, or `name` over HTTP)"
    )


def _home_of(name: str, uses: _Uses, unbound: Set[str], *, is_mentioned: bool) -> str | None:
    """The module from which the tests take the function, by the best sign of it; None if there is no sign."""
    own, whole = uses.own, [module for module in dict.fromkeys(uses.whole.values()) if _is_own(module)]
    taken = sorted((each for each in uses.taken if each.name == name), key=lambda each: each.bound != name)
    inner = [module for bound, module in uses.inner.items() if name in uses.attributes[bound]]
    signs = (
        *(each.module for each in taken if _is_own(each.module)),
        *(module for bound, module in uses.whole.items() if _is_own(module) and name in uses.attributes.get(bound, ())),
        *(module for module in inner if module.startswith(f"{MODULE}.")),
        *(module for module in own if module == MODULE),
        *(reversed(uses.stars) if name in unbound else ()),
        *([MODULE] if name in unbound else ()),  # it is imported from there
        *inner,
        *(whole if len(whole) == 1 and (is_mentioned or len(own) == 1) else ()),  # reached by `getattr`, a fixture, …
        *(own if len(own) == 1 and (is_mentioned or uses.stars) else ()),
        *(each.module for each in taken if each.bound == name),
    )
    return next(iter(signs), MODULE if taken or not own else None)


def _is_own(module: str) -> bool:
    return module.partition(".")[0] not in THERE


@dataclass(frozen=True, slots=True)
class _Taken:
    """`from module import name as bound`."""

    module: str
    name: str
    bound: str


@dataclass(frozen=True, slots=True)
class _Uses:
    """How tests use what they import. What is bound or used is spelled as in the tests: "slug", "slugs.slug"."""

    taken: tuple[_Taken, ...]
    whole: Mapping[str, str]  # by spelling: modules of `import` statements
    attributes: Mapping[str, Set[str]]  # by the spelling of what has them
    called: Set[str]
    objects: Set[str]  # what is called, indexed, compared or iterated, so that it is no module

    @property
    def own(self) -> tuple[str, ...]:
        """The modules that are imported and not there without the code."""
        modules = (*self.whole.values(), *(each.module for each in self.taken))
        return tuple(dict.fromkeys(module for module in modules if _is_own(module)))

    @property
    def stars(self) -> tuple[str, ...]:
        """The own modules from which everything is imported."""
        return tuple(each.module for each in self.taken if each.name == "*" and _is_own(each.module))

    @property
    def inner(self) -> Mapping[str, str]:
        """By spelling: own modules that are imported from their package. Only their attributes are used."""
        return {
            each.bound: f"{each.module}.{each.name}"
            for each in self.taken
            if _is_own(each.module)
            and each.bound in self.attributes
            and each.bound not in self.objects
            and not _is_class(each.name)
        }

    def home(self, module: str) -> tuple[str, str]:
        """The module, or the only one that is imported from this package; and its function, if the tests call nothing else."""
        names = {each.name: each.bound for each in self.taken if each.module == module}
        bounds = [bound for bound, known in self.whole.items() if known == module]
        if len(names) == 1 and not bounds and (inner := self.inner.get(*names.values())) is not None:
            names, bounds, module = {}, [*names.values()], inner
        names |= {name: f"{bound}.{name}" for bound in bounds for name in self.attributes.get(bound, ())}
        if len(names) != 1:
            return module, ""
        ((name, spelling),) = names.items()
        return module, name if spelling in self.called and not _is_class(name) else ""


def _uses(tree: ast.Module) -> _Uses:
    """Raises `BadSpecification`."""
    taken, whole = list[_Taken](), dict[str, str]()
    for node in _walk_imports(tree):
        if isinstance(node, ast.Import):
            whole |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif node.module and not node.level:
            taken += [_Taken(node.module, alias.name, alias.asname or alias.name) for alias in node.names]
        elif node in tree.body:  # elsewhere, it may never run
            raise BadSpecification(
                "the tests have a relative import, and they are no package; import from the module's name, without dots"
            )
    attributes, called, objects = dict[str, set[str]](), set[str](), set[str]()
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute):
            attributes.setdefault(_spelled(each.value), set()).add(each.attr)
        elif isinstance(each, ast.Call):
            called.add(_spelled(each.func))
        elif isinstance(each, ast.Subscript):
            objects.add(_spelled(each.value))
        elif isinstance(each, ast.Compare):
            objects |= {_spelled(operand) for operand in (each.left, *each.comparators)}
        elif isinstance(each, ast.For | ast.AsyncFor | ast.comprehension):
            objects.add(_spelled(each.iter))
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            called |= {_spelled(decorator) for decorator in each.decorator_list}
    return _Uses(tuple(taken), whole, attributes, called, objects | called)


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


def _spelled(node: ast.expr) -> str:
    """ "slugs.slug" for a name or an attribute of one; else ""."""
    parts = list[str]()
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""


def _bound_by(node: ast.AST) -> Sequence[str]:
    """The names that a definition, an import or an assignment binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return (node.name,)
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    return (node.id,) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ()


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
