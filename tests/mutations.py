"""How many seeded bugs the tests find: `python -m tests.mutations --tier quick` (make mutations).

Each mutation changes one operator, constant or returned value of the product, on a line that tests cover. The tests that cover
the line are run with `-x` in a copy of the repository: the mutation is found when one of them fails that passes without it. The
same seed makes the same mutations of the same code, so that two tiers can be compared. Which tests cover a line is read from
`--coverage`, the data of `pytest --cov=app --cov=agent --cov=sandbox --cov=webhooks --cov-context=test`; what only other
processes run is not in it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("app", "agent", "sandbox", "webhooks")
PATIENCE = 900  # seconds for the tests of one mutation; one that hangs them is found
DOUBTFUL = 5  # tests that fail without the mutation, until it counts as missed
COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
ARITHMETIC: Mapping[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "*"}


@dataclass(frozen=True)
class Mutation:
    """`start` to `end` are columns of one line, in bytes."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.before}  →  {self.after}"

    def apply(self, source: bytes) -> bytes:
        lines = source.splitlines(keepends=True)
        text = lines[self.line - 1]
        assert text[self.start : self.end].decode() == self.before, self
        lines[self.line - 1] = text[: self.start] + self.after.encode() + text[self.end :]
        return b"".join(lines)


def mutations(path: str, source: bytes) -> Iterator[Mutation]:
    """All that can be made of a file, in order."""
    lines = source.splitlines()

    def of(node: ast.expr, after: str) -> Iterator[Mutation]:
        if node.end_lineno == node.lineno and node.end_col_offset is not None:
            before = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
            yield Mutation(path, node.lineno, node.col_offset, node.end_col_offset, before, after)

    for node in _statements(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in COMPARISONS:
                yield from of(node, f"({ast.unparse(left)} {COMPARISONS[type(operator)]} {ast.unparse(right)})")
            case ast.BoolOp(op=operator, values=values):
                word = " or " if isinstance(operator, ast.And) else " and "
                yield from of(node, "(" + word.join(f"({ast.unparse(value)})" for value in values) + ")")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield from of(node, f"bool({ast.unparse(operand)})")
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC and not _is_text(node):
                yield from of(node, f"({ast.unparse(left)} {ARITHMETIC[type(operator)]} {ast.unparse(right)})")
            case ast.Constant(value=bool() as value):
                yield from of(node, str(not value))
            case ast.Constant(value=int() as value):
                yield from of(node, str(value + 1))
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield from of(value, "None")


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node in the body of a function, once; no annotation, and nothing inside an f-string."""
    seen: set[int] = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in (node for statement in function.body for node in ast.walk(statement)):
            if isinstance(node, ast.AnnAssign):
                seen.update(map(id, ast.walk(node.annotation)))
            elif isinstance(node, ast.JoinedStr):
                seen.update(map(id, ast.walk(node)))
            if id(node) not in seen:
                seen.add(id(node))
                yield node


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(part, ast.JoinedStr | ast.Constant) and not _is_number(part) for part in (node.left, node.right))


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def tests_of(data_file: Path, top: Path) -> dict[str, dict[int, list[str]]]:
    """Ids of the tests that cover a line, by path and line. `top` is where the data was measured."""
    from coverage import CoverageData  # only this needs it

    data = CoverageData(str(data_file))
    data.read()
    found: dict[str, dict[int, list[str]]] = {}
    for file in data.measured_files():
        contexts = data.contexts_by_lineno(file)
        path = Path(file).relative_to(top).as_posix() if Path(file).is_relative_to(top) else file
        found[path] = {
            line: sorted({context.rpartition("|")[0] for context in names if "|" in context})
            for line, names in contexts.items()
        }
    return found


class Copy:
    """The repository without its history, to be broken."""

    def __init__(self, folder: Path, tier: str) -> None:
        self.folder, self.tier = folder, tier
        for name in _tracked("."):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
        (folder / ".venv").symlink_to((ROOT / ".venv").resolve())

    def pytest(self, *arguments: str, ids: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Raises `subprocess.TimeoutExpired`."""
        chosen = self.folder / "ids.txt"
        chosen.write_text("\n".join(ids))
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:xdist",
                "-q",
                f"--tier={self.tier}",
                *arguments,
            ]
            + ([f"@{chosen}"] if ids else []),
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def collected(self) -> list[str]:
        """Ids of all tests of the tier, in order."""
        listed = self.pytest("--collect-only").stdout
        return [line for line in listed.splitlines() if "::" in line]

    def judge(self, mutation: Mutation, ids: Sequence[str]) -> str:
        """ "found", "missed", or "not covered" by the tier's tests."""
        left = list(ids)
        for _ in range(DOUBTFUL):
            if not left:
                break
            failed = self._failing(mutation, left)
            if failed is None:
                return "missed"
            if self._passes([failed] if failed else left):
                return f"found by {failed or 'a hang or an error'}"
            if not failed:
                return "missed"
            left.remove(failed)
        return "missed" if left else "not covered"

    def _passes(self, ids: Sequence[str]) -> bool:
        """Whether these tests pass without a mutation."""
        try:
            return self.pytest("-x", ids=ids).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def _failing(self, mutation: Mutation, ids: Sequence[str]) -> str | None:
        """The first test that fails with the mutation; "" for one that cannot be named."""
        file = self.folder / mutation.path
        whole = file.read_bytes()
        file.write_bytes(mutation.apply(whole))
        try:
            done = self.pytest("-x", "-rfE", "--tb=no", ids=ids)
        except subprocess.TimeoutExpired:
            return ""
        finally:
            file.write_bytes(whole)
        if done.returncode == 0:
            return None
        named = [match[1] for match in re.finditer(r"^(?:FAILED|ERROR) (tests/.+)$", done.stdout, re.M)]
        return next((one for one in ids for name in named if name == one or name.startswith(f"{one} - ")), "")


