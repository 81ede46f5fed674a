from pathlib import Path

import pytest

from agent.ci.project.configuration import (
    Configuration,
    ConfigurationProblem,
    Install,
    Narrowed,
    Selection,
    TestCommand,
    read_configuration,
)
from agent.contract.budget import Budget
from agent.contract.question import Autonomy
from agent.contract.task import Policy
from sandbox.base import Packages


def read(text: str) -> Configuration:
    found = read_configuration(text)
    assert isinstance(found, Configuration), found
    return found


def test_an_empty_file_asks_for_nothing() -> None:
    assert read("") == Configuration()
    assert read("# nothing\n") == Configuration()


def test_all_keys_are_read() -> None:
    found = read("""
enabled: false
test:
  - {name: unit, run: make test, kind: pytest, timeout: 90}
  - {name: lint, run: ruff check .}
install: {requirements: [requirements.txt, "attrs>=23"], extras: [test], groups: [dev]}
python: "3.12"
allow_test_edits: true
protected: ["docs/**"]
rungs: [patterns]
budget: {cost: 0.5}
branches: {only: [main, "release/*"], ignore: ["release/old*"]}
workflows: {ignore: ["Deploy *", "docs.yml"]}
""")
    assert not found.enabled
    assert [(t.name, t.kind, t.timeout) for t in found.test] == [("unit", "pytest", 90.0), ("lint", None, 600.0)]
    assert found.packages == Packages(
        ("attrs>=23",), ("requirements.txt",), groups=("dev",), projects=(".[test]",), python="3.12"
    )
    assert found.wants_branch("release/1")
    assert not found.wants_branch("release/old1")
    assert not found.wants_branch("feature")
    assert found.wants_workflow("Tests", ".github/workflows/deploy.yml")
    assert not found.wants_workflow("Deploy to production", ".github/workflows/ci.yml")
    assert not found.wants_workflow("Docs", ".github/workflows/docs.yml")


def test_services_that_run_no_tests_are_wanted_only_by_name() -> None:
    assert read("").wants_service("ci/jenkins", "")
    assert not read("").wants_service("codecov/patch", "codecov")
    assert not read("").wants_service("Pages changed", "netlify"), "by its App"
    assert not read("workflows: {ignore: ['ci/*']}\n").wants_service("codecov/patch", "")
    assert read("workflows: {only: [CI, 'codecov/*']}\n").wants_service("codecov/patch", "")
    assert not read("workflows: {only: [CI]}\n").wants_service("codecov/patch", "")


def test_one_command_is_enough() -> None:
    assert [t.run for t in read("test: pytest -q\n").test] == ["pytest -q"]


def test_it_narrows_and_never_widens() -> None:
    found = read("rungs: [tools, model]\nbudget: {iterations: 99, cost: 0.5}\nprotected: [a]\nallow_test_edits: true\n")
    policy, budget = found.narrow(Policy(rungs=("patterns", "tools"), protected=("b",)), Budget(iterations=3, cost=1.0))
    assert policy.rungs == ("tools",)
    assert policy.protected == ("b", "a")
    assert policy.allow_test_edits
    assert (budget.iterations, budget.cost, budget.tokens) == (3, 0.5, Budget().tokens)


@pytest.mark.parametrize(
    ("text", "key", "line", "what"),
    [
        ("enabled: true\ntests: x\n", "tests", 2, "unknown key"),
        ("enabled: maybe\n", "enabled", 1, "boolean"),
        ("test:\n  - name: a\n    run: x\n    timeout: -1\n", "test.0.timeout", 4, "greater than 0"),
        ("python: 3.10\n", "python", 1, "quotes"),
        ("budget:\n  cost: .nan\n", "budget.cost", 2, "finite"),
        ("test: [{run: a}, {run: b}]\n", "test", 1, "unique name"),
        ("protected: &a [x]\nrungs: *b\n", "", 2, "no anchor"),
        ("enabled: true\nenabled: false\n", "", 2, "already defined"),
        ("[" * 1000, "", 1, "deeper"),
        ("- a\n", "", 1, "keys and values"),
        ("a: 'x\n", "", 2, "end of stream"),
        ("!!python/object/apply:os.system [ls]\n", "", 1, "keys and values"),
        ("protected: 2020-99-99\n", "protected", 1, "tuple"),
    ],
)
def test_a_problem_names_the_key_and_the_line(text: str, key: str, line: int, what: str) -> None:
    problem = read_configuration(text)
    assert isinstance(problem, ConfigurationProblem)
    where = f".github/selfheal.yml, line {line}" + (f", `{key}`" if key else "")
    assert problem.sentence.startswith(f"{where}: ")
    assert what in problem.sentence


