"""A shown name leads to its job and leg, and so do a person's options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.ci.expressions import Scope, Unknown, Value, value_of
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Workflow
from agent.ci.workflows.naming import JobLeg, find_leg, legs_of, name_of, pick
from agent.ci.workflows.workflow_file import read_workflow

TEN = Path(__file__).resolve().parents[3] / "data" / "workflows" / "ten"


def evaluate(template: str, contexts: Mapping[str, Value]) -> Value:
    github: Value = {"event_name": "push", "ref": "refs/heads/main"}
    known: dict[str, Value] = {
        "github": github,
        "needs": Unknown("needs"),
        "vars": Unknown("vars"),
        "matrix": None,
        "inputs": {},
    }
    return value_of(template, Scope({**known, **contexts}))


def read(text: str) -> Workflow:
    workflow = read_workflow(text)
    assert isinstance(workflow, Workflow), str(workflow)
    return workflow


def job(body: str) -> Workflow:
    return read("on: push\njobs:\n  tests: {runs-on: x, " + body + "}")


def ten(name: str) -> Workflow:
    return read((TEN / f"{name}.yml").read_text())


def found(workflow: Workflow, shown: str) -> JobLeg:
    leg = find_leg(workflow, shown, evaluate)
    assert isinstance(leg, JobLeg), str(leg)
    return leg


@pytest.mark.parametrize(
    "name", ["matrix", "tox", "nox", "uv", "poetry", "coverage", "services", "composite", "reusable", "monorepo"]
)
def test_every_name_of_the_ten_leads_back_to_its_leg(name: str) -> None:
    workflow = ten(name)
    for each in workflow.jobs:
        made = legs_of(each, evaluate, {})
        for leg in made if isinstance(made, tuple) else ():
            shown = name_of(each, leg, evaluate, {})
            assert isinstance(shown, str)
            assert found(workflow, shown) == JobLeg(each, leg)


@pytest.mark.parametrize(
    ("name", "shown", "job_id", "values"),
    [
        ("matrix", "3.12 on ubuntu-latest", "tests", {"os": "ubuntu-latest", "python-version": "3.12", "extra": "typed"}),
        ("matrix", "3.13 on macos-latest", "tests", {"os": "macos-latest", "python-version": "3.13"}),
        ("tox", "Minimum Versions", "tests", {"name": "Minimum Versions", "python": "3.11", "tox": "py-min"}),
        ("tox", "3.12", "tests", {"python": "3.12"}),
        ("nox", "Ubuntu / pypy3.10", "test", {"os": "Ubuntu", "python_version": "pypy3.10"}),
        ("uv", "test on Python 3.11 (lowest-direct)", "test", {"python-version": "3.11", "resolution": "lowest-direct"}),
        ("composite", "unit (3.13, 2)", "unit", {"python-version": "3.13", "group": 2}),
        ("coverage", "Combine & check coverage", "coverage", {}),
        ("services", "PostgreSQL 15", "postgres", {"postgres": 15}),
        ("monorepo", "core", "core", {}),
    ],
)
def test_a_shown_name_tells_the_leg(name: str, shown: str, job_id: str, values: dict[str, Value]) -> None:
    leg = found(ten(name), shown)
    assert (leg.job.id, dict(leg.leg.values), leg.within, leg.note) == (job_id, values, "", "")


def test_a_name_without_expressions_is_followed_by_the_values() -> None:
    workflow = job("name: All tests, strategy: {matrix: {python: [3.10, '3.10'], os: [{n: linux, r: u}]}}")
    assert found(workflow, "All tests (3.1, linux, u)").leg.values["python"] == 3.1
    assert found(workflow, "All tests (3.10, linux, u)").leg.values["python"] == "3.10"


@pytest.mark.parametrize("cut", ["…", "..."])
def test_a_name_that_was_cut_is_found_by_its_beginning(cut: str) -> None:
    workflow = job(f"strategy: {{matrix: {{flags: ['{'a' * 120}', '{'b' * 120}']}}}}")
    assert found(workflow, f"tests ({'b' * 80}{cut}").leg.values == {"flags": "b" * 120}
    shown = name_of(workflow.jobs[0], found(workflow, f"tests ({'a' * 80}{cut}").leg, evaluate, {})
    assert isinstance(shown, str)
    assert len(shown) == 100
    assert shown.endswith("aaa...")
    assert found(workflow, shown).leg.values == {"flags": "a" * 120}


def test_a_call_keeps_the_rest_of_the_name_for_the_called_workflow() -> None:
    leg = found(ten("reusable"), "Tests (3.12) / tests (3.12)")
    assert (leg.job.id, leg.leg.values, leg.within) == ("tests", {"python-version": "3.12"}, "tests (3.12)")


def test_a_job_that_calls_nothing_has_no_rest() -> None:
    assert isinstance(find_leg(ten("reusable"), "done / x", evaluate), WorkflowProblem)


@pytest.mark.parametrize(
    ("body", "shown", "values"),
    [
        ("needs: [], strategy: {matrix: {python: '${{ fromJSON(needs.a.outputs.b) }}', os: [u, w]}}", "tests (3.12, w)",
         {"python": "3.12", "os": "w"}),
        ("name: 'py ${{ matrix.python }} / ${{ matrix.os }}', strategy: {matrix: '${{ fromJSON(needs.a.outputs.b) }}'}",
         "py 3.12 / w", {"python": "3.12", "os": "w"}),
        ("strategy: {matrix: {os: [u, '${{ vars.OS }}'], v: [1]}}", "tests (w, 1)", {"os": "w", "v": "1"}),
        ("strategy: '${{ fromJSON(needs.a.outputs.b) }}'", "tests (3.12)", {}),
        ("name: '${{ vars.PREFIX }}: ${{ matrix.os }}', strategy: {matrix: {os: [u, w]}}", "Linux: w", {"os": "w"}),
    ],
)  # fmt: skip
def test_values_that_only_github_knows_are_read_from_the_name(body: str, shown: str, values: dict[str, Value]) -> None:
    leg = found(job(body), shown)
    assert dict(leg.leg.values) == values
    assert "Only GitHub knows" in leg.note


def test_a_hostile_name_of_many_expressions_is_no_trap() -> None:
    name = "${{ vars.A }}" * 300 + "x"
    assert isinstance(find_leg(job(f"name: '{name}'"), "a" * 500, evaluate), WorkflowProblem)
    assert found(job(f"name: '{name}'"), "a" * 500 + "x").note


def test_a_call_with_unknown_values_keeps_the_rest_of_the_name() -> None:
    workflow = read(
        "on: push\njobs: {c: {uses: ./.github/workflows/x.yml, name: '${{ matrix.v }} / y',"
        " strategy: {matrix: '${{ fromJSON(needs.a.outputs.b) }}'}}}"
    )
    leg = found(workflow, "3.12 / y / inner / most")
    assert (leg.leg.values, leg.within) == ({"v": "3.12"}, "inner / most")


def test_a_workflow_of_too_many_runs_is_a_problem() -> None:
    jobs = "".join(
        f"  j{i}: {{runs-on: x, strategy: {{matrix: {{a: &a [{', '.join(map(str, range(200)))}]}}}}}}\n" for i in range(60)
    )
    problem = find_leg(read(f"on: push\njobs:\n{jobs}"), "x", evaluate)
    assert isinstance(problem, WorkflowProblem)
    assert "more than 10000 job runs" in problem.sentence


def test_a_leg_beside_one_that_only_github_knows_is_found_by_its_name() -> None:
    leg = found(job("strategy: {matrix: {os: [u, '${{ vars.OS }}']}}"), "tests (u)")
    assert (leg.leg.values, leg.note) == ({"os": "u"}, "")


def test_a_known_leg_is_preferred_to_a_guess() -> None:
    workflow = read("on: push\njobs: {a: {runs-on: x, name: '${{ vars.X }}'}, b: {runs-on: x, name: exact}}")
    assert found(workflow, "exact") == JobLeg(workflow.jobs[1], found(workflow, "exact").leg)


def test_legs_of_one_name_are_told() -> None:
    leg = found(job("name: 'py${{ matrix.python }}', strategy: {matrix: {python: [3], os: [u, w]}}"), "py3")
    assert leg.leg.values["os"] == "u"
    assert "2 runs have the display name 'py3'" in leg.note


@pytest.mark.parametrize(
    ("workflow", "shown", "said"),
    [
        (job("strategy: {matrix: {a: [1, 2]}}"), "tests (3)", "the jobs are: tests (1); tests (2)"),
        (job("strategy: {matrix: {a: [1, 2]}}"), "test", "No job in the workflow has the display name 'test'"),
        (job("name: \"${{ fromJSON('{') }}\""), "tests", "The name of the job 'tests' cannot be evaluated"),
        (
            job("strategy: {matrix: {a: [\"${{ fromJSON('{') }}\"]}}"),
            "other",
            "The matrix of the job 'tests' cannot be evaluated",
        ),
        (job(f"strategy: {{matrix: {{a: {list(range(300))}}}}}"), "tests (1)", "300 legs"),
    ],
)
def test_a_name_that_no_job_has_is_a_problem(workflow: Workflow, shown: str, said: str) -> None:
    problem = find_leg(workflow, shown, evaluate)
    assert isinstance(problem, WorkflowProblem)
    assert said in problem.sentence


def picked(workflow: Workflow, job_id: str | None, **matrix: str) -> JobLeg:
    leg = pick(workflow, job_id, matrix, evaluate)
    assert isinstance(leg, JobLeg), str(leg)
    return leg


def test_a_person_picks_by_id_name_and_values() -> None:
    workflow = job("name: All, strategy: {matrix: {python: [3.10, '3.11'], os: [u, w]}}")
    assert picked(workflow, "tests", python="3.11", os="w").leg.values == {"python": "3.11", "os": "w"}
    assert picked(workflow, "All", python="3.1", os="u").note == ""
    assert picked(workflow, None, os="w").leg.values == {"python": 3.1, "os": "w"}
    assert "2 legs of 'tests' match" in picked(workflow, None, os="w").note
    assert picked(workflow, "All (3.11, w)").leg.values == {"python": "3.11", "os": "w"}


def test_a_person_picks_within_objects() -> None:
    workflow = job("strategy: {matrix: {os: [{name: linux}, {name: mac}]}}")
    assert picked(workflow, "tests", **{"os.name": "mac"}).leg.values == {"os": {"name": "mac"}}


def test_what_only_github_knows_is_given_by_the_person() -> None:
    leg = picked(job("strategy: {matrix: '${{ fromJSON(needs.a.outputs.b) }}'}"), "tests", python="3.12")
    assert leg.leg.values == {"python": "3.12"}
    assert "needs" in leg.note


@pytest.mark.parametrize(
    ("name", "matrix", "said"),
    [
        (None, {}, "choose one of: lint; tests; done"),
        ("nothing", {}, "the jobs are: lint; Tests (3.11); Tests (3.12); done"),
        (
            "tests",
            {"python-version": "3.9"},
            "No leg of the job 'tests' has python-version=3.9; the legs are: python-version=3.11;",
        ),
        ("done", {"os": "linux"}, "the legs are: no matrix"),
    ],
)
def test_a_choice_that_is_not_there_is_a_problem_with_the_choices(name: str | None, matrix: dict[str, str], said: str) -> None:
    problem = pick(ten("reusable"), name, matrix, evaluate)
    assert isinstance(problem, WorkflowProblem)
    assert said in problem.sentence
