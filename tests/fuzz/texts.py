"""Targets that read text: workflows, logs, diffs and models' answers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, get_args

from agent.challenge.generated_tests import read_tests
from agent.checks.findings import read_findings, read_traceback
from agent.checks.printed import read_go, read_java, read_rust
from agent.ci.expressions import ExpressionError, Scope, condition, evaluate, render
from agent.ci.job.selection import ChosenJob, FailedJob
from agent.ci.logs import excerpt, read_log, read_seed
from agent.ci.logs.readers.junit_xml import read_report
from agent.ci.plan import plan
from agent.ci.project.configuration import NO_CONFIGURATION, ConfigurationProblem, read_configuration
from agent.contract.proposal import Candidate, FileChange
from agent.contract.task import Policy
from agent.contract.verdicts import Check, Oracle, Reader
from agent.debugger.calls import read_calls
from agent.debugger.debugger import read_diagnosis
from agent.edits import hunks
from agent.edits.answers import parse
from agent.edits.changes import EditProblem, changed_lines, diff, digest
from agent.edits.patches import reverse_patch
from agent.edits.placement import resolve
from agent.guard.rules import doubts, refusal
from agent.nodes.review import read_review
from agent.prompts.diagnose import asked_for
from app.dashboard.diffs import lines_of
from app.dashboard.safe_text import Sanitizer
from sandbox.base import Entry, LimitExceeded, SandboxError
from tests.fuzz import mutate
from tests.fuzz.target import Attempt, Target

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"


@cache
def samples(*patterns: str) -> list[str]:
    found = [path for pattern in patterns for path in sorted(ROOT.glob(pattern)) if path.is_file()]
    return [text for path in found if (text := path.read_bytes().decode(errors="replace"))]


def reading(name: str, make: Callable[[random.Random], Any], attempt: Callable[[Any], None]) -> Target:
    """A target without anything that is open."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Attempt]:
        async def one(case: Any) -> None:
            attempt(case)

        yield one

    return Target(name, make, opened)


def _log(chance: random.Random) -> str:
    kinds = (
        ("tests/data/logs/*/log.txt",),
        ("tests/data/replays/*/*.log",),
        ("tests/data/logs/*/*.xml", "tests/data/logs/reports.py"),
    )
    return mutate.text(chance, samples(*chance.choice(kinds)), 6_000_000)


def _read_log(log: str) -> None:
    reading = read_log(log)
    assert len(reading.ids) <= 500
    assert "\n" not in reading.evidence
    "".join((*reading.ids, reading.evidence)).encode()  # lone surrogates could not be stored
    assert len(excerpt(log)) <= 6000
    read_seed(log)
    read_report(log)
    for read in (read_go, read_java, read_rust):
        read(log, "/repo")
    read_findings(log, "/repo")
    read_traceback(log, "/repo")


logs = reading("logs", _log, _read_log)

_NAMES = (
    "pkg/a.py", "a.py", "setup.py", "pyproject.toml", "setup.cfg", "tox.ini", "package.json", "Cargo.toml", "go.mod", "pom.xml", "Pipfile",
    "src/lib.rs", "lib/a.js", "a.ts", "a.go", "A.java", "requirements.txt", "poetry.lock", "tests/test_a.py", "conftest.py", "check.sh",
    "__snapshots__/a.snap", "../a.py", "/a.py", ".git/x", "a\nb.py", "build.gradle", "a.c",
)  # fmt: skip
_CODE = (
    "agent/*/*.py",
    "tests/agent/guard/*.py",
    "tests/attacks/*.diff",
    "tests/data/replays/*/repository/**/*.*",
    "deploy/sample/**/*.*",
)
_RUNS = ("pytest -q", "python -m unittest", "bash check.sh", "node a.js", "make test", "go test ./...", "'", "tox -e py")


def _edits(chance: random.Random) -> dict[str, Any]:
    many = samples(*_CODE)
    changes = []
    for _ in range(chance.choice((1, 1, 2, 12))):
        before = chance.choice((None, "", chance.choice(many), mutate.text(chance, many, 1_000_000)))
        after = chance.choice((None, mutate.text(chance, [before or chance.choice(many)], 1_000_000)))
        changes.append((chance.choice((*_NAMES, mutate.text(chance, _NAMES, 3_000))), before, after))
    return {
        "changes": changes,
        "rung": chance.choice(("tools", "patterns", "model:m")),
        "command": chance.choice((*_RUNS, mutate.text(chance, _RUNS, 20_000))),
        "reader": chance.choice(get_args(Reader)),
        "tests": chance.random() < 0.3,
        "failing": mutate.text(chance, samples("tests/data/logs/*/log.txt"), 100_000),
        "diff": mutate.text(chance, samples("tests/attacks/*.diff"), 500_000),
    }


