"""A repository's own configuration, `.github/selfheal.yml`: text in, values or one clear sentence out.

Knows the file's format, not where it is read from (the default branch, never the head under repair). It can name what to run in
the sandbox and restrict what Selfheal does. It can permit only four things: edits of tests, edits of their snapshots, repairs
that take back the last change, and reruns of failed jobs in its own CI.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from agent.ci.workflows.document import EMPTY, Items, Keys, Node, Scalar, WorkflowProblem, plain, read_document
from agent.contract.budget import Budget
from agent.contract.question import Autonomy
from agent.contract.task import Policy
from agent.contract.verdicts import Reader
from agent.guest.text import one_line
from sandbox.base import KIB, Packages

PATH = ".github/selfheal.yml"
SIZE_LIMIT = 64 * KIB
_A_PENNY = 0.01  # US dollars

_Text = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]

_Prefix = Annotated[str, StringConstraints(max_length=30, strip_whitespace=True, pattern=r"^([\w\[(][\w \[\]().:!/-]*)?$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TestCommand(_Strict):
    """One check that the repository itself defines. Without `kind`, the kind is detected from the command."""

    __test__ = False

    name: _Name = "tests"
    run: _Text
    kind: Reader | None = None
    timeout: float = Field(default=600.0, gt=0, le=3600)  # seconds


class Install(_Strict):
    requirements: tuple[_Name, ...] = ()  # PEP 508, or a path that ends in .txt
    extras: tuple[_Name, ...] = ()  # of the root project
    groups: tuple[_Name, ...] = ()


class Selection(_Strict):
    """Patterns (`*`, `?`, `[…]`) of names that are wanted. `ignore` wins; without `only`, all others are."""

    only: tuple[_Name, ...] = ()
    ignore: tuple[_Name, ...] = ()

    def wants(self, *names: str) -> bool:
        """`names`: all names of one thing."""

        def any_of(patterns: tuple[str, ...]) -> bool:
            return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)

        return not any_of(self.ignore) and (not self.only or any_of(self.only))


TESTS_NOTHING = (
    *("codecov*", "coverage/*", "coveralls", "license/*", "cla/*", "EasyCLA", "google-cla", "DCO", "dco", "CodeQL"),
    *("github-advanced-security", "netlify*", "deploy/netlify", "Vercel*", "vercel", "renovate/*", "WIP", "wip"),
)
"""Other services' statuses, checks and Apps that run no tests: coverage, licenses, code scanning, previews, dependencies."""


class Narrowed(_Strict):
    iterations: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # US dollars
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class DailyLimits(_Strict):
    """Limits per day (UTC); None: the operator's."""

    attempts: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # US dollars


class Quota(_Strict):
    """Limits of this repository, of which those of a person count what that person uses everywhere."""

    repository: DailyLimits = DailyLimits()
    person: DailyLimits = DailyLimits()


