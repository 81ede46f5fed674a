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
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.solving.home import MODULE, BadSpecification, home, is_class, is_own, mentions

LONGEST = 20_000  # characters of the specification
LONGEST_TESTS = 200_000  # characters of the user's tests
_TOO_DEEP = "is nested too deeply; write it in simpler parts"
_QUOTES = re.compile(r"(?:\"\"\"|''')\s*\Z")


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
    if name and given and not any(mentions(ast.parse(each.source), name) for each in given):
        raise BadSpecification(f"no example names `{name}`; correct the doctests, or the function's name")
    if signature:
        _check_calls(examples, name, signature)
    module = MODULE
    if tests.strip():
        if len(tests) > LONGEST_TESTS:
            raise BadSpecification(f"the tests are longer than {LONGEST_TESTS:,} characters; leave some out")
        module, imported = home(tests, name)
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
    """Raises `BadSpecification` if two examples demand different results of the same call.

    Compared are the calls of one function at the beginning of each source, after its imports. What stands after a statement,
    a call without arguments (of a counter) or a call of another function may have another result each time.
    """
    known: dict[str, Example] = {}
    for examples in sources:
        functions: set[str] | None = None
        for example in examples:
            tree = ast.parse(example.source)
            if functions is None and _imported(tree) is not None:
                continue
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and not _is_builtin(node.func)]
            called = {ast.unparse(node.func) for node in calls}
            is_stateful = not all(node.args or node.keywords for node in calls)
            if not example.is_checked or is_stateful or functions not in (None, called):
                known = {}  # it may also prepare the next source
                break
            functions = called
            first = known.setdefault(_plain(tree, example.source), example)
            if _meaning(first.want) != _meaning(example.want):
                raise BadSpecification(
                    f"two examples contradict each other: `{first.source}` gives `{first.want}` in one and `{example.want}` in "
                    "the other; remove the wrong one"
                )


def _is_builtin(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and hasattr(builtins, node.id)


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


def _defined_in(tree: ast.Module) -> set[str]:
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return defined | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _check_calls(examples: Sequence[Example], name: str, signature: str) -> None:
    """Raises `BadSpecification` if an example expects a value of a call that the signature does not allow."""
    parameters = _parameters(signature)
    for example in examples:
        tree = ast.parse(example.source)
        if name in _defined_in(tree) or (_imported(tree) or {}).get(name, name).rpartition(".")[2] != name:
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
    """The parameters without their annotations and their defaults' values, so that nothing of the user is evaluated."""
    (node,) = ast.parse(f"{signature}: ...").body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for each in ast.walk(node.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [each and ast.Constant(None) for each in node.args.kw_defaults]
    bare = ast.fix_missing_locations(ast.Expression(ast.Lambda(node.args, ast.Constant(None))))
    return inspect.signature(eval(compile(bare, "signature", "eval")))  # noqa: S307 a function that does nothing


def _meaning(want: str) -> object:
    try:
        return repr(ast.literal_eval(want))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return want


def _called(examples: Sequence[Example]) -> str:
    """The one function that all examples call, or "". What they define themselves is none, and neither are classes."""
    names, origins, bound = set[str](), dict[str, str](), set[str]()
    for example in examples:
        tree = ast.parse(example.source)
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names |= {call.id for call in calls[:1] if isinstance(call, ast.Name)}
        origins |= _imported(tree) or {}
        bound |= _defined_in(tree)
    found = [origins.get(name, name).rpartition(".") for name in names - bound if not hasattr(builtins, name)]
    own = {name for module, _, name in found if is_own(module) and not is_class(name)}
    return own.pop() if len(own) == 1 else ""