def _judge(case: dict[str, Any]) -> None:
    edits = tuple(FileChange(*change) for change in case["changes"])
    candidate = Candidate(case["rung"], edits, "a change")
    check = Check("tests", case["command"], case["reader"])
    oracle = Oracle((check,), {"tests": frozenset()}, {"tests": frozenset()})
    policy = Policy(allow_test_edits=case["tests"], allow_snapshots=case["tests"], max_changed_lines=10**9)
    refused = refusal(candidate, policy, oracle, case["failing"])
    assert refused is None or refused.sentence
    doubts(candidate, oracle)
    digest(edits)
    changed_lines(edits)
    _show(diff(edits))
    _show(case["diff"])
    parse(case["diff"])
    reverse_patch(case["failing"], case["diff"])
    for change in edits:
        patch = "".join(diff((change,)).partition("@@")[1:])
        assert reverse_patch(change.after or "", patch) == (change.before or "")
    for number in range(min(3, hunks.hunks(edits))):
        hunks.merge(edits, hunks.without_hunk(edits, number))
        hunks.depends_on_others(edits, number)


def _show(text: str) -> None:
    for line in lines_of(text, Sanitizer()):
        assert "<script" not in line.html
        line.html.encode()


diffs = reading("diffs", _edits, _judge)

_SOURCES = {
    "pkg/calc.py": "import os\n\n\ndef add(a, b):\n    return a - b\n\n\nclass Box:\n    def grow(self):\n        return 1\n",
    "pkg/other.py": "def mul(a, b):\r\n    return a * b\r\n",
    "new.js": None,
}
_DIFF = (
    "--- a/pkg/calc.py\n+++ b/pkg/calc.py\n@@ -4,2 +4,2 @@ import os\n def add(a, b):\n-    return a - b\n+    return a + b\n"
)
_ANSWERS = (
    f"Here is the patch:\n\n```diff\ndiff --git a/pkg/calc.py b/pkg/calc.py\nindex 111..222 100644\n{_DIFF}```\n\nDone.\n",
    _DIFF,
    "Cause: add subtracts\nChange: add.\n\npkg/calc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n",
    "<<<<<<< SEARCH\nreturn a - b\n=======\nreturn a + b\n>>>>>>> REPLACE\nnew.js\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n",
    "Multiply.\n\nFUNCTION pkg/calc.py::Box.grow\n```python\ndef grow(self):\n    return 2\n```\n",
    "FUNCTION add\n```python\ndef add(a, b):\n    return a + b\n```\nSHOW pkg/calc.py::add\n",
    "### pkg/other.py\n\n```python\ndef mul(a, b):\n    return b * a\n```\n",
    '{"cause": "add subtracts", "category": "Logic", "confidence": "70%", "where": ["calc.py::add"], "evidence": ["x"], "hypotheses": []}',
    'Sure! {"accept": true, "reason": "", "unnatural": false, "input": "add(1, 2)"}',
    "TOOL read_span pkg/a.py 10 40\nTOOL search def add\nTOOL run_snippet\n```python\nprint(1)\n```\n",
    '<tool_call>{"name": "read_span", "arguments": {"path": "a.py", "first": 1, "last": 20}}</tool_call>',
    '{"function": {"name": "run_test", "arguments": "{\\"id\\": \\"tests/test_a.py::test_a\\"}"}}',
    "```python\nimport pytest\n\nfrom calc import add\n\n\ndef test_add():\n    with pytest.raises(TypeError):\n        add(1, 'a')\n    assert add(1, 2) == 3\n```\n",
)


def _answer(chance: random.Random) -> str:
    found = mutate.text(chance, _ANSWERS if chance.random() < 0.9 else samples(*_CODE), 1_000_000)
    start, end = found.find("{"), found.rfind("}")
    if chance.random() < 0.3 and 0 <= start < end:
        try:
            mutated = mutate.value(chance, json.loads(found[start : end + 1]))
        except (ValueError, RecursionError):
            return found
        return found[:start] + json.dumps(mutated, ensure_ascii=chance.random() < 0.5) + found[end + 1 :]
    return found


