"""Tests that a model writes from the specification, run with the change and without it.

A test counts against a change only if it fails with it and passed before, or is in the specification word for word: models
misread specifications, and other expectations are no contract.
"""

from __future__ import annotations

import ast
import asyncio
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.challenge.specification import is_stated
from agent.contract import words
from agent.contract.budget import Usage
from agent.contract.events import Emit
from agent.contract.proposal import Edits
from agent.contract.verdicts import Check, CheckRun, Verdict
from agent.edits.changes import apply
from agent.models.router import Models
from agent.models.values import ModelRefused
from agent.prompts import render
from agent.source import syntax
from agent.source.test_parts import body_of
from agent.state import Work
from sandbox.base import LimitExceeded

PATIENCE = 20.0  # seconds for one run of its tests
MOST, LONGEST = 8, 16_000  # tests, characters of an answer that are read
SAID = 160  # characters of a failure's message
MOST_NAMED = 4  # functions that the prompt names
_UNLIKE = ("AssertionError", "Failed: DID NOT RAISE")  # a wrong result; other errors may be the test's fault
_BLOCK = re.compile(r"^(`{3,})(?:python|py)?[ \t]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)

_Ended = tuple[Verdict | None, str, int]  # verdict, message, and the line of the test where it failed


@dataclass(frozen=True, slots=True)
class TestFindings:
    """Clauses for the tests that count against the change, one for a doubtful test, and the number of passing tests.

    `turned`: how many of these fail without the change, and are not only the failing tests again. `tells`: does it say anything
    that none passes? Not if none could run here, as where a framework has to be set up.
    """

    against: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    green: int = 0
    turned: int = 0
    tells: bool = False


@dataclass(frozen=True, slots=True)
class Brief:
    """What the model sees: never the change."""

    functions: tuple[str, ...]  # the changed ones: "parse", "Parser.feed"
    specification: str
    tests: str


async def ask(models: Models, brief: Brief, *, seconds: float, emit: Emit) -> tuple[tuple[str, ...], Usage]:
    """The model's tests, each the text of a file.

    Raises `ModelError`, also if the answer has no usable test (`ModelRefused`).
    """
    prompt = render(
        "challenge",
        functions=", ".join(words.code(name, 80) for name in brief.functions[:MOST_NAMED]),
        specification=brief.specification,
        tests=brief.tests,
    )
    answer = await models.ask(prompt, seconds=seconds, emit=emit)
    found = await asyncio.to_thread(read_tests, answer.text)
    if not found:
        raise ModelRefused("its answer has no usable test", answer.usage)
    return found, answer.usage


def read_tests(answer: str) -> tuple[str, ...]:
    """The tests in an answer, each with its imports, without prose, fixtures and unparsable code."""
    answer = answer[:LONGEST]
    block = _BLOCK.search(answer)
    body = body_of(block[2] if block else answer)
    imports = "\n".join(ast.unparse(node) for node in body if isinstance(node, ast.Import | ast.ImportFrom))
    tests = [n for n in body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_") and not n.decorator_list]
    plain = [n for n in tests if not ast.unparse(n.args) and _statements(n)]
    return tuple(f"{imports}\n\n\n{ast.unparse(node)}\n" for node in plain[:MOST])


async def run(
    work: Work, check: Check, folder: str, tests: Sequence[str], edits: Edits, specification: str, known: str
) -> TestFindings:
    """Run tests in `folder`, with the change and without. Raises `SandboxError` if the sandbox is lost.

    `known` is the text of the failing tests: one that only repeats them is no witness.
    """
    with_it, before = await asyncio.gather(*(_run(work, check, folder, tests, changes) for changes in (edits, ())))
    against, odd, green, turned, tells = list[str](), list[str](), 0, 0, False
    for source, (now, message, line), (then, *_) in zip(tests, with_it, before, strict=True):
        tells = tells or now is Verdict.PASSED or then is Verdict.PASSED or message.startswith(_UNLIKE)
        if now is Verdict.PASSED:
            green += 1
            turned += then is not None and then.red and not _repeats(source, known)
        elif now is Verdict.FAILED:
            said = message if len(message) <= SAID else f"{message[: SAID - 1]}…"
            clause = f"a test from the specification fails: {words.code(_asserted(source, line), 160)} ({said})"
            if then is Verdict.PASSED:
                against.append(f"{clause}, and it passed before")
            elif is_stated(source, specification):
                against.append(clause)
            elif message.startswith(_UNLIKE):
                odd.append(clause)
    return TestFindings(tuple(against), tuple(odd[:1]), green, turned, tells)


async def _run(work: Work, check: Check, folder: str, tests: Sequence[str], edits: Edits) -> list[_Ended]:
    """How each test ended. Each has its own file, so one that cannot be imported does not hide the others."""
    mark = secrets.token_hex(4)  # avoids the repository's own file names
    paths = [f"{folder}test_{mark}_{number}.py" for number in range(len(tests))]
    done = await run_files(work, check, dict(zip(paths, tests, strict=True)), edits)
    if done is None:
        return [(None, "", 0)] * len(tests)
    verdicts = {id_.partition("::")[0]: verdict for id_, verdict in done.verdicts.items() if "::" in id_}
    ended: dict[str, _Ended] = {path: (verdicts.get(path), "", 0) for path in paths}
    for failure in done.failures:
        path = failure.id.partition("::")[0]
        line = next((frame.line for frame in failure.frames if frame.path == path), 0)
        ended[path] = (verdicts.get(path), failure.message, line)
    return [ended[path] for path in paths]


async def run_files(work: Work, check: Check, files: Mapping[str, str], edits: Edits, *options: str) -> CheckRun | None:
    """Run pytest on new test files, by path, with the change. None if that cannot be applied, or the run exceeds a limit.

    Raises `SandboxError` if the sandbox is lost."""
    async with work.task.sandbox.candidate() as workspace:
        if await apply(workspace, edits) is not None:
            return None
        for path, source in files.items():
            await workspace.write(path, source.encode("utf-8", "replace"))
        argv = [workspace.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *files]
        own = replace(check, command=shlex.join(argv), reader="pytest", timeout=PATIENCE, cwd=".", shell="bash")  # noqa: S604
        try:
            return await work.runner.run(workspace, own, timeout=min(PATIENCE, work.patience(own)))
        except LimitExceeded:
            return None


def _statements(tree: ast.AST) -> list[tuple[ast.stmt, str]]:
    """A test's assertions and expected exceptions, with their texts."""
    found: list[tuple[ast.stmt, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            found.append((node, ast.unparse(node.test)))
        elif isinstance(node, ast.With) and ast.unparse(node.items[0].context_expr).startswith(("pytest.raises(", "raises(")):
            found.append((node, " ".join(ast.unparse(node).split())))
    return found


def _repeats(source: str, known: str) -> bool:
    """Whether everything that a test asserts stands in the known tests, whatever the quotes and spaces."""
    plain = [re.sub(r"[\s'\"()]", "", text) for text in (known, *(text for _, text in _statements(syntax.tree(source))))]
    return all(text in plain[0] for text in plain[1:])


def _asserted(source: str, line: int) -> str:
    """The text of the statement at the line where the test failed; without one there, of the first."""
    found = _statements(syntax.tree(source))
    return next((text for node, text in found if node.lineno <= line <= (node.end_lineno or node.lineno)), found[0][1])
