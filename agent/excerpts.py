"""What a model is shown of a repository: failing verdicts and the places around them, within a number of tokens.

Best first, and what does not fit is left out: suspicious functions, the tests that fail, the frames of their tracebacks, and
the signatures of what else the suspicious files define. Never the whole repository.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from agent.edits import EditProblem, read_text
from agent.model import estimate_tokens
from agent.oracle import failures
from agent.proposers.base import Situation
from agent.task import Failure

MARGIN = 12  # lines around a place that lies in no function
MOST_LINES = 160  # of one excerpt


@dataclass(frozen=True, slots=True)
class Excerpt:
    title: str  # "pkg/a.py, lines 10-24 (in the traceback of 3 failing tests)"
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    path: str
    first: int
    last: int
    why: str


def red(situation: Situation) -> tuple[Failure, ...]:
    """The failures that must turn."""
    return failures(situation.red, (id_ for ids in situation.oracle.must_turn.values() for id_ in ids))


def told(found: Iterable[Failure], tokens: int) -> str:
    """Failing verdicts as text: all messages first, then tracebacks as far as they fit."""
    found = list(found)
    text = "\n".join(f"{failure.id}: {failure.message}" for failure in found[:30])
    text = text[: tokens * 2]
    for failure in found:
        if not failure.details:
            continue
        more = f"\n\n--- {failure.id}\n{failure.details}"
        if estimate_tokens(text + more) > tokens:
            more = more[: max(0, (tokens - estimate_tokens(text)) * 3)]
        text += more
        if estimate_tokens(text) >= tokens:
            break
    return text


async def excerpts(situation: Situation, tokens: int) -> list[Excerpt]:
    """The code around what fails, in the order of worth, in at most `tokens`."""
    sources: dict[str, str | None] = {}
    shown: list[Excerpt] = []
    covered: dict[str, set[int]] = {}
    for place in [*_places(situation), *await _imported(situation)]:
        if place.path not in sources:
            text = await read_text(situation.sandbox.base, place.path)
            sources[place.path] = None if isinstance(text, EditProblem) else text
        source = sources[place.path]
        if source is None:
            continue
        first, last = _widened(source, place)
        span = set(range(first, last + 1))
        if span <= covered.get(place.path, set()):
            continue
        excerpt = Excerpt(f"{place.path}, lines {first}-{last} ({place.why})", "\n".join(source.split("\n")[first - 1 : last]))
        cost = estimate_tokens(excerpt.title + excerpt.text)
        if cost > tokens:
            continue
        tokens -= cost
        covered.setdefault(place.path, set()).update(span)
        shown.append(excerpt)
    for path in dict.fromkeys(span.path for span in situation.suspects):
        outline = _outline(sources.get(path) or "")
        cost = estimate_tokens(outline)
        if outline and cost <= tokens:
            tokens -= cost
            shown.append(Excerpt(f"What {path} defines", outline))
    return shown


def _places(situation: Situation) -> list[Place]:
    found = red(situation)
    suspects = [Place(s.path, s.first_line, s.last_line, s.reason) for s in situation.suspects[:12]]
    tests = []
    for failure in found[:4]:
        path, _, rest = str(failure.id).partition("::")
        line = next((frame.line for frame in failure.frames if frame.path == path), None)
        if rest and line:
            tests.append(Place(path, line, line, "the failing test"))
    frames = [Place(f.path, f.line, f.line, "in a traceback") for failure in found[:4] for f in reversed(failure.frames)]
    return suspects[:4] + tests + frames + suspects[4:]


async def _imported(situation: Situation) -> list[Place]:
    """The modules that the failing tests import: a plain wrong result leaves no frame of the code that made it."""
    here = {entry.path for entry in await situation.sandbox.base.files()}
    places = []
    for path in dict.fromkeys(str(failure.id).partition("::")[0] for failure in red(situation)[:4]):
        text = await read_text(situation.sandbox.base, path) if path in here else None
        for module in _modules(text) if isinstance(text, str) else []:
            stem = module.replace(".", "/")
            names = [f"{root}{stem}{end}" for root in ("", "src/") for end in (".py", "/__init__.py")]
            places += [Place(name, 1, MOST_LINES - 2 * MARGIN, "imported by a failing test") for name in names if name in here]
    return places


def _modules(source: str) -> list[str]:
    """Names that a module imports; of `from a import b` both `a.b` and `a`, as `b` may be either."""
    found: list[str] = []
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [*(f"{node.module}.{alias.name}" for alias in node.names), node.module]
    return list(dict.fromkeys(found))


def _widened(source: str, place: Place) -> tuple[int, int]:
    """The innermost definition around a place, or a few lines; short files whole."""
    count = source.count("\n") + 1
    if count <= MOST_LINES // 2:
        return 1, count
    first, last = max(1, place.first - MARGIN), min(count, place.last + MARGIN)
    around = [(a, b) for a, b in _definitions(source) if a <= place.first and place.last <= b and b - a < MOST_LINES]
    if around:
        first, last = min(around, key=lambda ab: ab[1] - ab[0])
    return first, min(last, first + MOST_LINES)


def _definitions(source: str) -> list[tuple[int, int]]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [
        (min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in ast.walk(_tree(source))
        if isinstance(node, kinds)
    ]


def _outline(source: str) -> str:
    """Imports and signatures of a module."""
    out = []
    for node in _tree(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            out.append(ast.unparse(node))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            out.append(_signature(node))
        elif isinstance(node, ast.ClassDef):
            out.append(f"class {node.name}({', '.join(ast.unparse(base) for base in node.bases)}):")
            out += [f"    {_signature(n)}" for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return "\n".join(out)


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    prefix = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{prefix} {node.name}({ast.unparse(node.args)}){returns}: ..."


def _tree(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])
