"""What is to be written: a specification in words, with what the user fixed about it. Pure.

Everything is checked before a model is asked, so that a mistake in the input costs nothing.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 20_000  # characters of the specification
LONGEST_TESTS = 200_000  # characters of the user's tests
MODULE = "solution"
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
    _check_text(text)
    signature, named = read_signature(signature) if signature.strip() else ("", "")
    if name and not (name.isidentifier() and not keyword.iskeyword(name)):
        raise BadSpecification(f"the function's name {name!r} is not a Python identifier; for example --fn merge_intervals")
    if name and named and name != named:
        raise BadSpecification(f"--fn says {name!r} and the signature says {named!r}; give one of the two, or the same name")
    own, given = _examples(text, strict=False), _examples(doctests, strict=True)
    if doctests.strip() and not given:
        raise BadSpecification("the doctests have no example; an example is a line `>>> slug('A b')`, and its result below")
    examples = tuple(dict.fromkeys((*given, *own)))
    check_agreement(examples)
    name = name or named
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
    except (SyntaxError, ValueError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadSpecification(
            f"the signature {plain[:100]!r} does not parse ({why}); write it like `slug(text: str) -> str`"
        ) from None
    if len(nodes) != 1 or not isinstance(nodes[0], ast.FunctionDef | ast.AsyncFunctionDef):
        raise BadSpecification(f"the signature {plain[:100]!r} is not one function; write it like `slug(text: str) -> str`")
    return ast.unparse(nodes[0]).partition("\n")[0].rstrip(":"), nodes[0].name


def _examples(text: str, *, strict: bool) -> tuple[Example, ...]:
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
    """Raises `BadSpecification` if two examples demand different results of the same call."""
    if not all(example.is_call for example in examples):
        return  # a statement between two equal calls may change the result
    known: dict[str, Example] = {}
    for example in examples:
        call = ast.unparse(ast.parse(example.source, mode="eval"))
        first = known.setdefault(call, example)
        if _meaning(first.want) != _meaning(example.want):
            raise BadSpecification(
                f"two examples contradict each other: `{call}` gives `{first.want}` in one and `{example.want}` in the other; "
                "remove the wrong one"
            )


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
        tree = ast.parse(tests)
    except (SyntaxError, ValueError) as error:
        at = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise BadSpecification(f"the tests are not Python{at}: {error}; give a file of pytest functions") from None
    if not any(isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.lower().startswith("test") for node in tree.body):
        raise BadSpecification("the tests have no function whose name starts with `test`; give a file of pytest functions")
    homes: dict[str, list[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            homes.setdefault(node.module, []).extend(alias.name for alias in node.names)
    if name and (found := next((module for module, names in homes.items() if name in names), None)):
        return found, name
    foreign = {module: names for module, names in homes.items() if module == MODULE}
    for module, names in foreign.items():
        return module, names[0] if len(names) == 1 else ""
    return MODULE, ""


def _called(examples: Sequence[Example]) -> str:
    """The one function that all examples call, or ""."""
    names = set()
    for example in examples:
        calls = [node.func for node in ast.walk(ast.parse(example.source)) if isinstance(node, ast.Call)]
        names |= {call.id for call in calls[:1] if isinstance(call, ast.Name)}
    own = {name for name in names if not hasattr(builtins, name)}
    return own.pop() if len(own) == 1 else ""
