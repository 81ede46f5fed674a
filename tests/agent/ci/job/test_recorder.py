from agent.ci.job.leg import Leg, Nothing, Walked
from agent.ci.job.renderer import SHELL, Frame
from agent.ci.steps import Gains, Here
from agent.ci.trail import Trail, Tried
from agent.ci.workflows.document import Problem
from agent.ci.workflows.workflow_file import read_workflow
from agent.contract.verdicts import Check, Reader
from sandbox.base import Packages

STEPS = "on: push\njobs: {tests: {runs-on: x, steps: [{run: lint}, {run: make}, {run: test}, {run: report}]}}"


def trail(*readers: Reader) -> Trail:
    """One on which a step a reader was tried."""
    workflow = read_workflow(STEPS)
    assert not isinstance(workflow, Problem)
    found = Trail(Leg(workflow, workflow.jobs[0], "job tests", python="3.12"))
    for step, reader in zip(workflow.jobs[0].steps, readers, strict=False):
        here = Here(step, Frame({}, {}, ".", SHELL), str(step.number), f"Run {step.run}", is_target=False)
        command = {"findings": "ruff check .", "pytest": "pytest"}.get(reader, "make")
        found.tell(here, "runs", command)
        found.tried.append(Tried(Check(here.title, command, reader), command, here.number))
    return found


def does(walked: Walked) -> list[tuple[str, str]]:
    return [(told.number, told.does) for told in walked.told]


def test_a_step_in_the_middle_has_only_what_it_needs_of_those_before_it_and_all_are_told_in_their_order() -> None:
    seen = trail("findings", "exit", "pytest", "exit")
    walked = seen.walked(seen.found(seen.tried[2]), ())
    assert walked.check is not None
    assert [step.name for step in walked.check.before] == ["Run make"]
    assert does(walked) == [("1", "left out"), ("2", "runs"), ("3", "runs"), ("4", "runs")]


def test_what_nobody_came_to_is_told_too() -> None:
    assert does(trail("findings").walked(Nothing(), ()))[1:] == [(number, "not reached") for number in "234"]


def test_the_python_that_a_step_sets_up_is_over_the_one_of_the_image_and_what_installs_want_is_not() -> None:
    seen = trail()
    seen.gain(Gains(Packages(("attrs",), python="3.9")))
    assert seen.packages == Packages(("attrs",), python="3.12")
    seen.gain(Gains(python="3.13", notes=("said",)))
    assert (seen.packages.python, seen.notes) == ("3.13", ["said"])
