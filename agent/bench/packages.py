"""Real bugs between two releases of published packages: the older release with the newer one's tests.

A manifest is a JSON list of bugs. For each it names the two releases with their hashes, the paths that hold tests, the newer
tests to leave out because they need more than this fix, the tests that fail, and the authors' fix as a diff.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from agent.bench.lab import BadInput, Benchmark, Labs, NotPosed, Specimen, Trial, changed, listed, text_of
from agent.bench.releases import release
from agent.bench.suites import SuiteJudge, edits_of, verdicts
from agent.ci.project.configuration import Configuration, Install, TestCommand
from agent.contract.verdicts import Verdict, VerdictId
from agent.edits.changes import lines
from agent.source.archive import File

SUITE_SECONDS = 300.0  # one run of a package's whole suite
_CONFIGURATIONS = ("pytest.ini", ".pytest.ini", "tox.ini")
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_LEAVING_OUT = '''\
"""Deselects the tests of this suite that need more than the fix of this bug."""

LEFT_OUT = {ids!r}


def pytest_collection_modifyitems(config, items):
    out = [item for item in items if item.nodeid in LEFT_OUT]
    items[:] = [item for item in items if item.nodeid not in LEFT_OUT]
    config.hook.pytest_deselected(items=out)
'''


class _Hashes(msgspec.Struct):
    old: str
    new: str


class _Fix(msgspec.Struct):
    unified_diff: str


class _Bug(msgspec.Struct):
    """The fields of a bug that are used."""

    id: str
    package: str
    old: str
    new: str
    sha256: _Hashes
    tests: list[str]
    fail_to_pass: list[str]
    fix: _Fix
    pytest_ini: str
    old_tests: list[str] = []
    drop_files: list[str] = []
    deselect: list[str] = []
    test_deps: list[str] = msgspec.field(default_factory=lambda: ["pytest"])
    extra_deps: list[str] = []


def load(manifest: Path, cache: Path) -> Benchmark:
    """`cache` keeps downloaded releases, by their hashes. Raises `BadInput`."""
    bugs = listed(manifest, _Bug, "a manifest of package bugs")
    if not bugs:
        raise BadInput(f"{manifest} contains no bug; docs/benchmarks.md shows its format")
    ids = [bug.id for bug in bugs]
    if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
        raise BadInput(f"{manifest} names {twice[0]} twice; give each bug its own id")
    known = {bug.id: bug for bug in bugs}
    groups = {id_: bug.package for id_, bug in known.items()}
    return Benchmark("packages", groups, {}, lambda id_, labs: _trial(known[id_], cache, labs))


@asynccontextmanager
async def _trial(bug: _Bug, cache: Path, labs: Labs) -> AsyncIterator[Trial]:
    files = await _red(bug, cache)
    configuration = Configuration(
        test=(TestCommand(run="python -m pytest -q -p no:cacheprovider", kind="pytest", timeout=SUITE_SECONDS),),
        install=Install(requirements=(*bug.test_deps, *bug.extra_deps)),
    )
    texts = {path: text for path, file in files.items() if (text := text_of(file)) is not None}
    try:
        fixed = applied(bug.fix.unified_diff, texts)
    except DoesNotApply as error:
        raise NotPosed(f"the manifest's fix does not apply to {bug.package} {bug.old}: {error}") from error
    fix = edits_of({path: texts.get(path) for path in fixed}, fixed)
    async with labs.open(files, configuration) as lab:
        base, right = await verdicts(lab, {}), await verdicts(lab, changed(fix))
        target = frozenset(VerdictId(id_) for id_ in bug.fail_to_pass)
        if wrong := sorted(i for i in target if right.get(i) is not Verdict.PASSED or base.get(i) is Verdict.PASSED):
            raise NotPosed(f"with the available packages, the fix does not turn {wrong[0]} from failing to passing")
        yield Trial(Specimen(bug.id, files, configuration), SuiteJudge(lab, fix, target, base, right))


async def _red(bug: _Bug, cache: Path) -> dict[str, File]:
    """The repository with the bug. Raises `NotPosed`."""
    old = await release(bug.package, bug.old, bug.sha256.old, cache)
    new = await release(bug.package, bug.new, bug.sha256.new, cache)
    files = {path: file for path, file in old.items() if not _below(path, bug.old_tests)}
    files |= {path: file for path, file in new.items() if _below(path, bug.tests)}
    # The authors' workflows are left out: the manifest says what to run.
    files = {path: file for path, file in files.items() if not _below(path, [*bug.drop_files, *_CONFIGURATIONS, ".github"])}
    files["pytest.ini"] = File(bug.pytest_ini.encode())
    if bug.deselect:
        files["conftest.py"] = File(_LEAVING_OUT.format(ids=sorted(bug.deselect)).encode())
    return files


def _below(path: str, roots: list[str]) -> bool:
    return any(path == root or path.startswith(f"{root.rstrip('/')}/") for root in roots)


class DoesNotApply(Exception):
    """The diff does not match the text; the message says where."""


def applied(diff: str, texts: Mapping[str, str]) -> dict[str, str | None]:
    """The files that a unified diff changes, after the change; None removes a file. Only exact matches count, so that a wrong
    base is noticed. Raises `DoesNotApply`."""
    after: dict[str, str | None] = {}
    rest = diff.split("\n")
    while rest:
        line = rest.pop(0)
        if line.startswith("--- ") and rest and rest[0].startswith("+++ "):
            old, new = _path(line), _path(rest.pop(0))
            path = new or old
            text, removed = _patched(path, lines(texts[old]) if old in texts else [], rest), not new
            after[path] = None if removed else text
    return after


def _path(line: str) -> str:
    """The path in a file header of a diff; "" for no file."""
    path = line[4:].split("\t")[0].strip()
    return "" if path == "/dev/null" else path.partition("/")[2]


def _patched(path: str, before: list[str], rest: list[str]) -> str:
    """Applies the hunks of one file and removes them from `rest`."""
    after: list[str] = []
    at = 0
    while rest and (hunk := _HUNK.match(rest[0])):
        header = rest.pop(0)
        old, new = (int(count) if count else 1 for count in (hunk[2], hunk[3]))
        start = int(hunk[1]) - 1 if old else int(hunk[1])
        after += before[at:start]
        at = start
        mark = ""
        while rest and (old or new or rest[0].startswith("\\")):
            if rest[0].startswith("\\"):  # no newline at the end of the file
                rest.pop(0)
                if mark == "+":
                    after[-1] = after[-1].removesuffix("\n")
                continue
            mark, line = rest[0][:1] or " ", rest.pop(0)[1:]
            if mark == "+":
                after.append(line + "\n")
            elif at < len(before) and before[at].rstrip("\n") == line.rstrip("\n"):
                after += [before[at]] if mark == " " else []
                at += 1
            else:
                raise DoesNotApply(f"{path}, {header}: line {at + 1} differs")
            old, new = old - (mark != "+"), new - (mark != "-")
    return "".join([*after, *before[at:]])
