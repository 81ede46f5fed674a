"""Called workflows are followed to the job that runs, with their inputs; what cannot be followed is named."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from agent.ci.expressions import Scope, Unknown, Value, value_of
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Workflow
from agent.ci.workflows.naming import find_leg, pick
from agent.ci.workflows.reuse import NESTING_LIMIT, ResolvedJob, resolve_job
from agent.ci.workflows.workflow_file import read_workflow

TEN = Path(__file__).resolve().parents[3] / "data" / "workflows" / "ten"
JOB = "jobs: {only: {runs-on: x, steps: [{run: y}]}}"


def evaluate(template: str, contexts: Mapping[str, Value]) -> Value:
    known: dict[str, Value] = {"github": {"sha": "abc"}, "needs": Unknown("needs"), "matrix": None, "inputs": {}}
    return value_of(template, Scope({**known, **contexts}))


def follow(files: Mapping[str, str], shown: str, first: str = "ci.yml") -> ResolvedJob | WorkflowProblem:
    workflow = read_workflow(files[first])
    assert isinstance(workflow, Workflow), str(workflow)

    return resolve_job(
        workflow,
        f".github/workflows/{first}",
        lambda workflow, inputs: find_leg(workflow, shown, evaluate, inputs),
        evaluate,
        lambda path: files.get(path.removeprefix(".github/workflows/")),
    )


def found(files: Mapping[str, str], shown: str) -> ResolvedJob:
    result = follow(files, shown)
    assert isinstance(result, ResolvedJob), str(result)
    return result


def calling(what: str, more: str = "") -> str:
    return f"on: push\njobs: {{call: {{uses: {what}{more}}}}}"


def test_the_jobs_of_a_called_workflow_are_found_by_both_names() -> None:
    files = {"ci.yml": (TEN / "reusable.yml").read_text(), "reusable-called.yml": (TEN / "reusable-called.yml").read_text()}
    tests = found(files, "Tests (3.11) / tests (3.11)")
    assert tests.target.job.id == "session"
    assert tests.path == ".github/workflows/reusable-called.yml"
    assert tests.inputs == {"session": "tests", "python-version": "3.11", "parallel": 2, "slow": True}
    assert [call.job.id for call in tests.calls] == ["tests"]
    lint = found(files, "lint / lint (3.12)")
    assert lint.inputs == {"session": "lint", "python-version": "3.12", "parallel": 1, "slow": False}
    assert found(files, "done").calls == ()


def test_the_only_job_of_a_called_workflow_needs_no_name() -> None:
    files = {"ci.yml": calling("./.github/workflows/b.yml"), "b.yml": f"on: workflow_call\n{JOB}"}
    assert found(files, "call").target.job.id == "only"


def test_calls_are_followed_through_several_files() -> None:
    deep = NESTING_LIMIT - 1
    files = {"ci.yml": calling("./.github/workflows/w1.yml", ", with: {n: 7}")}
    for i in range(1, deep):
        files[f"w{i}.yml"] = (
            "on: {workflow_call: {inputs: {n: {type: number}}}}\n"
            f"jobs: {{call: {{uses: ./.github/workflows/w{i + 1}.yml, with: {{n: '${{{{ inputs.n }}}}'}}}}}}"
        )
    files[f"w{deep}.yml"] = f"on: {{workflow_call: {{inputs: {{n: {{type: number}}}}}}}}\n{JOB}"
    result = found(files, " / ".join(["call"] * deep + ["only"]))
    assert result.inputs == {"n": 7}
    assert len(result.calls) == deep


def test_a_matrix_of_the_called_workflow_sees_its_inputs() -> None:
    called = (
        "on: {workflow_call: {inputs: {versions: {type: string, required: true}}}}\n"
        "jobs: {t: {runs-on: x, strategy: {matrix: {python: '${{ fromJSON(inputs.versions) }}'}}}}"
    )
    files = {"ci.yml": calling("./.github/workflows/b.yml", """, with: {versions: '["3.11", "3.12"]'}"""), "b.yml": called}
    assert found(files, "call / t (3.12)").target.leg.values == {"python": "3.12"}


def test_an_input_that_only_github_knows_stays_unknown() -> None:
    called = f"on: {{workflow_call: {{inputs: {{a: {{type: boolean}}}}}}}}\n{JOB}"
    files = {"ci.yml": calling("./.github/workflows/b.yml", ", with: {a: '${{ needs.x.outputs.y }}'}"), "b.yml": called}
    assert isinstance(found(files, "call / only").inputs["a"], Unknown)


def test_a_person_picks_a_job_of_a_called_workflow() -> None:
    files = {"ci.yml": (TEN / "reusable.yml").read_text(), "reusable-called.yml": (TEN / "reusable-called.yml").read_text()}
    workflow = read_workflow(files["ci.yml"])
    assert isinstance(workflow, Workflow)
    choose = partial(_picked, job="tests", matrix={"python-version": "3.12"})
    result = resolve_job(workflow, ".github/workflows/ci.yml", choose, evaluate, lambda path: files.get(Path(path).name))
    assert isinstance(result, ResolvedJob)
    assert result.inputs["python-version"] == "3.12"


def _picked(workflow: Workflow, inputs: Mapping[str, Value], *, job: str, matrix: Mapping[str, str]):  # type: ignore[no-untyped-def]
    return pick(workflow, job, matrix, evaluate, inputs)


def call_with(inputs: str, given: str) -> ResolvedJob | WorkflowProblem:
    called = f"on: {{workflow_call: {{inputs: {{{inputs}}}}}}}\n{JOB}"
    return follow({"ci.yml": calling("./.github/workflows/b.yml", f", with: {{{given}}}"), "b.yml": called}, "call / only")


@pytest.mark.parametrize(
    ("inputs", "given", "value"),
    [
        ("a: {type: string}", "a: 3.10", "3.1"),
        ("a: {type: string}", "a: true", "true"),
        ("a: {type: string}", "", ""),
        ("a: {type: boolean}", "", False),
        ("a: {type: number}", "", 0),
        ("a: {type: number, default: 5}", "", 5),
        ("a: {type: string, default: '${{ github.sha }}'}", "", "abc"),
        ("A: {type: boolean}", "a: true", True),
        ("a: {type: boolean}", "a: '${{ 1 == 1 }}'", True),
    ],
)
def test_inputs_have_their_types_and_defaults(inputs: str, given: str, value: Value) -> None:
    result = call_with(inputs, given)
    assert isinstance(result, ResolvedJob), str(result)
    assert list(result.inputs.values()) == [value]


@pytest.mark.parametrize(
    ("inputs", "given", "said"),
    [
        ("a: {type: boolean}", "a: 'true'", "'a' must be a boolean, not 'true'"),
        ("a: {type: number}", "a: many", "'a' must be a number"),
        ("a: {type: number}", "a: true", "'a' must be a number"),
        ("a: {type: string, required: true}", "", "does not pass the input 'a'"),
        ("a: {type: string}", "b: 1", "passes the input 'b'"),
        ("a: {type: string}", "a: \"${{ fromJSON('{') }}\"", "cannot be evaluated"),
        ("a: {type: string}", "a: \"${{ fromJSON('[]') }}\"", "'a' must be a string"),
    ],
)
def test_inputs_that_do_not_fit_are_a_problem(inputs: str, given: str, said: str) -> None:
    problem = call_with(inputs, given)
    assert isinstance(problem, WorkflowProblem)
    assert said in problem.sentence


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"ci.yml": calling("example/workflows/.github/workflows/x.yml@v1")}, "'example/workflows/.github/workflows/x.yml@v1'"),
        ({"ci.yml": calling("./.github/workflows/x.yml")}, ".github/workflows/x.yml is not in the repository"),
        ({"ci.yml": calling("./.github/workflows/../../secret.yml")}, "only files directly in"),
        ({"ci.yml": calling("./.github/workflows/deep/x.yml")}, "only files directly in"),
        ({"ci.yml": calling("./x.yml")}, "only files directly in"),
        ({"ci.yml": calling("./.github/workflows/x.yml"), "x.yml": "a: ["}, "x.yml cannot be read: line"),
        ({"ci.yml": calling("./.github/workflows/x.yml"), "x.yml": f"on: push\n{JOB}"}, "has no workflow_call"),
        ({"ci.yml": "on: workflow_call\njobs: {call: {uses: ./.github/workflows/ci.yml}}"}, "calls itself"),
        (
            {
                "ci.yml": calling("./.github/workflows/x.yml"),
                "x.yml": "on: workflow_call\njobs: {a: {runs-on: x}, b: {runs-on: x}}",
            },
            "name one of: a, b",
        ),
    ],
)  # fmt: skip
def test_a_call_that_cannot_be_followed_is_a_problem(files: dict[str, str], said: str) -> None:
    problem = follow(files, "call")
    assert isinstance(problem, WorkflowProblem)
    assert said in problem.sentence


def test_a_circle_of_calls_ends() -> None:
    circle = "on: workflow_call\njobs: {call: {uses: ./.github/workflows/%s.yml}}"
    files = {"ci.yml": calling("./.github/workflows/a.yml"), "a.yml": circle % "b", "b.yml": circle % "a"}
    problem = follow(files, "call / call / call / call")
    assert isinstance(problem, WorkflowProblem)
    assert "calls itself" in problem.sentence


def test_calls_that_nest_one_too_deep_end() -> None:
    files = {"ci.yml": calling("./.github/workflows/w1.yml"), f"w{NESTING_LIMIT}.yml": f"on: workflow_call\n{JOB}"}
    for i in range(1, NESTING_LIMIT):
        files[f"w{i}.yml"] = f"on: workflow_call\njobs: {{call: {{uses: ./.github/workflows/w{i + 1}.yml}}}}"
    problem = follow(files, " / ".join(["call"] * NESTING_LIMIT + ["only"]))
    assert isinstance(problem, WorkflowProblem)
    assert f"more than {NESTING_LIMIT} levels deep" in problem.sentence


def test_values_that_a_person_gives_go_to_the_matrix_that_has_them() -> None:
    inner = "on: workflow_call\njobs: {inner: {runs-on: x, strategy: {matrix: {part: [a, b]}}, steps: [{run: y}]}}"
    outer = "on: push\njobs: {call: {strategy: {matrix: {os: [one, two]}}, uses: ./.github/workflows/in.yml}}"
    workflow = read_workflow(outer)
    assert isinstance(workflow, Workflow)

    def found(job: str, matrix: Mapping[str, str]) -> ResolvedJob | WorkflowProblem:
        def choose(workflow: Workflow, inputs: Mapping[str, Value]) -> object:
            return pick(workflow, job, matrix, evaluate, inputs)

        return resolve_job(workflow, "ci.yml", choose, evaluate, {".github/workflows/in.yml": inner}.get)  # type: ignore[arg-type]

    for job in ("call", "call (two) / inner"):
        one = found(job, {"os": "two", "part": "b"})
        assert isinstance(one, ResolvedJob), str(one)
        assert [dict(each.leg.values) for each in (*one.calls, one.target)] == [{"os": "two"}, {"part": "b"}]
    for matrix in ({"os": "two", "part": "c"}, {"nowhere": "c"}):
        problem = found("call", matrix)
        assert isinstance(problem, WorkflowProblem)
        assert "No leg of the job 'inner' has" in str(problem)
        assert "the legs are: part=a; part=b" in str(problem)
