"""What is to be written: a specification in words, with what the user fixed about it. Pure.

Everything is checked before a model is asked, so that a mistake in the input costs nothing.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, dropwhile

from agent.solving.agreement import Demand, bound, contradiction, demanded, demands_of, parameters_of
from agent.solving.home import MODULE, BadSpecification, bound_in, home, is_class, mentions, taken
from agent.source import syntax

LONGEST = 20_000  # characters of the specification
LONGEST_TESTS = 200_000  # characters of the user's tests
_QUOTES = re.compile(r"(?:\"\"\"|''')\s*\Z")


@dataclass(frozen=True, slots=True)
class Example:
    """One example as in a docstring: `source` is a statement or an expression, `want` its output, or a traceback."""

    source: str
    want: str

    @property
    def is_checked(self) -> bool:
        """An expression with a result; anything else may prepare what follows it."""
        return bool(self.want) and _expression(self.source) is not None

    @property
    def error(self) -> str:
        """The type of the exception if the result is a traceback, else ""."""
        if not self.want.startswith("Traceback"):
            return ""
        kind = self.want.split("\n")[-1].partition(":")[0].strip().rpartition(".")[2]
        return kind if kind.isidentifier() else "Exception"


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
        raise BadSpecification(f"the function's name {name!r} is not a Python identifier; take one like merge_intervals")
    if name and named and name != named:
        raise BadSpecification(
            f"the function's name is {name!r} and the signature says {named!r}; give one of the two, or the same name"
        )
    own, given = read_examples(text, strict=False), read_examples(doctests)
    if doctests.strip() and not given:
        raise BadSpecification("the doctests have no example; an example is a line `>>> slug('A b')`, and its result below")
    check_agreement(given, own, signature=signature)
    examples = (*given, *further(own, given))
    name = name or named
    if name and given and not any(mentions(each.source, name) for each in given):
        raise BadSpecification(f"no example names `{name}`; correct the doctests, or the function's name")
    if signature:
        _check_calls(examples, name, signature)
    module = MODULE
    if tests.strip():
        if len(tests) > LONGEST_TESTS:
            raise BadSpecification(f"the tests are longer than {LONGEST_TESTS:,} characters; leave some out")
        module, imported = home(tests, name)
        name = name or imported
        if called := name or _called(examples):
            check_agreement(given, own, signature=signature, asserted=demands_of(tests, module, called))
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
        nodes = syntax.tree(f"{head}: ...").body
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
            syntax.tree(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if not strict:
                continue
            if isinstance(error, RecursionError | MemoryError):
                raise
            raise BadSpecification(f"the example {source[:100]!r} is not Python; write a call after `>>>`") from None
        want = _QUOTES.sub("", each.want).strip()  # a docstring that was pasted with its end
        # People write `>>> add(1, 2) == 3` without a result, and mean that it holds.
        examples.append(Example(source, want or ("True" if isinstance(_expression(source), ast.Compare) else "")))
    return tuple(examples)


def _expression(source: str) -> ast.expr | None:
    """What the whole source is, if it is no statement."""
    match syntax.tree(source).body:
        case [ast.Expr(value=value)]:
            return value
    return None


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


def check_agreement(*sources: Sequence[Example], signature: str = "", asserted: Iterable[Demand] = ()) -> None:
    """Raises `BadSpecification` if two examples, or an example and a test, demand different results of the same call."""
    if (found := contradiction(chain(_demands(sources), asserted), signature)) is not None:
        raise BadSpecification(f"two examples contradict each other: {found[0]}, and {found[1]}; remove the wrong one")


def _demands(sources: Sequence[Sequence[Example]]) -> Iterator[Demand]:
    """The calls of one function with which the sources begin, after their imports.

    What stands after any other statement may have another result each time, and so may a call without arguments: that of a
    counter.
    """
    functions = set[str]()
    for example in (each for source in sources for each in dropwhile(_is_import, source)):
        call, want = _expression(example.source), example.want
        match call:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[value]) if want == "True":
                call, want = left, ast.unparse(value)
        if not (want and isinstance(call, ast.Call) and (call.args or call.keywords)):
            return
        functions |= {ast.dump(node.func) for node in ast.walk(call) if isinstance(node, ast.Call)}
        if len(functions) > 1:
            return
        if example.error or "..." not in want:  # with ELLIPSIS, it stands for any text
            yield demanded(call, want, example.error)


def _is_import(example: Example) -> bool:
    return all(isinstance(node, ast.Import | ast.ImportFrom) for node in syntax.tree(example.source).body)


def _check_calls(examples: Sequence[Example], name: str, signature: str) -> None:
    """Raises `BadSpecification` if an example is a call that the signature does not allow, and that does not fail."""
    parameters = parameters_of(signature)
    for example in examples:
        if not _is_import(example) and name in bound_in(syntax.tree(example.source)):
            return  # from here on, it is something else
        call = _expression(example.source)
        if example.error or not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == name):
            continue
        try:
            bound(call, parameters)
        except TypeError as error:
            raise BadSpecification(
                f"the example `{ast.unparse(call)[:100]}` does not fit the signature `{signature.removeprefix('def ')}` "
                f"({error}); correct one of the two"
            ) from None


def _called(examples: Sequence[Example]) -> str:
    """The one function that all examples call, or "". What they define or import from elsewhere is none, and no class is."""
    trees = [syntax.tree(each.source) for each in examples]
    bound = {name for tree in trees for name in bound_in(tree)} | set(dir(builtins))
    own = {each.spelled: each.name for tree in trees for each in taken(tree)}
    outer = [next((node.func for node in ast.walk(tree) if isinstance(node, ast.Call)), None) for tree in trees]
    names = {each.id for each in outer if isinstance(each, ast.Name)}
    found = {own.get(name, name) for name in names if name in own or name not in bound}
    found = {name for name in found if not is_class(name)}
    return found.pop() if len(found) == 1 else ""