def _read_answer(answer: str) -> None:
    # What `Provider` gives to all of them has no lone surrogates and no U+0000.
    answer = answer.encode("utf-8", "replace").decode().replace("\0", "")
    changes = parse(answer)
    if not isinstance(changes, EditProblem):
        edits = resolve(changes, {**_SOURCES, **{change.path: None for change in changes}, **_SOURCES}, tuple(_SOURCES))
        if isinstance(edits, EditProblem):
            edits.sentence.encode()
        else:
            diff(edits).encode()
    for parsed in (read_diagnosis(answer, "m"), read_review(answer), read_calls(answer), read_tests(answer), asked_for(answer)):
        repr(parsed)


answers = reading("answers", _answer, _read_answer)


class Files:
    """A workspace of texts: what planning needs of one."""

    root = "/repo"

    def __init__(self, texts: dict[str, str]) -> None:
        self._contents = {path: text.encode("utf-8", "surrogatepass") for path, text in texts.items()}

    async def files(self) -> tuple[Entry, ...]:
        return tuple(
            Entry(path, len(content), executable=False, link=False) for path, content in sorted(self._contents.items())
        )

    async def read(self, path: str, limit: int) -> bytes:
        if len(content := self._contents[path]) > limit:
            raise LimitExceeded("output", limit)
        return content


_TOX = "[tox]\nenv_list = py3{11,12}-{a,b}, lint\n[testenv]\ndeps =\n  -rtest.txt\n  a: attrs\nset_env = MODE=ci\ncommands = pytest {posargs:tests}\n"
_PYPROJECT = """[build-system]\nrequires = ["hatchling"]\n[project]\nname = "x"\ndependencies = ["attrs>=1"]\n[project.optional-dependencies]
test = ["hypothesis"]\n[dependency-groups]\ndev = ["pytest-cov", {include-group = "test"}]\ntest = []\n[tool.pytest.ini_options]\naddopts = "-q"
[tool.poe.tasks]\na = "pytest"\nb = ["a"]\n[tool.hatch.envs.default.scripts]\ntest = "pytest {args}"\n[tool.tox]\nenv_list = ["py"]
[tool.tox.env_run_base]\ncommands = [["pytest", "-q"]]\n"""
_FILES = {
    "pyproject.toml": _PYPROJECT,
    "tox.ini": _TOX,
    "setup.cfg": "[metadata]\nname = x\n[options]\ninstall_requires = attrs\n[options.extras_require]\ntest = pytest\n",
    "noxfile.py": "import nox\n@nox.session\ndef tests(session):\n    session.install('attrs')\n    session.run('pytest', '-q')\n",
    "Makefile": "test: lint\n\tMODE=ci nox -s tests\nlint:\n\truff check .\n",
    "justfile": "test *args:\n    pytest {{args}}\nall: test\n",
    "Taskfile.yml": "version: '3'\ntasks:\n  test: {deps: [lint], cmds: [pytest -q]}\n  lint: ruff check\n",
    "package.json": '{"name": "x", "scripts": {"test": "npm run unit && jest", "unit": "node --test"}, "devDependencies": {"jest": "1"}}',
    "Pipfile": '[packages]\nattrs = "*"\n[scripts]\ntest = "pytest"\n',
    "uv.lock": (DATA / "replays/uv/repository/uv.lock").read_text(),
    "poetry.lock": (DATA / "replays/poetry/repository/poetry.lock").read_text(),
    "go.mod": "module x\n\ngo 1.22\n",
    ".pre-commit-config.yaml": "repos:\n- repo: local\n  hooks:\n  - {id: a, name: a, entry: ruff check, language: system}\n",
    ".github/actions/own/action.yml": (DATA / "workflows/ten/composite.action.yml").read_text(),
    ".github/workflows/called.yml": (DATA / "workflows/ten/reusable-called.yml").read_text(),
    "scripts/test.sh": "set -e\ncd tests && (pytest -q || exit 1)\nif [ -n \"$CI\" ]; then tox -e py; fi\n",
    ".python-version": "3.12\n",
    "tests/test_a.py": "import pytest\n",
}  # fmt: skip
_LINES = (
    "tox -e py311-a", "nox -s tests", "make test", "just test", "task test", "npm test", "poe b", "hatch run test", "uv run pytest -q", "poetry run pytest",
    "pipenv run test", "pip install -r requirements.txt -e '.[test]'\npytest -q", "bash scripts/test.sh", "pre-commit run -a", "python -m pytest -k 'a or b'",
    "cd tests && pytest || true", "for x in a b; do pytest $x; done", "coverage run -m pytest", "(cd a; (cd b; pytest))", "cat <<EOF\nx\nEOF\npytest",
    "pdm run pytest", "go test ./...", "uvx --with attrs ruff check .",
)  # fmt: skip
_JOB = "on: push\njobs:\n  tests:\n    runs-on: ubuntu-latest\n    strategy: {matrix: {python: ['3.11', 3.12], include: [{os: a}]}}\n    steps:\n"
_EXPRESSIONS = (
    "format('{0} {1}', github.ref, matrix.python)", "fromJSON('[1, {\"a\": 2}]')[1].a == 2 && !contains(github.ref, 'x')", "env.CI == 'true'",
    "toJSON(github)", "hashFiles('**/*.lock', '!a')", "join(github.event.commits.*.id, ', ')", "success() || failure()", "startsWith('a', 'A')",
    "case(true, 1, 2)", "1 < 0x1F && 'it''s' != null",
)  # fmt: skip
_CONFIGURATION = (
    "test:\n  - run: pytest -q\n    timeout: 60\npython: '3.12'\ninstall: {requirements: [attrs], files: [requirements.txt]}\n",
    "test: pytest -q\nautonomy: full\nprotected: ['docs/**']\nguidance: be kind\nbranches: {only: [main]}\n",
)
_SCOPE = Scope(
    {
        "github": {"ref": "refs/heads/main", "event": {"commits": [{"id": "a"}, None]}},
        "matrix": {"python": 3.1},
        "env": {"CI": "true"},
    }
)


