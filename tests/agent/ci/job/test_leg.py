import pytest

from agent.ci.job.leg import Leg, Target, match_steps
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.workflow_file import read_workflow

STEPS = "on: push\njobs: {tests: {runs-on: x, steps: [{name: Get, run: a}, {name: Test, run: b}, {name: Test, run: c}]}}"


def leg(failed: str | None, *conclusions: tuple[str, str]) -> Leg:
    workflow = read_workflow(STEPS)
    assert not isinstance(workflow, WorkflowProblem)
    return Leg(workflow, workflow.jobs[0], "job tests", failed_step=failed, conclusions=conclusions)


@pytest.mark.parametrize("red", ["failure", "timed_out"])
def test_the_red_step_of_the_run_is_the_failing_one_whatever_others_are_called(red: str) -> None:
    said = match_steps(leg("Test", ("Get", "success"), ("Test", "skipped"), ("Test", red)), str)
    assert (said.failing, said.runs(1), said.runs(2), said.runs(3), said.runs(4)) == (3, True, False, True, None)


def test_without_conclusions_the_name_tells_and_one_that_no_step_has_is_said() -> None:
    assert match_steps(leg("Test"), str).failing == 2
    gone = match_steps(leg("Gone"), str)
    assert gone.failing is None
    assert "no step with the display name 'Gone'; each step is tried" in gone.note
    assert match_steps(leg(None, ("Get", "failure")), str).failing is None


def test_a_step_that_is_left_out_may_be_the_failing_one_where_any_red_one_is() -> None:
    assert [aim for aim in Target if aim.is_any_red] == [Target.WITHIN, Target.RED]