class Configuration(_Strict):
    """What a repository asks for; the defaults are those of a repository without the file."""

    enabled: bool = True
    test: tuple[TestCommand, ...] = ()
    install: Install | None = None  # None: detected
    python: Annotated[str, StringConstraints(pattern=r"^3\.\d{1,2}$")] | None = None
    allow_test_edits: bool = False
    allow_reversals: bool = False
    snapshots: bool = False
    protected: tuple[_Name, ...] = ()
    rungs: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,50}$")], ...] | None = None
    autonomy: Autonomy | None = None  # never more than the operator allows
    min_confidence: float | None = Field(default=None, ge=0, le=1)  # never less than the operator demands
    budget: Narrowed = Narrowed()
    quota: Quota = Quota()
    branches: Selection = Selection()
    workflows: Selection = Selection()  # by the name or the file
    comment_on_pull_request: bool = True  # tell the author of a pull request that broke, without a `/heal`
    commit_prefix: _Prefix = ""  # of the subjects of repairs' commits, and of the titles of their pull requests
    rerun: Literal["never", "once"] | None = None  # of failed jobs that are flaky; None: the operator's setting
    guidance: Annotated[str, StringConstraints(max_length=2000, strip_whitespace=True)] = ""  # for the model, quoted as data

    @field_validator("python", mode="before")
    @classmethod
    def _version_as_written(cls, value: object) -> object:
        if isinstance(value, float):  # `python: 3.10` reads as 3.1
            raise ValueError("put the version in quotes")
        return value

    @field_validator("test", mode="before")
    @classmethod
    def _one_command(cls, value: object) -> object:
        return [{"run": value}] if isinstance(value, str) else value

    @field_validator("test")
    @classmethod
    def _names_differ(cls, value: tuple[TestCommand, ...]) -> tuple[TestCommand, ...]:
        names = [test.name for test in value]
        if len(names) != len(set(names)):
            raise ValueError("each test needs a unique name")
        return value

    @property
    def packages(self) -> Packages | None:
        """The packages of `install`."""
        install = self.install
        if install is None:
            return None
        return Packages(
            requirements=tuple(name for name in install.requirements if not name.endswith(".txt")),
            requirement_files=tuple(name for name in install.requirements if name.endswith(".txt")),
            groups=install.groups,
            projects=(f".[{','.join(install.extras)}]",) if install.extras else (),
            python=self.python,
        )

    def wants_branch(self, branch: str) -> bool:
        """Whether automatic attempts are wanted on `branch`."""
        return self.branches.wants(branch)

    def wants_workflow(self, name: str, path: str) -> bool:
        """Whether automatic attempts are wanted for a workflow; `path`: ".github/workflows/ci.yml"."""
        return self.workflows.wants(name, path, path.rpartition("/")[2])

    def wants_service(self, name: str, app: str) -> bool:
        """Whether automatic attempts are wanted for another service's check or status; `app`: the slug of its App, or ""."""
        tests_nothing = not self.workflows.only and not Selection(ignore=TESTS_NOTHING).wants(name, app)
        return not tests_nothing and self.workflows.wants(name, app)

    def narrow(self, policy: Policy, budget: Budget) -> tuple[Policy, Budget]:
        """The operator's policy and budget, narrowed; only edits of tests and snapshots, and reversals may be granted here."""
        rungs = policy.rungs if self.rungs is None else tuple(rung for rung in policy.rungs if rung in self.rungs)
        limits = {name: min(getattr(budget, name), limit) for name, limit in self.budget if limit is not None}
        if self.budget.cost is not None:  # 0 from the operator is no limit; from a repository, it is the smallest one
            limits["cost"] = max(min(budget.cost or self.budget.cost, self.budget.cost), _A_PENNY)
        return (
            replace(
                policy,
                allow_test_edits=policy.allow_test_edits or self.allow_test_edits,
                allow_reversals=policy.allow_reversals or self.allow_reversals,
                allow_snapshots=policy.allow_snapshots or self.snapshots,
                protected=policy.protected + self.protected,
                rungs=rungs,
                guidance=self.guidance,
                demanded_confidence=max(policy.demanded_confidence, self.min_confidence or 0.0),
                autonomy=max(policy.autonomy, self.autonomy or policy.autonomy, key=get_args(Autonomy).index),
            ),
            replace(budget, **limits),
        )


NO_CONFIGURATION = Configuration()


@dataclass(frozen=True, slots=True)
class ConfigurationProblem:
    """The reason why the file is not used, for its author."""

    sentence: str  # ".github/selfheal.yml, line 3, `test.0.run`: …"


def read_configuration(text: str) -> Configuration | ConfigurationProblem:
    """The configuration, or what is wrong with it: the first problem, with its key and line."""
    if len(text.encode("utf-8", "replace")) > SIZE_LIMIT:
        return ConfigurationProblem(f"{PATH} is larger than {SIZE_LIMIT // KIB} KiB")
    root = read_document(text)
    if isinstance(root, WorkflowProblem):
        return Configuration() if root == EMPTY else _problem("", root.line, one_line(root.sentence, 200).rstrip("."))
    if isinstance(root, Scalar) and root.value is None:
        return Configuration()
    if not isinstance(root, Keys):
        return _problem("", 1, "expected keys and values")
    try:
        return Configuration.model_validate(plain(root))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        keys = first["loc"]
        what = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
        return _problem(".".join(str(key) for key in keys), _line(root, keys), one_line(what, 300))


def _line(node: Node, keys: tuple[int | str, ...]) -> int:
    """The line of the key at the path `keys`, or of its nearest parent."""
    line = node.line
    for key in keys:
        if isinstance(node, Keys) and (entry := next((one for one in node.entries if one.key == key), None)):
            line, node = entry.line, entry.value
        elif isinstance(node, Items) and isinstance(key, int):
            node = node.nodes[key]
            line = node.line
        else:
            break
    return line


def _problem(key: str, line: int | None, what: str) -> ConfigurationProblem:
    where = "".join([PATH, f", line {line}" if line else "", f", `{one_line(key, 100)}`" if key else ""])
    return ConfigurationProblem(f"{where}: {what}")