def _workflow(chance: random.Random) -> dict[str, Any]:
    run = mutate.text(chance, _LINES, 60_000) if chance.random() < 0.5 else chance.choice(_LINES)
    indented = "\n".join(" " * 10 + line for line in run.split("\n"))
    when = (
        f"      - name: Go\n        if: ${{{{ {chance.choice(_EXPRESSIONS)} }}}}\n"
        if chance.random() < 0.4
        else "      - name: Go\n"
    )
    own = f"{_JOB}      - uses: ./.github/actions/own\n{when}        run: |\n{indented}\n"
    workflow = own if chance.random() < 0.5 else chance.choice(samples("tests/data/workflows/*/*.yml"))
    if chance.random() < 0.6:
        workflow = mutate.text(chance, [workflow, *samples("tests/data/workflows/ten/*.yml")], 600_000)
    files = {path: _FILES[path] for path in chance.sample(sorted(_FILES), chance.randrange(1, len(_FILES)))}
    for path in chance.sample(sorted(files), min(len(files), chance.randrange(3))):
        files[path] = mutate.text(chance, [files[path]], 600_000)
    names = re.findall(r"^  ([\w-]+):", workflow, re.M) or ["tests"]
    return {
        "workflow": workflow,
        "files": files,
        "name": chance.choice((*names[-8:], "tests (3.11)", "tests (3.12)", mutate.text(chance, names, 3_000))),
        "step": chance.choice((None, "Go", f"Run {run}", mutate.text(chance, ["Run pytest"], 3_000))),
        "chosen": chance.random() < 0.3,
        "configuration": mutate.text(chance, _CONFIGURATION, 100_000) if chance.random() < 0.3 else None,
        "expression": mutate.text(chance, _EXPRESSIONS, 60_000),
    }


async def _plan(case: dict[str, Any]) -> None:
    for read in (evaluate, condition, render):
        try:
            read(case["expression"], _SCOPE)
        except ExpressionError as error:
            str(error).encode()
    configuration = read_configuration(case["configuration"]) if case["configuration"] is not None else NO_CONFIGURATION
    if isinstance(configuration, ConfigurationProblem):
        configuration = NO_CONFIGURATION
    path = ".github/workflows/ci.yml"
    job: FailedJob | ChosenJob = FailedJob(
        case["name"], case["workflow"], path, case["step"], ((case["step"] or "Go", "failure"),)
    )
    if case["chosen"]:
        job = ChosenJob(case["workflow"], path, case["name"], {"python": "3.12"}, case["step"])
    try:
        planned = await plan(Files(case["files"]), jobs=(job,), configuration=configuration)  # type: ignore[arg-type]
    except SandboxError:
        return
    assert planned.checks or planned.asks or planned.ending.reason


@asynccontextmanager
async def _planning() -> AsyncIterator[Attempt]:
    yield _plan


workflows = Target("workflows", _workflow, _planning)
