"""Turns examples and tests into the test files of a workspace. Pure.

Files that begin with `test_examples` or `test_given` are contracts. The others were written from the specification by a model,
so they can be wrong: `agent/solving/dispute.py` decides about those that the code contradicts.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from agent.solving.draft import Draft
from agent.solving.home import unbound_in
from agent.solving.specification import Example, Specification
from agent.source import syntax

EXAMPLES, GIVEN, DRAFTED, BLIND, ADVERSARIAL = (
    "test_examples.py",
    "test_given.py",
    "test_drafted_{}.py",
    "test_blind_{}.py",
    "test_adversarial_{}.py",
)
CONTRACTS = (EXAMPLES, GIVEN)
_PRINTED = '''def _printed(call):
    """What an interactive session shows."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        value = call()
    return " ".join((shown.getvalue() + ("" if value is None else repr(value))).split())
'''


def contract_files(spec: Specification, draft: Draft, *, confirmed: bool) -> dict[str, str]:
    """The tests that the user gave; with `confirmed`, the drafted examples are among them."""
    files = {}
    examples = (*spec.examples, *(draft.examples if confirmed else ()))
    module = module_of(draft.path)
    modules = [module_of(path) for path, text in draft.files.items() if path == draft.path or ">>>" in text]
    if examples:
        files[EXAMPLES] = example_tests(examples, *modules)
    if not confirmed:
        before = list[Example]()
        for at, each in enumerate(draft.examples, 1):
            if each.is_checked:
                files[DRAFTED.format(at)] = example_tests((*before, each), *modules)
            else:
                before.append(each)
    if spec.tests:
        files[GIVEN] = with_import(spec.tests, module, draft.name)
    return files


def is_written(draft: Draft) -> str:
    """A test that only asks whether the code is there."""
    checks = "\n".join(f"    assert 'NotImplementedError' not in open({path!r}).read()" for path in draft.files)
    return f"import {module_of(draft.path)}\n\n\ndef test_is_written():\n{checks}\n"


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def with_import(tests: str, module: str, name: str) -> str:
    """The tests; the function is imported if they use it without importing or defining it."""
    if name and name in unbound_in(syntax.tree(tests)):
        return f"from {module} import {name}\n\n{tests}\n"
    return f"{tests}\n"


def example_tests(examples: Sequence[Example], *modules: str) -> str:
    """One test for each example with a result; statements before it prepare it."""
    tests, before, imports = list[str](), list[str](), {"import pytest", *(f"from {module} import *" for module in modules)}
    for example in examples:
        if not example.is_checked:
            before.append(_plain(example.source))
            continue
        checked = _checked(example)
        if "_printed(" in checked:
            imports |= {"import contextlib", "import io"}
        tests.append(_test(len(tests) + 1, [*before, checked]))
    if not tests:  # what must only run
        tests.append(_test(1, before))
    helper = [_PRINTED] if "import io" in imports else []
    return "\n".join(sorted(imports, reverse=True)) + "\n\n\n" + "\n\n".join([*helper, *tests])


def _test(number: int, statements: Sequence[str]) -> str:
    body = "\n".join(f"    {line}" for statement in statements for line in statement.split("\n"))
    return f"def test_example_{number}():\n{body}\n"


def _checked(example: Example) -> str:
    """A statement that checks an example."""
    source, want = _plain(example.source), example.want
    if example.error:
        return f"with pytest.raises({example.error}):\n    {source}"
    try:
        value = syntax.literal(want)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return f"assert _printed(lambda: {source}) == {' '.join(want.split())!r}"
    source = f"({source})" if not isinstance(syntax.expression(source).body, ast.Call) else source
    if isinstance(value, float):
        return f"assert {source} == pytest.approx({want}, nan_ok=True)"
    return f"assert {source} == {want}"


def _plain(source: str) -> str:
    """Without comments, and with each text in one line, as it is indented and continued."""
    if "#" not in source and "\n" not in source:
        return source
    try:
        return ast.unparse(syntax.tree(source))
    except (RecursionError, ValueError):  # too deep, or an f-string with such quotes that only newer versions write
        return source
