"""What the steps of a job come to, read and run: conditions, variables, outputs, own actions, what is not available."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from textwrap import dedent
from typing import cast

import pytest

from agent.checks.runner import Runner
from agent.ci.expressions.values import no_files
from agent.ci.job.leg import FailingStep, Leg, RunRequired, TraversalResult
from agent.ci.job.replay import Replayer
from agent.ci.job.selection import ChosenJob, FailedJob, select_leg
from agent.ci.job.traversal import read_steps
from agent.ci.project.detection import Project, read_project
from agent.ci.workflows.document import WorkflowProblem
from agent.contract.outcome import Outcome
from agent.contract.verdicts import Check, CheckRun
from sandbox.base import Sandbox, Workspace
from tests.agent.conftest import Repository

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEST = "def test_a(): assert 1 == 2\n"


def workflow(steps: str, job: str = "", head: str = "") -> str:
    """A workflow of one job, `tests`."""
    body = dedent(steps).strip("\n").replace("\n", "\n      ")
    job = dedent(job).strip("\n").replace("\n", "\n    ")
    return f"on: push\n{dedent(head)}\njobs:\n  tests:\n    runs-on: ubuntu-latest\n    {job}\n    steps:\n      {body}\n"


@dataclass(frozen=True)
class Copies:
    """The candidates of a sandbox whose base has these files."""

    repository: Repository
    files: Mapping[str, str]

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        yield await self.repository(self.files)


class Walks:
    def __init__(self, sandbox: Sandbox, repository: Repository) -> None:
        self.sandbox, self.repository = sandbox, repository

    async def read(
        self,
        text: str,
        files: Mapping[str, str] | None = None,
        *,
        failed: str | None = None,
        told: Sequence[tuple[str, str]] = (),
    ) -> TraversalResult:
        """As it is known without running anything; `told` are the names and conclusions of steps in CI."""
        leg, project = await self._leg(text, files or {}, failed, told)
        return read_steps(leg, project, no_files)

    async def run(
        self, text: str, files: Mapping[str, str] | None = None, *, failed: str | None = None, is_red: bool = True
    ) -> TraversalResult:
        """As running the steps tells it; `is_red`: CI reports that the job failed."""
        leg, project = await self._leg(text, files or {}, failed, ())
        leg = replace(leg, is_red=is_red)
        runner = Runner(self.sandbox)

        async def ran(check: Check, run: CheckRun) -> None:
            self.ran.append(check.name)

        self.ran: list[str] = []
        copies = cast(Sandbox, Copies(self.repository, files or {}))
        return await Replayer(copies, runner, ran, float("inf")).replay(leg, project, no_files)

    async def _leg(
        self, text: str, files: Mapping[str, str], failed: str | None, conclusions: Sequence[tuple[str, str]]
    ) -> tuple[Leg, Project]:
        workspace = await self.repository(files)
        project = await read_project(workspace)
        leg = select_leg(
            FailedJob("tests", text, ".github/workflows/ci.yml", failed, tuple(conclusions)), project, workspace.root
        )
        assert not isinstance(leg, WorkflowProblem), leg
        return replace(leg, job=replace(leg.job)), project


@pytest.fixture
def walks(sandbox: Sandbox, repository: Repository) -> Walks:
    return Walks(sandbox, repository)


def does(result: TraversalResult) -> list[tuple[str, str]]:
    return [(step.number, step.does) for step in result.steps]


async def test_the_failing_step_keeps_the_steps_before_it_that_do_more_than_look(walks: Walks) -> None:
    text = workflow(
        """
        - uses: actions/checkout@v5
        - uses: actions/setup-python@v6
          with: {python-version: '3.12'}
        - run: pip install -e .[test]
        - run: ruff check .
        - name: Generate
          run: python generate.py
        - run: pytest -q
        - run: echo done
        """
    )
    result = await walks.read(text, failed="Run pytest -q")
    assert result.check is not None
    assert result.check.command == "pytest -q"
    assert [(step.name, step.command) for step in result.check.before] == [("Generate", "python generate.py")]
    assert result.packages.projects == (".[test]",)
    assert result.packages.python == "3.12"
    assert does(result) == [
        ("1", "nothing"), ("2", "sets up"), ("3", "installs"), ("4", "left out"), ("5", "runs"), ("6", "fails"),
        ("7", "not reached"),
    ]  # fmt: skip


async def test_the_python_is_the_one_of_the_tests_not_of_what_comes_after_them(walks: Walks) -> None:
    first, tests, last = (
        f"- {{uses: actions/setup-python@v6, with: {{python-version: '{version}'}}}}" for version in ("3.8", "3.11", "3.9")
    )
    text = workflow("\n".join([first, tests, "- run: pytest", last, "- run: coverage combine"]))
    assert (await walks.read(text)).packages.python == "3.11"
    several = "\n".join([first, "- {name: Old, run: pytest old}", tests, "- {name: New, run: pytest new}", last])
    assert (await walks.read(workflow(several), failed="New")).packages.python == "3.11"


@pytest.mark.parametrize(("test", "fails"), [(TEST, "2"), ("def test_a(): pass\n", "1")])
async def test_where_tests_fail_after_a_linter_the_tests_are_repaired(walks: Walks, test: str, fails: str) -> None:
    files = {"a.py": "def f():\n    x = 1\n", "test_a.py": test}
    steps = "- run: ruff check --select F .\n- run: python -m pytest\n- run: echo done"
    result = await walks.run(workflow(steps), files, is_red=False)
    assert [number for number, does in does(result) if does == "fails"] == [fails]
    assert any("fails too, but the tests are repaired first" in note for note in result.notes) is (fails == "2")


@pytest.mark.parametrize(
    ("last", "fails"),
    [
        ("Found 2 errors in 1 file (checked 3 source files)", "2"),
        ("1 file would be reformatted, 8 files already formatted", "2"),
        ("could not compile", "1"),
    ],
)
async def test_a_script_whose_linter_fails_lets_the_tests_run_but_one_that_builds_does_not(
    walks: Walks, last: str, fails: str
) -> None:
    files = {"check": f"#!/bin/sh\ntouch built\necho '{last}'\nexit 1\n", "test_a.py": TEST}
    result = await walks.run(workflow("- run: sh check\n- run: python -m pytest\n- run: echo done"), files, is_red=False)
    assert [number for number, does in does(result) if does == "fails"] == [fails]
    if fails == "2":
        assert result.check is not None
        assert [step.may_fail for step in result.check.before] == [True]
    files["test_a.py"] = "import built\n\n\ndef test_a(): pass\n"  # may be what the script makes after its linter
    result = await walks.run(workflow("- run: sh check\n- run: python -m pytest"), files, is_red=False)
    assert [number for number, does in does(result) if does == "fails"] == ["1"]
    named = await walks.run(workflow("- run: sh check\n- run: python -m pytest"), files, is_red=True)
    assert [number for number, does in does(named) if does == "fails"] == ["1"]


async def test_variables_of_workflow_job_and_step_and_where_it_runs(walks: Walks) -> None:
    text = workflow(
        """
        - name: Go
          env: {C: step, D: "${{ env.A }}-${{ matrix.folder }}"}
          working-directory: ${{ matrix.folder }}
          run: pytest ${{ runner.os }}
        """,
        job="""
        env: {B: job, C: job}
        defaults: {run: {shell: bash}}
        strategy: {matrix: {folder: [backend]}}
        name: tests${{ '' }}
        """,
        head="env: {A: workflow, B: workflow}",
    )
    check = (await walks.read(text, failed="Go")).check
    assert check is not None
    assert (check.command, check.cwd, check.shell) == ("pytest Linux", "backend", "bash")
    wanted = {"A": "workflow", "B": "job", "C": "job", "CI": "true"}
    assert {name: check.outer[name] for name in wanted} == wanted
    assert check.env == {"C": "step", "D": "workflow-backend"}


async def test_an_expression_can_give_all_variables(walks: Walks) -> None:
    job = """
        env: ${{ matrix.outer }}
        strategy: {matrix: {include: [{outer: {A: job, B: job}, env: {B: step, C: 1.5}}]}}
        name: tests${{ '' }}
        """
    check = (await walks.read(workflow("- {name: Go, env: '${{ matrix.env }}', run: pytest}", job), failed="Go")).check
    assert check is not None
    assert (check.env, check.outer["A"]) == ({"B": "step", "C": "1.5"}, "job")
    none = await walks.read(workflow("- {name: Go, env: '${{ matrix.absent }}', run: pytest}", job), failed="Go")
    assert none.check is not None
    assert none.check.env == {}
    wrong = await walks.read(workflow("- {name: Go, env: '${{ matrix.env.B }}', run: pytest}", job), failed="Go")
    assert wrong.check is None
    assert wrong.ending is not None
    assert "is not a mapping of variables" in wrong.ending.reason
    late = await walks.read(workflow("- {name: Go, env: '${{ github.event.variables }}', run: pytest}", job), failed="Go")
    assert late.check is None
    exports = "- run: echo V=1 >> $GITHUB_ENV\n- {name: Go, env: '${{ fromJSON(env.V) }}', run: pytest}"
    assert isinstance((await walks.read(workflow(exports))).end, RunRequired), "only a run shows it"


async def test_conditions_decide_and_what_ci_tells_of_a_step_decides_first(walks: Walks) -> None:
    steps = """
        - {name: Windows, if: runner.os == 'Windows', run: make windows}
        - {name: Unsure, if: github.event.number > 3, run: make unsure}
        - {name: Go, run: pytest}
        """
    result = await walks.read(workflow(steps), failed="Go")
    assert does(result) == [("1", "skipped"), ("2", "runs"), ("3", "fails")]
    assert any("`github.event.number`, which is unknown here" in note for note in result.notes)
    told = await walks.read(
        workflow(steps), failed="Go", told=[("Windows", "success"), ("Unsure", "skipped"), ("Go", "failure")]
    )
    assert does(told) == [("1", "runs"), ("2", "skipped"), ("3", "fails")]


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("{name: Go, run: 'pytest --token ${{ secrets.API_KEY }}'}", "API_KEY"),
        ("{name: Go, run: pytest, env: {KEY: '${{ secrets.API_KEY }}'}}", "API_KEY"),
    ],
)
async def test_a_failing_step_that_needs_a_secret_ends_there(walks: Walks, step: str, name: str) -> None:
    result = await walks.read(workflow(f"- {step}"), failed="Go")
    assert result.check is None
    assert result.ending is not None
    assert result.ending.outcome is Outcome.NEEDS_SECRET
    assert f"`{name}`" in result.ending.reason


async def test_a_secret_that_only_other_steps_need_is_not_in_the_way(walks: Walks) -> None:
    text = workflow(
        """
        - {name: Report, run: 'upload ${{ secrets.REPORT }}'}
        - {name: Go, run: pytest, env: {TOKEN: '${{ secrets.GITHUB_TOKEN }}'}}
        """,
        job="env: {OUTER: '${{ secrets.OUTER }}'}",
    )
    result = await walks.read(text, failed="Go")
    assert result.check is not None
    assert result.check.env["TOKEN"] == ""
    assert "OUTER" not in result.check.env
    assert does(result) == [("1", "left out"), ("2", "fails")]
    assert any("`OUTER`" in note for note in result.notes)


async def test_an_unknown_action_is_passed_over_unless_what_it_gives_is_needed(walks: Walks) -> None:
    steps = "- {id: x, uses: someone/thing@v1}\n- {name: Go, run: 'pytest %s'}"
    result = await walks.read(workflow(steps % "-q"), failed="Go")
    assert result.check is not None
    assert any("someone/thing@v1" in note for note in result.notes)
    needed = await walks.read(workflow(steps % "${{ steps.x.outputs.args }}"), failed="Go")
    assert needed.ending is not None
    assert needed.ending.outcome is Outcome.NOT_REPRODUCED
    assert "steps.x.outputs.args" in needed.ending.reason


OUTPUTS = """
    - {id: set, name: Set, run: 'echo "args=-k a" >> "$GITHUB_OUTPUT"; echo "WHERE=tests" >> "$GITHUB_ENV"'}
    - {name: Never, if: steps.set.outputs.args == '', run: exit 1}
    - {name: Go, run: 'pytest ${{ steps.set.outputs.args }} ${{ env.WHERE }}'}
    """


async def test_what_a_step_prints_for_later_ones_is_asked_of_a_run(walks: Walks) -> None:
    files = {"tests/test_a.py": TEST}
    assert (await walks.read(workflow(OUTPUTS), files, failed="Go")).asks == "steps.set.outputs.args"
    result = await walks.run(workflow(OUTPUTS), files, failed="Go")
    assert result.check is not None, result
    assert result.check.command == "pytest -k a tests"
    assert does(result) == [("1", "runs"), ("2", "skipped"), ("3", "fails")]
    assert walks.ran == ["Set"]  # the failing step itself is reproduced by whoever asked


@pytest.mark.long
async def test_without_a_word_from_ci_the_first_red_step_is_the_failing_one(walks: Walks) -> None:
    text = workflow("- {name: Fine, run: 'true'}\n- {name: May fail, run: 'false', continue-on-error: true}\n"
                    "- {name: Tests, run: pytest}\n- {name: After, run: 'true'}")  # fmt: skip
    assert (await walks.read(text)).asks == "which step fails"
    result = await walks.run(text, {"test_a.py": TEST})
    assert result.check is not None
    assert (result.check.name, result.check.reader) == ("Tests", "pytest")
    assert walks.ran == ["Fine", "May fail", "Tests", "Tests"]  # by itself, and as it is reproduced
    green = await walks.run(text, {"test_a.py": "def test_a(): pass\n"})
    assert green.check is not None
    assert green.check.name == "Tests"  # what tests the most is asked again: it may be flaky
    assert walks.ran[-1] == "After"


async def test_a_step_that_passed_in_ci_and_fails_here_is_said(walks: Walks) -> None:
    text = workflow("- {id: net, name: Fetch, run: 'exit 7'}\n- {name: Go, run: 'pytest ${{ steps.net.outputs.x }}'}")
    result = await walks.run(text, failed="Go")
    assert result.ending is not None
    assert result.ending.outcome is Outcome.NOT_REPRODUCED
    assert "the earlier step `Fetch` failed in the sandbox" in result.ending.reason


ACTION = """
name: Set up
inputs:
  folder: {default: tests}
  extra: {required: true}
