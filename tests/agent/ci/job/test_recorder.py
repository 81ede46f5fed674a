from agent.ci.job.leg import Leg, NoCheck, TraversalResult
from agent.ci.job.recorder import CheckStep, StepRecorder
from agent.ci.job.renderer import SHELL, StepFrame
from agent.ci.job.steps import Additions, CurrentStep
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.workflow_file import read_workflow
from agent.contract.verdicts import Check, Reader
from sandbox.base import Packages

STEPS = "on: push\njobs: {tests: {runs-on: x, steps: [{run: lint}, {run: make}, {run: test}, {run: report}]}}"


def trail(*readers: Reader) -> StepRecorder:
    """One on which a step a reader was tried."""
    workflow = read_workflow(STEPS)
    assert not isinstance(workflow, WorkflowProblem)
    found = StepRecorder(Leg(workflow, workflow.jobs[0], "job tests", python="3.12"))
    for step, reader in zip(workflow.jobs[0].steps, readers, strict=False):
        current = CurrentStep(step, StepFrame({}, {}, ".", SHELL), str(step.number), f"Run {step.run}", is_target=False)
        command = {"findings": "ruff check .", "pytest": "pytest"}.get(reader, "make")
        found.record(current, "runs", command)
        found.tried.append(CheckStep(Check(current.title, command, reader), command, current.number))
    return found


def does(result: TraversalResult) -> list[tuple[str, str]]:
    return [(step.number, step.does) for step in result.steps]


def test_a_step_in_the_middle_has_only_what_it_needs_of_those_before_it_and_all_are_told_in_their_order() -> None:
    seen = trail("findings", "exit", "pytest", "exit")
    result = seen.result(seen.found(seen.tried[2]), ())
    assert result.check is not None
    assert [step.name for step in result.check.before] == ["Run make"]
    assert does(result) == [("1", "left out"), ("2", "runs"), ("3", "runs"), ("4", "runs")]


def test_what_nobody_came_to_is_told_too() -> None:
    assert does(trail("findings").result(NoCheck(), ()))[1:] == [(number, "not reached") for number in "234"]


def test_the_python_that_a_step_sets_up_is_over_the_one_of_the_image_and_what_installs_want_is_not() -> None:
    seen = trail()
    seen.add(Additions(Packages(("attrs",), python="3.9")))
    assert seen.packages == Packages(("attrs",), python="3.12")
    seen.add(Additions(python="3.13", notes=("said",)))
    assert (seen.packages.python, seen.notes) == ("3.13", ["said"])