def test_a_huge_file_is_refused() -> None:
    assert isinstance(read_configuration("#" * 100_000), ConfigurationProblem)


def test_snapshots_may_be_written_anew_when_the_repository_says_so() -> None:
    assert not read("enabled: true\n").narrow(Policy(), Budget())[0].allow_snapshots
    assert read("snapshots: true\n").narrow(Policy(), Budget())[0].allow_snapshots


@pytest.mark.parametrize(
    ("operator", "wish", "asked"),
    [
        ("full", "", "full"),
        ("full", "autonomy: review_publish", "review_publish"),
        ("review_repairs", "autonomy: full", "review_repairs"),
        ("review_publish", "autonomy: review_all", "review_all"),
        ("review_all", "", "review_all"),
    ],
)
def test_a_repository_can_only_ask_for_more_review(operator: Autonomy, wish: str, asked: Autonomy) -> None:
    policy, _ = read(wish).narrow(Policy(autonomy=operator), Budget())
    assert policy.autonomy == asked


@pytest.mark.parametrize(("operator", "wish", "least"), [(0.7, "", 0.7), (0.7, "0.9", 0.9), (0.7, "0.2", 0.7), (0.0, "0", 0.0)])
def test_a_repository_can_only_ask_for_more_confidence(operator: float, wish: str, least: float) -> None:
    policy, _ = read(f"min_confidence: {wish}" if wish else "").narrow(Policy(min_confidence=operator), Budget())
    assert policy.least("patterns", clear=True) == policy.least("model:m", clear=False) == least


def test_a_repository_raises_what_the_search_needs_alone() -> None:
    policy, _ = read("min_confidence: 0.8").narrow(Policy(), Budget())
    assert [policy.least("patterns", clear=clear) for clear in (True, False)] == [0.8, 0.85]


def test_an_unknown_autonomy_and_a_rung_that_is_no_name_are_problems() -> None:
    for text, words in (("autonomy: never", "autonomy"), ("rungs: [Patterns!]", "rungs.0")):
        problem = read_configuration(text)
        assert isinstance(problem, ConfigurationProblem)
        assert words in problem.sentence


@pytest.mark.parametrize("prefix", ["fix:", "fix(ci)!:", "[bot] fix:", "ABC-123"])
def test_a_prefix_of_commits(prefix: str) -> None:
    told = read_configuration(f'commit_prefix: "{prefix} "\n')
    assert isinstance(told, Configuration)
    assert told.commit_prefix == prefix


@pytest.mark.parametrize("prefix", ["/approve", "@alice", "fix #3", "<!-- x", "a\\nb", "x" * 31])
def test_what_a_title_must_not_begin_with_is_refused(prefix: str) -> None:
    assert isinstance(read_configuration(f'commit_prefix: "{prefix}"\n'), ConfigurationProblem)


def test_guidance_reaches_the_policy_and_is_bounded() -> None:
    told = read_configuration("guidance: Keep Python 3.8 syntax.\n")
    assert isinstance(told, Configuration)
    assert told.narrow(Policy(), Budget())[0].guidance == "Keep Python 3.8 syntax."
    assert isinstance(read_configuration(f"guidance: {'x' * 2001}\n"), ConfigurationProblem)


def test_every_key_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs" / "configuration.md").read_text()
    parts = {"test.": TestCommand, "install.": Install}
    keys = [*Configuration.model_fields, *(f"{prefix}{name}" for prefix, part in parts.items() for name in part.model_fields)]
    assert [key for key in keys if f"| `{key}` |" not in page] == []
    assert [name for part in (Narrowed, Selection) for name in part.model_fields if f"`{name}`" not in page] == []


def test_a_cost_of_nothing_does_not_remove_the_operators_limit() -> None:
    _, budget = read("budget: {cost: 0}\n").narrow(Policy(), Budget(cost=2.0))
    assert 0 < budget.cost <= 0.01
    _, unlimited = read("budget: {cost: 0.5}\n").narrow(Policy(), Budget(cost=0.0))
    assert unlimited.cost == 0.5
