"""The job that is replayed if neither CI nor a person names one, among the jobs of real repositories' shapes."""

from __future__ import annotations

import time
from textwrap import dedent

import pytest

from agent.ci.expressions.values import no_files
from agent.ci.job.choice import Choice, JobKind, choose_job
from agent.ci.job.selection import AnyJob
from agent.ci.project.detection import Project

JOB = "runs-on: ubuntu-latest, steps: [{{run: {}}}]"


def choose(**workflows: str) -> Choice:
    """`workflows` are the texts by the file's stem."""
    texts = {f".github/workflows/{name.replace('_', '-')}.yml": dedent(text) for name, text in workflows.items()}
    return choose_job(AnyJob(), Project.of_texts(texts), no_files, "/w", until=time.monotonic() + 60)


def job(command: str, on: str = "push", name: str = "job", more: str = "") -> str:
    return f"on: {on}\njobs:\n  {name}: {{{more}{JOB.format(command)}}}\n"


def first(choice: Choice) -> str:
    leg = choice.jobs[0].leg
    return f"{leg.path.rpartition('/')[2]}: {leg.job.id}"


@pytest.mark.parametrize("other", ["build_docset", "benchmark", "integration", "release", "downstream", "nightly"])
def test_a_job_for_something_else_comes_last_although_its_file_is_first(other: str) -> None:
    choice = choose(**{f"a_{other}": job("pytest"), "test": job("pytest")})
    assert first(choice) == "test.yml: job"
    assert [one.kind for one in choice.jobs] == [JobKind.TESTS, JobKind.OTHER_TESTS]


def test_what_the_steps_run_counts_more_than_names() -> None:
    choice = choose(a=job("mypy src", name="tests"), b=job("python -m unittest discover -p 'check_*.py'", name="all"))
    assert first(choice) == "b.yml: all"
    assert choice.note(choice.jobs[0]) == "passed over: tests of a.yml (it runs no tests)"


def test_a_command_that_no_reader_knows_tests_by_its_name() -> None:
    choice = choose(a=job("cargo build"), b=job("make richtest"))
    assert (first(choice), choice.jobs[0].kind) == ("b.yml: job", JobKind.TESTS_BY_NAME)


@pytest.mark.parametrize(
    "on",
    ["{push: {tags: ['v*']}}", "workflow_dispatch", "{schedule: [{cron: '0 0 * * *'}]}", "release"],
)
def test_what_no_commit_starts_is_passed_over(on: str) -> None:
    choice = choose(a=job("pytest", on=on), b=job("pytest", on="pull_request"))
    assert first(choice) == "b.yml: job"
    assert choice.passed_over == (("a.yml", "not started by commits"),)


def test_tags_beside_branches_are_started_by_commits() -> None:
    assert first(choose(a=job("pytest", on="{push: {branches: [main], tags: ['v*']}}"))) == "a.yml: job"


def test_where_one_is_refused_the_next_is_taken() -> None:
    refused = """
        on: push
        jobs:
          test:
            runs-on: ubuntu-latest
            steps: [{uses: actions/checkout@v5, with: {path: src}}, {run: pytest}]
        """
    choice = choose(a=refused, b=job("pytest"))
    assert first(choice) == "b.yml: job"
    ((title, reason),) = choice.passed_over
    assert title == "test of a.yml"
    assert "`path`" in reason or "folder" in reason


def test_an_ordinary_leg_on_linux_is_taken() -> None:
    matrix = """
        on: push
        jobs:
          test:
            runs-on: ${{ matrix.os }}
            strategy:
              matrix:
                os: [windows-latest, macos-latest, ubuntu-latest]
                python: [pypy-3.11, 3.13t, "3.9", "3.11", "3.12"]
            steps: [{run: pytest}]
        """
    leg = choose(a=matrix).jobs[0].leg
    assert leg.matrix["os"] == "ubuntu-latest"
    assert leg.matrix["python"] in ("3.11", "3.12", "3.9"), "the one nearest to the Python of this machine"


def test_python_2_is_not_chosen() -> None:
    matrix = """
      on: push
      jobs:
        test:
          runs-on: ubuntu-latest
          strategy: {matrix: {python: ["2.7", "3.5", pypy2]}}
          steps: [{run: "pytest"}]
      """
    assert choose(a=matrix).jobs[0].leg.matrix["python"] == "3.5"


def test_a_leg_for_documentation_is_not_taken() -> None:
    matrix = """
        on: push
        jobs:
          test:
            runs-on: ubuntu-latest
            strategy: {matrix: {include: [{task: docs}, {task: lint}, {task: check}]}}
            steps: [{run: "pytest ${{ matrix.task }}"}]
        """
    assert choose(a=matrix).jobs[0].leg.matrix == {"task": "check"}


def test_versions_of_python_that_only_github_knows_are_guessed() -> None:
    matrix = """
        on: push
        jobs:
          made: {runs-on: ubuntu-latest, steps: [{run: "true"}]}
          test:
            needs: made
            runs-on: ubuntu-latest
            strategy: {matrix: {python-version: "${{ fromJson(needs.made.outputs.versions) }}"}}
            steps: [{run: pytest}]
        """
    leg = choose(a=matrix).jobs[0].leg
    assert str(leg.matrix["python-version"]).startswith("3.")
    assert leg.notes == ("Only GitHub knows the matrix of 'test'; its values are guessed.",)


def test_the_jobs_of_called_workflows_are_found_in_several_levels() -> None:
    texts = {
        "ci": "on: push\njobs: {one: {uses: ./.github/workflows/two.yml}}\n",
        "two": "on: workflow_call\njobs: {lint: {runs-on: u, steps: [{run: mypy}]}, "
        "all: {uses: ./.github/workflows/three.yml}}\n",
        "three": "on: {workflow_call: {inputs: {what: {type: string, default: tests}}}}\n"
        "jobs: {it: {runs-on: u, steps: [{run: 'pytest ${{ inputs.what }}'}]}}\n",
    }
    choice = choose(**texts)
    assert choice.jobs[0].leg.source == "workflow .github/workflows/three.yml, job one / all / it"
    assert [check.command for check in choice.jobs[0].result.checks] == ["pytest tests"]


def test_workflows_that_call_each_other_are_left() -> None:
    text = "on: [push, workflow_call]\njobs: {one: {uses: ./.github/workflows/a.yml}}\n"
    assert choose(a=text, b=text).jobs == ()


def test_an_unreadable_workflow_is_named_with_its_line() -> None:
    choice = choose(a="on: push\njobs: [", b=job("pytest"))
    assert first(choice) == "b.yml: job"
    (problem,) = choice.unreadable
    assert problem.startswith(".github/workflows/a.yml: ")
