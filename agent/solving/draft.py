"""The draft of what is to be written: files with signatures and docstrings, whose bodies are missing.

The user's own signature and examples are kept word for word. What is missing is drafted by a model (role "design"), or left
open.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from agent.contract.budget import Usage
from agent.contract.events import Emit
from agent.edits.changes import EditProblem
from agent.models.router import Models
from agent.models.values import ModelError, Truncated
from agent.prompts import render
from agent.solving import code
from agent.solving.home import BadSpecification
from agent.solving.specification import Example, Specification, check_agreement, further, read_examples
from agent.source import syntax

SECONDS = 300.0  # for a draft
_CONTRADICTION = re.compile(r"\s*`?CONTRADICTION:?`?:?[ \t]*([^\n`]{1,600})[`.]*\s*\Z")


@dataclass(frozen=True, slots=True)
class Draft:
    """Files to complete, by path. `examples` are those that the model added: claims, which the user can confirm."""

    files: Mapping[str, str]
    path: str  # the file with the function
    name: str  # of the function; "" for a package without one
    signature: str = ""  # "" if the code may choose it
    examples: tuple[Example, ...] = ()


def without_model(spec: Specification) -> Draft:
    """The user's words as a docstring, under the user's signature. Raises `BadSpecification` without a name."""
    if not spec.name:
        raise BadSpecification("the function has no name; give one, or a signature")
    head = spec.signature or f"def {spec.name}(*args, **kwargs)"
    path = path_of(spec)
    body = textwrap.indent(f"{_words_of(spec)}\n{code.BODY}\n", "    ")
    return Draft({path: code.with_hints(f"{head}:\n{body}", spec.signature)}, path, spec.name, spec.signature)


def unnamed(spec: Specification) -> Draft:
    """The user's words as the docstring of a function that the first answer names."""
    return Draft({path_of(spec): f"{_words_of(spec)}\n"}, path_of(spec), "")


def _words_of(spec: Specification) -> str:
    """The docstring: the words, and the examples that are not among them."""
    given = [line for each in spec.examples if each.source not in spec.text for line in _shown(each)]
    words = "\n".join([spec.text, *(["", *given] if given else [])])
    words = words.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{words}\n"""'


async def designed(spec: Specification, models: Models, emit: Emit, *, seconds: float = SECONDS) -> Draft:
    """The model's draft. One more answer is asked for if the first is unusable.

    Raises `ModelError` with the usage of both requests; if neither answer is usable, it is no outage.
    """
    path = path_of(spec)
    prompt = render(
        "design",
        specification=spec.text,
        signature=spec.signature,
        name=spec.name,
        examples="\n".join(line for each in spec.examples for line in _shown(each)),
        tests=spec.tests,
        path=path,
    )
    problem, usage = "", Usage()
    for _ in range(2):
        try:
            answer = await models.ask(prompt, seconds=seconds / 2, emit=emit)
        except Truncated as error:
            usage += error.usage
            problem = "Your answer was cut off: it was too long."
            prompt = prompt.then("(an answer that was too long)", "Your answer was cut off. Draft less, and no explanations.")
            continue
        except ModelError as error:
            error.usage = usage + error.usage
            raise
        usage += answer.usage
        if (said := _CONTRADICTION.match(answer.text)) is not None:
            raise ModelError(f"the specification contradicts itself, says the model: {said[1].strip()}. Say which holds", usage)
        found = read_draft(answer.text, spec, path)
        if isinstance(found, Draft):
            return found
        found, less = (code.CUT, "Draft less, and no explanations. ") if code.is_open(answer.text) else (found, "")
        problem = found.sentence
        prompt = prompt.then(answer.text[:20_000] or "(nothing)", f"{problem} {less}Answer again, in the described form.")
    raise ModelError(f"the model's designs could not be used. {code.for_people(problem)}", usage)


def read_draft(answer: str, spec: Specification, path: str) -> Draft | EditProblem:
    try:
        return _draft(answer, spec, path)
    except (RecursionError, MemoryError):
        return EditProblem("Your code is nested too deeply; write it in simpler parts.")


def _draft(answer: str, spec: Specification, path: str) -> Draft | EditProblem:
    files = code.files_in(answer, path)
    if isinstance(files, EditProblem):
        return files
    path = main_of(files, spec, path)
    name = spec.name or next(iter(code.public(files.get(path, ""))), "")
    if (problem := code.problem_in(files, path, name, spec.signature)) is not None:
        return problem
    files = {**files, path: code.signed(files[path], name, spec.signature)}
    head = spec.signature or head_of(files[path], name)
    try:
        own = read_examples(_docstrings(files))
        check_agreement(spec.examples, own, signature=head)
    except BadSpecification as error:
        return EditProblem(f"In your docstrings, {error}.")
    return Draft(files, path, name, head, further(own, spec.examples))


def packaged(files: code.Files, spec: Specification) -> Draft:
    """The draft that leaves the bodies of these files open, which parse."""
    path = main_of(files, spec, path_of(spec))
    name = next(iter(code.public(files[path])), "")
    return Draft(code.stubs(files), path, name, head_of(files[path], name))


def main_of(files: Mapping[str, str], spec: Specification, path: str) -> str:
    """The file that tests import: `path` or the package of its name, else that of the function, else a package or the first."""
    package = f"{path.removesuffix('.py')}/__init__.py"
    if path in files or (spec.tests and package not in files):
        return path
    defining = [each for each, text in files.items() if spec.name and spec.name in code.defined(text)]
    packages = sorted((each for each in files if each.endswith("__init__.py")), key=len)
    return ([package] * (package in files) + defining + packages + list(files))[0]


def without_example(files: Mapping[str, str], example: Example) -> dict[str, str]:
    """The files without this example in their docstrings."""
    wanted = [line.strip() for line in _shown(example)]
    found = {}
    for path, text in files.items():
        lines = text.split("\n")
        for at in range(len(lines) - len(wanted), -1, -1):
            if [line.strip() for line in lines[at : at + len(wanted)]] == wanted:
                del lines[at : at + len(wanted)]
        found[path] = "\n".join(lines)
    return found


def path_of(spec: Specification) -> str:
    return f"{spec.module.replace('.', '/')}.py"


def _docstrings(files: Mapping[str, str]) -> str:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for text in files.values() for node in ast.walk(syntax.tree(text)) if isinstance(node, kinds)]
    return "\n\n".join(found for node in nodes if (found := ast.get_docstring(node)))


def head_of(text: str, name: str) -> str:
    """The function's signature; "" if the text, which parses, has none of this name."""
    for node in syntax.tree(text).body:
        if isinstance(node, code.Function) and node.name == name:
            node.decorator_list, node.body = [], [ast.Expr(ast.Constant(...))]
            return ast.unparse(node).partition("\n")[0].rstrip(":")
    return ""


def _shown(example: Example) -> list[str]:
    first, *rest = example.source.split("\n")
    return [f">>> {first}", *(f"... {line}" for line in rest), *(example.want.split("\n") if example.want else [])]
