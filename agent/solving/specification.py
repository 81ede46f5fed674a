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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LONGEST = 20_000  # characters of the specification
LONGEST_TESTS = 200_000  # characters of the user's tests
MODULE = "solution"
THERE = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"}
"""What tests can import besides the code: all that the sandbox has."""
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
        raise BadSpecification("the signature, an example or a test is nested too deeply; write it in simpler parts") from None


def _specified(text: str, name: str, signature: str, doctests: str, tests: str) -> Specification:
    _check_text(text)
    signature, named = read_signature(signature) if signature.strip() else ("", "")
    if name and not (name.isidentifier() and not keyword.iskeyword(name)):
        raise BadSpecification(f"the function's name {name!r} is not a Python identifier; for example --fn merge_intervals")
    if name and named and name != named:
        raise BadSpecification(f"--fn says {name!r} and the signature says {named!r}; give one of the two, or the same name")
    own, given = read_examples(text, strict=False), read_examples(doctests)
    if doctests.strip() and not given:
        raise BadSpecification("the doctests have no example; an example is a line `>>> slug('A b')`, and its result below")
    examples = tuple(dict.fromkeys((*given, *own)))
    check_agreement(examples)
    name = name or named
    if name and given and not any(_names(example, name) for example in given):
        raise BadSpecification(f"no example calls `{name}`; correct the doctests, or the name in --fn or --signature")
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
        except (SyntaxError, ValueError):
            if strict:
                raise BadSpecification(f"the example {source[:100]!r} is not Python; write a call after `>>>`") from None
            continue
        want = _QUOTES.sub("", each.want).strip()  # a docstring that was pasted with its end
        examples.append(Example(source, want or ("True" if _is_comparison(source) else "")))
    return tuple(examples)


def _is_comparison(source: str) -> bool:
    """People write `>>> add(1, 2) == 3` without a result, and mean that it holds."""
    body = ast.parse(source).body
    return len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Compare)


def check_agreement(examples: Sequence[Example]) -> None:
    """Raises `BadSpecification` if two examples demand different results of the same call.

    An import changes no result, and neither does a name for a constant, if the constant is the same. After any other statement,
    results may be others, and those of calls with a name that it bound may be others each time.
    """
    known: dict[tuple[str, ...], Example] = {}
    constants: dict[str, str] = {}
    changing: set[str] = set()
    for example in examples:
        tree = ast.parse(example.source)
        if all(isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body):
            continue
        if (bound := _constants(tree)) is not None:
            constants |= bound
            changing -= bound.keys()
            continue
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if not example.is_call or not example.want or names & changing:
            known.clear()
            changing |= _bound_in(tree)
            continue
        call = ast.unparse(tree)
        first = known.setdefault((call, *(f"{name} = {constants[name]}" for name in sorted(names & constants.keys()))), example)
        if _meaning(first.want) != _meaning(example.want):
            raise BadSpecification(
                f"two examples contradict each other: `{call}` gives `{first.want}` in one and `{example.want}` in the other; "
                "remove the wrong one"
            )


def _constants(tree: ast.Module) -> dict[str, str] | None:
    """The names that assignments bind to constants that cannot change; None if there is any other statement."""
    found: dict[str, str] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not all(isinstance(target, ast.Name) for target in node.targets):
            return None
        try:
            hash(ast.literal_eval(node.value))
        except (ValueError, TypeError):
            return None
        found |= {target.id: ast.unparse(node.value) for target in node.targets if isinstance(target, ast.Name)}
    return found


def _bound_in(tree: ast.Module) -> set[str]:
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return defined | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _names(example: Example, name: str) -> bool:
    nodes = ast.walk(ast.parse(example.source))
    return any(name in (getattr(node, "id", ""), getattr(node, "attr", "")) for node in nodes)


def _check_calls(examples: Sequence[Example], name: str, signature: str) -> None:
    """Raises `BadSpecification` if an example expects a value of a call that the signature does not allow."""
    parameters = _parameters(signature)
    for example in examples:
        if not example.is_call or not example.want or example.want.startswith("Traceback"):
            continue
        for node in ast.walk(ast.parse(example.source, mode="eval")):
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
    """The one function that all examples call, or ""."""
    names = set()
    for example in examples:
        calls = [node.func for node in ast.walk(ast.parse(example.source)) if isinstance(node, ast.Call)]
        names |= {call.id for call in calls[:1] if isinstance(call, ast.Name)}
    own = {name for name in names if not hasattr(builtins, name)}
    return own.pop() if len(own) == 1 else ""