def _tracked(*folders: str) -> list[str]:
    return subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--tier", choices=("quick", "ci", "all"), default="quick")
    parser.add_argument("--coverage", type=Path, default=ROOT / ".coverage", help="of all tests, with a context for each")
    parser.add_argument("--top", type=Path, default=ROOT, help="the folder in which the coverage was measured")
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--list", action="store_true", help="only list the mutations")
    parser.add_argument(
        "--results", type=Path, help="a file for the results, a JSON object a line; what it holds is not repeated"
    )
    asked = parser.parse_args()
    if not asked.coverage.exists():
        parser.error(f"there is no {asked.coverage}: run `make test-all PYTEST_ARGS='--cov=app … --cov-context=test'` first")
    covering = tests_of(asked.coverage, asked.top)
    every = [
        mutation
        for path in sorted(_tracked(*PRODUCT))
        if path.endswith(".py")
        for mutation in mutations(path, (ROOT / path).read_bytes())
        if covering.get(path, {}).get(mutation.line)
    ]
    chosen = random.Random(asked.seed).sample(every, min(asked.count, len(every)))
    if asked.list:
        print(*chosen, sep="\n")
        return 0
    kept = asked.results.read_text().splitlines() if asked.results is not None and asked.results.exists() else []
    results: dict[str, str] = {str(Mutation(**each["mutation"])): each["result"] for each in map(json.loads, kept)}
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = Copy(Path(folder), asked.tier)
        collected = copy.collected()
        for mutation in chosen:
            if str(mutation) not in results:
                ids = covering[mutation.path][mutation.line]
                results[str(mutation)] = copy.judge(mutation, [one for one in collected if one in ids])
                if asked.results is not None:
                    with asked.results.open("a") as file:
                        file.write(json.dumps({"mutation": asdict(mutation), "result": results[str(mutation)]}) + "\n")
            print(f"{mutation}\n    {results[str(mutation)]}", flush=True)
    found = sum(results[str(mutation)].startswith("found") for mutation in chosen)
    print(f"tier {asked.tier}: {found} of {len(chosen)} mutations found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
