"""A failed step is told by its shown name alone."""

from __future__ import annotations

import pytest

from agent.ci.expressions import Scope, Unknown, render
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Workflow, WorkflowStep
from agent.ci.workflows.shown_names import find_step
from agent.ci.workflows.workflow_file import read_workflow

WORKFLOW = """
on: push
jobs:
  a:
    runs-on: x
    steps:
      - uses: actions/checkout@v4
      - run: |

          pip install .
          pytest
      - name: Tests on ${{ matrix.python }}
        run: pytest
      - name: Report   of ${{ env.NAME }} by ${{ secrets.WHO }}
        run: echo
      - run: echo ${{ matrix.python }} && exit 1
      - name: ""
        run: make
      - run: pytest
        name: Tests
      - run: "${{ fromJSON('{') }}"
      - run: pytest --a-very-long-line-of-options --that-github-cuts
"""


def evaluated(template: str) -> str | Unknown:
    return render(template, Scope({"matrix": {"python": "3.12"}, "env": Unknown("env"), "secrets": Unknown("secrets")}))


def find(shown: str) -> WorkflowStep | WorkflowProblem:
    workflow = read_workflow(WORKFLOW)
    assert isinstance(workflow, Workflow), str(workflow)
    return find_step(workflow.jobs[0], shown, evaluated)


@pytest.mark.parametrize(
    ("shown", "number"),
    [
        ("Run actions/checkout@v4", 1),
        ("Run pip install .", 2),
        ("Tests on 3.12", 3),
        ("Report of me by you", 4),
        ("Run echo 3.12 && exit 1", 5),
        ("Run make", 6),
        ("Tests", 7),
        ("Run pytest --a-very-long…", 9),
        ("Run pytest --a-very-long...", 9),
    ],
)
def test_a_shown_name_leads_to_its_step(shown: str, number: int) -> None:
    step = find(shown)
    assert isinstance(step, WorkflowStep), str(step)
    assert step.number == number


@pytest.mark.parametrize("shown", ["Set up job", "Post Run actions/checkout@v4", "Initialize containers"])
def test_steps_of_github_itself_are_said_to_be_that(shown: str) -> None:
    problem = find(shown)
    assert isinstance(problem, WorkflowProblem)
    assert "added by GitHub" in problem.sentence


@pytest.mark.parametrize("shown", ["Tests on 3.11", "…", "", "Run"])
def test_a_name_that_no_step_has_is_a_problem(shown: str) -> None:
    problem = find(shown)
    assert isinstance(problem, WorkflowProblem)
    assert "no step" in problem.sentence
