"""A repository's own history as a benchmark: the parent of a commit under the commit's tests, and what its authors did.

Of the last commits that change code, those are posed whose tests fail on the parent and pass at the commit; the others are
skipped, with the reason. Knows what commits hold (`gitlog`), not how git is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent.bench import gitlog
from agent.bench.gitlog import Commit
from agent.bench.lab import Labs
from agent.bench.specimen import BadInput, File, Skipped, Specimen, text_of
from agent.bench.suites import SuiteTrial, edits_of, verdicts
from agent.ci.project.configuration import NO_CONFIGURATION, Configuration, ConfigurationProblem, read_configuration
from agent.ci.project.configuration import PATH as CONFIGURATION
from agent.contract.verdicts import Verdict
from agent.source.test_files import is_test

LOOKED_THROUGH = 50  # commits for each one that is wanted
_PROSE = (".md", ".rst", ".txt")


@dataclass(frozen=True, slots=True)
class History:
    root: Path
    commits: Mapping[str, Commit]
    configuration: Configuration
    name: str = "repo"

    @property
    def groups(self) -> Mapping[str, str]:
        return {id_: "code and tests" if any(map(is_test, commit.paths)) else "code" for id_, commit in self.commits.items()}

    @property
    def options(self) -> Mapping[str, str]:
        return {"path": str(self.root)}

    @asynccontextmanager
    async def trial(self, id_: str, labs: Labs) -> AsyncIterator[SuiteTrial]:
        commit = self.commits[id_]
        before, after = await gitlog.files(self.root, commit.parent), await gitlog.files(self.root, commit.id)
        tests = {path: file for path, file in after.items() if is_test(path)}
        files = {**{path: file for path, file in before.items() if not is_test(path)}, **tests}
        paths = {path for path in {*files, *after} if files.get(path) != after.get(path)}
        async with labs.open(files, self.configuration) as lab:
            base = await verdicts(lab, {})
            red = {id_ for id_, verdict in base.items() if verdict.red}
            if not red:
                raise Skipped("its tests pass on its parent too")
            fixed = await verdicts(lab, {path: after[path].content if path in after else None for path in paths})
            if still := sorted(id_ for id_ in red if id_ in fixed and fixed[id_] is not Verdict.PASSED):
                raise Skipped(f"{still[0]} fails at the commit too; `test:` in {CONFIGURATION} can leave it out")
            target = (
                frozenset(i for i, verdict in fixed.items() if verdict is Verdict.PASSED and i not in base) | red & fixed.keys()
            )
            fix = edits_of(_texts(files, paths), _texts(after, paths))
            yield SuiteTrial(Specimen(id_, files, self.configuration), lab, fix, target, base, fixed)


async def load(root: Path, last: int) -> History:
    """The last commits that change code, newest first. Raises `BadInput`."""
    found = [commit for commit in await gitlog.commits(root, last * LOOKED_THROUGH) if any(map(_is_code, commit.paths))]
    if not found:
        raise BadInput(f"{root} has no commit that changes code and has a parent; a shallow clone knows too little")
    return History(root, {commit.id[:12]: commit for commit in found[:last]}, _configuration(root))


def _configuration(root: Path) -> Configuration:
    """The checkout's own. Raises `BadInput`."""
    file = root / CONFIGURATION
    try:
        read = read_configuration(file.read_text("utf-8", "replace")) if file.is_file() else NO_CONFIGURATION
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}; make it readable") from error
    if isinstance(read, ConfigurationProblem):
        raise BadInput(f"{read.sentence}; mend it and run again")
    return read


def _is_code(path: str) -> bool:
    return not is_test(path) and PurePosixPath(path).suffix not in _PROSE


def _texts(files: Mapping[str, File], paths: set[str]) -> dict[str, str | None]:
    """Those of the files that are text."""
    return {path: text_of(files[path]) for path in paths if path in files}
