"""What no judge is needed for: problems have their sentence and line, and nothing that is written raises."""

from __future__ import annotations

import random

import pytest

from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Action, Workflow, WorkflowStep
from agent.ci.workflows.workflow_file import read_action, read_workflow

HEAD = "on: push\njobs:\n  a:\n    runs-on: x\n"


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("on: push\n", 1, "Required property is missing: jobs."),
        (HEAD + "    stepz: []\n", 5, "Unexpected value 'stepz'."),
        (HEAD + "    steps:\n      - run: x\n        args: y\n", 7, "Unexpected value 'args'."),
        (HEAD + "    steps:\n      - name: y\n", 6, "A step needs one of these properties: run, uses."),
        (HEAD + "    steps: x\n", 5, "Unexpected value 'x'."),
        (HEAD + "    env: [A]\n", 5, "A sequence was not expected."),
        (HEAD + "    timeout-minutes: {a: b}\n", 5, "A mapping was not expected."),
        (HEAD + "    needs: b\n", 3, "Job 'a' depends on unknown job 'b'."),
        (HEAD + "    env: {A: 1, a: 2}\n", 5, "'a' is already defined."),
        (HEAD + "    name: ${{ github.sha\n", 5, "The expression is not closed: a '${{' was found, but no '}}' after it."),
        (HEAD + "    env: {A: b}\n    if: |\n      runner.os\n", 6, "The expression cannot be read: the context 'runner' is"),
    ],
)
def test_a_problem_has_its_sentence_and_line(text: str, line: int, sentence: str) -> None:
    problem = read_workflow(text)
    assert isinstance(problem, WorkflowProblem)
    assert problem.line == line
    assert problem.sentence.startswith(sentence)
    assert str(problem).startswith(f"line {line}: ")


def test_long_hostile_text_is_not_repeated_in_full() -> None:
    problem = read_workflow("on: push\njobs: {a: {runs-on: x, timeout-minutes: '" + "z" * 100_000 + "'}}")
    assert isinstance(problem, WorkflowProblem)
    assert len(str(problem)) < 300


def test_a_circle_of_needs_names_two_jobs_of_it() -> None:
    problem = read_workflow("on: push\njobs:\n  a: {runs-on: x, needs: b}\n  b: {runs-on: x, needs: a}\n  c: {runs-on: x}\n")
    assert isinstance(problem, WorkflowProblem)
    assert str(problem) in (
        "line 3: Job 'a' depends on job 'b' which creates a cycle in the dependency graph.",
        "line 4: Job 'b' depends on job 'a' which creates a cycle in the dependency graph.",
    )


def test_a_long_chain_of_jobs_is_read() -> None:
    chain = "".join(f"  j{i}: {{runs-on: x, needs: j{i + 1}}}\n" for i in range(4000))
    workflow = read_workflow(f"on: push\njobs:\n{chain}  j4000: {{runs-on: x}}\n")
    assert isinstance(workflow, Workflow)
    assert len(workflow.jobs) == 4001


def test_versions_in_a_matrix_keep_their_kind() -> None:
    workflow = read_workflow(HEAD + "    strategy: {matrix: {v: [3.10, '3.10', 3, true, null]}}\n")
    assert isinstance(workflow, Workflow)
    assert workflow.jobs[0].matrix == {"v": [3.1, "3.10", 3, True, None]}


def test_steps_are_numbered() -> None:
    workflow = read_workflow(HEAD + "    steps:\n      - uses: a/b@v1\n      - run: x\n        id: y\n")
    assert isinstance(workflow, Workflow)
    assert workflow.jobs[0].steps == (WorkflowStep(1, uses="a/b@v1"), WorkflowStep(2, id="y", run="x"))
    assert workflow.jobs[0].labels == ("x",)
    assert workflow.job("a") is workflow.jobs[0]
    assert workflow.job("b") is None


@pytest.mark.parametrize("using", ["node20", "docker"])
def test_an_action_that_is_no_composite_has_no_steps(using: str) -> None:
    action = read_action(f"name: x\nruns: {{using: {using}, main: a.js, image: b}}")
    assert action == Action(using)


def test_inputs_of_an_action_need_no_values() -> None:
    action = read_action(
        "inputs: {a: , b: {required: true, default: 3.10}, c: {required: 'true'}}\nruns: {using: composite, steps: []}"
    )
    assert isinstance(action, Action)
    assert [(one.id, one.default) for one in action.inputs] == [("a", None), ("b", "3.1"), ("c", None)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x", "runs"),
        ("runs: {using: composite}", "missing: steps"),
        ("runs: {using: node20}", "missing: main"),
        ("runs: {using: docker}", "missing: image"),
        ("runs: {using: node4, main: x}", "'node4'"),
        ("runs: {using: node20, main: x, steps: []}", "Unexpected value 'steps'"),
        ("runs: {using: composite, steps: [{run: x}]}", "missing: shell"),
        ("runs: {using: composite, steps: [{run: x, shell: y, timeout-minutes: 1}]}", "'timeout-minutes'"),
        ("runs: {using: composite, steps: [{run: '${{ secrets.A }}', shell: y}]}", "the context 'secrets' is not"),
        ("runs: {using: composite, steps: [{run: x, shell: y, id: a}, {uses: z, id: a}]}", "more than once"),
        ("outputs: {a: {value: '${{ needs.x }}'}}\nruns: {using: composite, steps: []}", "the context 'needs' is not"),
        ("- a", "A sequence was not expected"),
        ("a: [", "not valid YAML"),
        ("", "empty"),
    ],
)
def test_a_bad_action_is_a_problem(text: str, said: str) -> None:
    problem = read_action(text)
    assert isinstance(problem, WorkflowProblem)
    assert said in problem.sentence


def test_whatever_keys_and_values_meet_nothing_raises() -> None:
    chance = random.Random(5)
    keys = [
        "on",
        "jobs",
        "a",
        "steps",
        "run",
        "uses",
        "with",
        "env",
        "if",
        "needs",
        "strategy",
        "matrix",
        "include",
        "container",
        "services",
        "image",
        "workflow_call",
        "inputs",
        "type",
        "default",
        "outputs",
        "value",
        "runs",
        "using",
        "defaults",
        "runs-on",
        "id",
        "name",
        "secrets",
    ]
    scalars = ["x", "push", "${{ a }}", "${{", "3.10", "true", "null", "''", "composite", "boolean", "inherit", "always()"]

    def some(depth: int) -> str:
        kind = chance.random()
        if depth > 5 or kind < 0.25:
            return chance.choice(scalars)
        if kind < 0.4:
            return "[" + ", ".join(some(depth + 1) for _ in range(chance.randrange(3))) + "]"
        chosen = chance.sample(keys, chance.randrange(4))
        return "{" + ", ".join(f"{key}: {some(depth + 1)}" for key in chosen) + "}"

    for _ in range(1000):
        job = some(2)
        workflow = f"{{on: {some(1)}, env: {some(2)}, jobs: {{a: {job}, b: {{runs-on: x, steps: [{job}]}}}}}}"
        assert isinstance(read_workflow(workflow), Workflow | WorkflowProblem)
        assert isinstance(read_action(f"{{inputs: {some(2)}, outputs: {some(2)}, runs: {some(1)}}}"), Action | WorkflowProblem)