outputs:
  args: {value: "${{ steps.inner.outputs.args }}"}
runs:
  using: composite
  steps:
    - run: pip install -r requirements-${{ inputs.extra }}.txt
      shell: bash
    - id: inner
      run: echo "args=${{ inputs.folder }}" >> "$GITHUB_OUTPUT"
      shell: bash
"""


async def test_an_action_of_the_repository_is_its_own_steps(walks: Walks) -> None:
    files = {".github/actions/setup/action.yml": ACTION, "requirements-ci.txt": "", "tests/test_a.py": TEST}
    text = workflow(
        """
        - {id: setup, uses: ./.github/actions/setup, with: {extra: ci}}
        - {name: Go, run: 'pytest ${{ steps.setup.outputs.args }}'}
        """
    )
    read = await walks.read(text, files, failed="Go")
    assert read.packages.requirement_files == ("requirements-ci.txt",)
    result = await walks.run(text, files, failed="Go")
    assert result.check is not None, result
    assert result.check.command == "pytest tests"
    assert does(result) == [("1", "runs"), ("1.1", "installs"), ("1.2", "runs"), ("2", "fails")]


async def test_an_action_that_uses_itself_ends(walks: Walks) -> None:
    action = "name: a\nruns: {using: composite, steps: [{uses: ./loop}]}\n"
    result = await walks.read(workflow("- uses: ./loop\n- {name: Go, run: pytest}"), {"loop/action.yml": action}, failed="Go")
    assert result.check is not None
    assert len(result.steps) < 15


async def test_an_expression_that_github_refuses_is_refused_with_its_place(walks: Walks) -> None:
    result = await walks.read(workflow("- {name: Go, run: 'pytest ${{ fromJSON(matrix) }}'}"), failed="Go")
    assert result.ending is not None
    assert result.ending.outcome is Outcome.REFUSED
    assert "fromJSON" in result.ending.reason


async def test_services_come_with_what_runs_and_those_that_cannot_be_had_are_named(walks: Walks) -> None:
    steps = "- {name: Lint, run: ruff check .}\n- {name: Go, run: 'pytest ${{ job.services.db.ports[5432] }}'}"
    job = "services: {db: {image: 'postgres:${{ matrix.db }}', ports: ['5433:5432']}%s}"
    job += "\nstrategy: {matrix: {db: [15]}}\nname: tests${{ '' }}"
    check = (await walks.read(workflow(steps, job % ""), failed="Go")).check
    assert check is not None
    assert check.command == "pytest 5433"
    assert [(one.kind, one.port, one.image) for one in check.services] == [("postgresql", 5433, "postgres:15")]
    search = ", search: {image: 'elasticsearch:8'}"
    needs = (await walks.read(workflow(steps, job % search), failed="Go")).ending
    assert needs is not None
    assert (needs.outcome, "search (" in needs.reason) == (Outcome.NEEDS_SERVICES, True)
    lint = (await walks.read(workflow(steps, job % search), failed="Lint")).check
    assert lint is not None
    assert lint.services == ()


async def test_where_a_job_runs_in_ci_is_said_where_it_is_different(walks: Walks) -> None:
    text = workflow("- {name: Go, run: pytest}", "container: 'python:3.12-slim'").replace("ubuntu-latest", "windows-2022")
    result = await walks.read(text, failed="Go")
    assert result.packages.python == "3.12"
    assert result.notes == ("the job runs on windows-2022 in CI, but on Linux here",)


async def test_a_step_s_own_variables_are_seen_by_its_condition_and_its_text(walks: Walks) -> None:
    text = workflow("- {name: Go, env: {A: b}, if: env.A == 'b', run: 'pytest ${{ env.A }}'}")
    check = (await walks.read(text)).asks
    assert check == "which step fails"
    result = await walks.run(text, {"b/test_a.py": TEST})
    assert result.check is not None
    assert result.check.command == "pytest b"


async def test_steps_of_one_name_are_told_apart_by_their_order(walks: Walks) -> None:
    text = workflow(
        """
        - {name: Install, if: runner.os == 'Linux', run: pip install attrs}
        - {name: Install, if: runner.os == 'Windows', run: pip install pywin32}
        - {name: Test, if: runner.os == 'Windows', run: pytest windows}
        - {name: Test, run: pytest linux}
        """
    )
    told = [("Set up job", "success"), ("Install", "success"), ("Install", "skipped"), ("Test", "skipped"), ("Test", "failure")]
    result = await walks.read(text, failed="Test", told=told)
    assert result.check is not None
    assert result.check.command == "pytest linux"
    assert result.packages.requirements == ("attrs",)


async def test_a_step_that_may_fail_tells_its_outcome_and_is_not_in_the_way(walks: Walks) -> None:
    text = workflow(
        """
        - {id: one, name: One, run: exit 3, continue-on-error: true}
        - {name: Only then, if: steps.one.outcome == 'failure' && steps.one.conclusion == 'success', run: touch then}
        - {name: Go, run: pytest}
        """
    )
    assert (await walks.read(text, failed="Go")).asks == "steps.one.outcome"
    result = await walks.run(text, {"test_a.py": TEST}, failed="Go")
    assert does(result) == [("1", "runs"), ("2", "runs"), ("3", "fails")]
    assert result.check is not None
    run = await Runner(walks.sandbox).run(await walks.repository({"test_a.py": TEST}), result.check)
    assert [str(id_) for id_ in run.red] == ["test_a.py::test_a"]


async def test_a_step_that_does_more_than_look_stays_before_the_tests(walks: Walks) -> None:
    text = workflow(
        """
        - {name: Style, run: ruff check .}
        - {name: Migrate, run: python manage.py migrate && pytest tests/smoke}
        - {name: Go, run: pytest}
        """
    )
    check = (await walks.read(text, failed="Go")).check
    assert check is not None
    assert [step.name for step in check.before] == ["Migrate"]


async def test_what_a_step_exports_is_over_the_job_s_variables_and_under_the_step_s_own(walks: Walks) -> None:
    text = workflow(
        """
        - {name: Set, run: 'echo "A=set" >> "$GITHUB_ENV"; echo "B=set" >> "$GITHUB_ENV"'}
        - {name: Go, env: {B: own}, run: 'echo "$A $B"; false'}
        """,
        "env: {A: job, B: job}",
    )
    check = (await walks.read(text, failed="Go")).check
    assert check is not None
    run = await Runner(walks.sandbox).run(await walks.repository({}), check)
    assert run.output.strip() == "set own"


async def test_a_failing_action_of_the_repository_that_is_green_here_ends_the_walk_inside(walks: Walks) -> None:
    action = "name: a\nruns: {using: composite, steps: [{run: pytest, shell: bash}]}\n"
    text = workflow("- {name: Own, uses: ./}\n- {name: Deploy, run: exit 1}")
    result = await walks.run(text, {"action.yml": action, "test_a.py": "def test_a(): pass\n"}, failed="Own")
    assert result.check is not None
    assert (result.check.command, walks.ran) == ("pytest", ["Run pytest"])


async def test_inputs_and_outputs_of_an_action_are_text_and_it_knows_its_folder(walks: Walks) -> None:
    action = """
    name: a
    inputs: {flag: {default: false}}
    runs:
      using: composite
      steps:
        - {if: inputs.flag == 'true', run: 'sh "$GITHUB_ACTION_PATH/prepare.sh"', shell: bash}
    """
    files = {"tools/a/action.yml": dedent(action), "tools/a/prepare.sh": "touch prepared\n", "test_a.py": TEST}
    text = workflow(
        "- {name: Own, uses: ./tools/a, with: {flag: '${{ 1 == 1 }}'}}\n- {name: Go, run: 'test -f prepared && pytest'}"
    )
    result = await walks.run(text, files, failed="Go")
    assert does(result) == [("1", "runs"), ("1.1", "runs"), ("2", "fails")]


async def test_variables_of_a_container_are_the_job_s_too(walks: Walks) -> None:
    text = workflow("- {name: Go, run: pytest}", "container: {image: 'python:3.12', env: {DB: x, B: image}}\nenv: {B: job}")
    check = (await walks.read(text, failed="Go")).check
    assert check is not None
    assert (check.outer["DB"], check.outer["B"]) == ("x", "job")


async def test_a_linter_s_action_runs_at_the_root_whatever_the_defaults_of_run_are(walks: Walks) -> None:
    text = workflow("- {name: Lint, uses: astral-sh/ruff-action@v3}", "defaults: {run: {working-directory: backend}}")
    check = (await walks.read(text, failed="Lint")).check
    assert check is not None
    assert check.cwd == "."


@pytest.mark.parametrize(
    "text",
    [
        "${{ secrets.GITHUB_TOKEN }}${{ secrets['DEPLOY'] }}",
        "${{ secrets.GITHUB_TOKEN_RO }}",
        "${{ secrets.GITHUB_TOKEN || secrets[matrix.x] }}",
    ],
)
async def test_no_other_secret_hides_behind_the_run_s_own_token(walks: Walks, text: str) -> None:
    result = await walks.read(workflow(f'- {{name: Go, run: pytest, env: {{T: "{text}"}}}}'), failed="Go")
    assert result.ending is not None
    assert result.ending.outcome is Outcome.NEEDS_SECRET


async def test_a_service_that_needs_a_secret_is_no_other_service(walks: Walks) -> None:
    job = "services: {db: {image: 'postgres:15', ports: ['5432:5432'], env: {POSTGRES_PASSWORD: '${{ secrets.PG }}'}}}"
    ending = (await walks.read(workflow("- {name: Go, run: pytest}", job), failed="Go")).ending
    assert ending is not None
    assert (ending.outcome, "`PG`" in ending.reason) == (Outcome.NEEDS_SECRET, True)


async def test_a_workflow_of_pull_requests_is_seen_as_one(sandbox: Sandbox, repository: Repository) -> None:
    text = workflow("- {name: Go, if: github.event_name == 'pull_request', run: pytest}").replace(
        "on: push", "on: pull_request"
    )
    workspace = await repository({})
    project = await read_project(workspace)
    leg = select_leg(ChosenJob(text, ".github/workflows/ci.yml"), project, workspace.root)
    assert isinstance(leg, Leg)
    assert does(read_steps(leg, project, no_files)) == [("1", "runs")]


@pytest.mark.parametrize("minutes", [".nan", "-1", "'${{ matrix.none }}'", "0.01"])
async def test_odd_times_of_a_step_are_bounded(walks: Walks, minutes: str) -> None:
    check = (await walks.read(workflow(f"- {{name: Go, run: pytest, timeout-minutes: {minutes}}}"), failed="Go")).check
    assert check is not None
    assert 0 < check.timeout <= 600.0


async def test_what_steps_leave_outside_of_the_repository_is_there_for_the_failing_one(walks: Walks) -> None:
    text = workflow(
        """
        - name: Make
          run: |
            mkdir -p /tmp/mine "$HOME/.local/bin"
            echo 'echo mine' > /tmp/mine/mytool
            echo 'echo other' > "$HOME/.local/bin/mytool2"
            chmod +x /tmp/mine/mytool "$HOME/.local/bin/mytool2"
            echo /tmp/mine >> "$GITHUB_PATH"
            echo "$HOME/.local/bin" >> "$GITHUB_PATH"
            echo kept > "$RUNNER_TEMP/x"
            echo LEFT=behind >> "$GITHUB_ENV"
        - id: use
          name: Use
          run: |
            mytool
            mytool2
            cat "$RUNNER_TEMP/x"
            test "$LEFT" = behind
            echo "said=$(mytool)" >> "$GITHUB_OUTPUT"
        - name: Later
          run: test "${{ steps.use.outputs.said }}" = mine && mytool2
        - run: pytest -q
        """
    )
    result = await walks.run(text, {"test_a.py": TEST})
    assert result.check is not None
    assert (result.check.command, [step.name for step in result.check.before]) == ("pytest -q", ["Make", "Use", "Later"])
    assert any("step 2, `Use`, needs what earlier steps leave outside" in note for note in result.notes)
    assert walks.ran == ["Make", "Use", "Use", "Later", "Run pytest -q"]  # when it is known, each is run once


async def test_a_step_that_is_red_with_those_before_it_too_is_the_failing_one(walks: Walks) -> None:
    text = workflow("- run: echo made > made.txt\n- name: Look\n  run: cat made.txt && exit 3\n- run: pytest")
    result = await walks.run(text)
    assert result.check is not None
    assert (result.check.name, len(result.check.before)) == ("Look", 1)
    assert isinstance(result.end, FailingStep)
    assert result.end.seen is not None
    assert result.end.seen.exit_code == 3


async def test_a_red_step_that_perhaps_does_not_run_in_ci_is_passed_over(walks: Walks) -> None:
    text = workflow(
        """
        - name: Doubtful
          if: github.event.pull_request.draft == false
          run: exit 5
        - run: pytest -q
        """
    )
    result = await walks.run(text, {"test_a.py": TEST})
    assert result.check is not None
    assert (result.check.command, result.check.before) == ("pytest -q", ())
    assert any("`Doubtful`, fails here but is left out" in note for note in result.notes)
    result = await walks.run(text, {"test_a.py": "def test_a(): pass\n"})
    assert result.ending is not None
    assert "Only the step `Doubtful` fails here" in result.ending.reason


def on_windows(run: str) -> str:
    return workflow(f"- name: Go\n  run: {run}").replace("ubuntu-latest", "windows-latest")


async def test_on_windows_powershell_is_the_default_and_bash_runs_what_it_reads_alike(walks: Walks) -> None:
    result = await walks.read(on_windows("python -m pytest -q tests/unit -k 'not slow'"), failed="Go")
    assert result.check is not None
    assert result.check.shell == "bash -e {0}"
    for text in ("'$env:PYTHONPATH=\".\"; python -m pytest'", "Get-ChildItem", r"python -m pytest tests\unit"):
        result = await walks.read(on_windows(text), failed="Go")
        assert result.ending is not None, text
        assert "the shell pwsh" in result.ending.reason


async def test_a_checkout_into_a_folder_is_refused_unless_the_repository_is_at_the_root_too(walks: Walks) -> None:
    elsewhere = "- uses: actions/checkout@v5\n  with: {path: src}\n- run: pytest"
    result = await walks.read(workflow(elsewhere))
    assert result.ending is not None
    assert result.ending.outcome is Outcome.REFUSED
    assert "into the folder `src` (`path` of actions/checkout)" in result.ending.reason
    result = await walks.read(workflow(f"- uses: actions/checkout@v5\n{elsewhere}"), failed="Run pytest")
    assert result.check is not None
    assert any("it checks the repository out into the folder src" in note for note in result.notes)


async def test_a_variable_that_only_github_knows_is_told_where_a_step_names_it(walks: Walks) -> None:
    result = await walks.read(
        workflow('- {name: Go, run: "echo $GITHUB_RUN_NUMBER $GITHUB_WORKFLOW $GITHUB_MINE"}'), failed="Go"
    )
    assert [note for note in result.notes if "GITHUB" in note] == [
        "step 1: the value of GITHUB_RUN_NUMBER is not known here, so it is not set"
    ]


async def test_a_step_runs_without_its_secrets_unless_ci_reports_that_the_job_failed(walks: Walks) -> None:
    text = workflow(
        """
        - name: Test
          env: {KEPT: "1", TOKEN: "${{ secrets.UPLOAD }}"}
          run: pytest -q
        """
    )
    leg, project = await walks._leg(text, {}, None, ())
    red = read_steps(leg, project, no_files)
    assert does(red) == [("1", "left out")]
    result = read_steps(replace(leg, is_red=False), project, no_files)
    assert does(result) == [("1", "runs")]
    assert [check.env for check in result.checks] == [{"KEPT": "1"}]
    assert "the variable TOKEN is left out: it needs the secret `UPLOAD`" in result.notes


async def test_a_step_that_fails_for_want_of_a_secret_is_left_out_with_its_name(walks: Walks) -> None:
    text = workflow(
        """
        - name: Test
          env: {TOKEN: "${{ secrets.UPLOAD }}"}
          run: python -c "import os; os.environ['TOKEN']"
        """
    )
    result = await walks.run(text, is_red=False)
    assert does(result) == [("1", "left out")]
    assert result.ending is not None
    assert result.ending.outcome is Outcome.NEEDS_SECRET
    assert "needs the secret `UPLOAD`" in result.ending.reason


@pytest.mark.parametrize(
    ("body", "runner", "does_it"),
    [
        ("assert 'UNKNOWN_TOKEN' == 'INVALID_TOKEN'", "pytest -q", "fails"),
        ("assert 'a' == 'TOKEN'", "pytest -q", "fails"),
        ("raise ValueError('INVALID_TOKEN')", "python -c 'import test_it; test_it.test_it()'", "fails"),
        ("import os; os.environ['TOKEN']", "pytest -q", "left out"),
        ("import os; os.environ['TOKEN']\ndef test_red(): assert 0", "pytest -q", "fails"),
    ],
)
async def test_a_failure_that_only_looks_like_the_name_of_a_missing_secret_is_shown(
    walks: Walks, body: str, runner: str, does_it: str
) -> None:
    text = workflow(f"""
        - name: Test
          env: {{TOKEN: "${{{{ secrets.UPLOAD }}}}"}}
          run: {runner}
        """)
    result = await walks.run(text, {"test_it.py": f"def test_it(): {body}\n"}, is_red=False)
    assert does(result) == [("1", does_it)]


async def test_a_set_up_step_without_the_file_that_it_would_download_is_left_out(walks: Walks) -> None:
    text = workflow(
        """
        - name: Fetch
          run: |
            curl -sf https://example.com/tool > tool
            chmod +x tool
        - run: echo ok
        """
    )
    result = await walks.run(text)
    assert does(result) == [("1", "left out"), ("2", "runs")]
    assert any("without a file that its commands which are left out may provide" in note for note in result.notes)


async def test_a_set_up_step_that_needs_the_network_is_not_tried_again_with_the_steps_before_it(walks: Walks) -> None:
    text = workflow(
        """
        - run: touch a
        - name: Fetch
          run: python -c "import socket; socket.create_connection(('example.com', 80))"
        - name: Fails
          run: exit 3
        """
    )
    await walks.run(text)
    assert walks.ran == ["Run touch a", "Fetch", "Fails", "Fails"]
