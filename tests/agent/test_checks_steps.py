"""Checks as steps of a job: what comes before them in the same run, their shells, and what they leave behind."""

from dataclasses import replace

import pytest

from agent.checks import Runner
from agent.oracle import EXIT
from agent.task import Check, Step, Verdict
from sandbox.base import Sandbox
from tests.agent.conftest import Repository

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEST = "import built, os\n\ndef test_built(): assert built.VALUE == os.environ['WANTED']\n"
BUILD = Step("Build", 'echo "VALUE = \'$(cat source.txt)\'" > built.py\necho WANTED=right >> "$GITHUB_ENV"')
CHECK = Check("tests", "python -m pytest -q", "pytest", before=(BUILD,))


async def test_what_the_steps_before_make_follows_from_the_files_of_each_run(sandbox: Sandbox, repository: Repository) -> None:
    runner = Runner(sandbox)
    workspace = await repository({"source.txt": "right", "test_built.py": TEST})
    run = await runner.run(workspace, CHECK)
    assert list(run.verdicts.values()) == [Verdict.PASSED], run.output
    await workspace.write("source.txt", b"wrong")
    assert list((await runner.run(workspace, CHECK)).verdicts.values()) == [Verdict.FAILED]


async def test_a_step_before_that_does_not_pass_is_what_failed(sandbox: Sandbox, repository: Repository) -> None:
    broken = replace(CHECK, before=(Step("Set up", "echo trying\nexit 3"), BUILD))
    run = await Runner(sandbox).run(await repository({"test_built.py": TEST}), broken)
    assert (run.stopped_at, run.exit_code, run.verdicts) == ("Set up", 3, {EXIT: Verdict.ERROR})
    assert run.output == 'trying\n\nthe step "Set up" before the check did not pass'


async def test_a_step_that_hangs_ends_with_the_time_of_its_check(sandbox: Sandbox, repository: Repository) -> None:
    hanging = replace(CHECK, before=(Step("Wait", "sleep 60 & sleep 60"),))
    run = await Runner(sandbox).run(await repository({"test_built.py": TEST}), hanging, timeout=1.0)
    assert (run.ending, run.stopped_at, run.verdicts) == ("timeout", "Wait", {})


async def test_what_a_step_leaves_is_handed_on(sandbox: Sandbox, repository: Repository) -> None:
    script = """
        echo "one=1" >> "$GITHUB_OUTPUT"
        printf 'TEXT<<END\\na\\nb\\nEND\\n' >> "$GITHUB_ENV"
        mkdir -p bin && echo "$PWD/bin" >> "$GITHUB_PATH"
    """
    ran = await Runner(sandbox).step(await repository({}), Check("step", script, "exit"))
    assert ran.left == {"output": "one=1\n", "env": "TEXT<<END\na\nb\nEND\n", "path": "/repo/bin\n"}


async def test_where_a_step_finds_a_program_is_where_it_still_is_in_the_next_run(
    sandbox: Sandbox, repository: Repository
) -> None:
    runner, workspace = Runner(sandbox), await repository({})
    ran = await runner.step(workspace, Check("find", 'command -v python coverage uv >> "$GITHUB_OUTPUT"', "exit"))
    python, coverage, uv = ran.left["output"].split()
    assert uv == "uv"  # a runner that only stands in here has no place of its own
    again = await runner.run(workspace, Check("use", f"{python} -c '' && {coverage} --version", "exit"))
    assert again.exit_code == 0, again.output


async def test_programs_on_a_path_of_an_earlier_step_are_found_but_never_in_the_place_of_what_observes(
    sandbox: Sandbox, repository: Repository
) -> None:
    tool = """
        mkdir bin; for name in python hello; do printf '#!/bin/sh\necho mine\n' > bin/$name; done
        chmod +x bin/*; echo "$PWD/bin" >> "$GITHUB_PATH"
    """
    check = Check("step", "hello; python --version", "exit", before=(Step("Tool", tool),))
    run = await Runner(sandbox).run(await repository({}), check)
    assert run.output.startswith("mine\nPython 3")


@pytest.mark.parametrize(
    ("shell", "script", "exit_code"),
    [
        ("bash", "false | true\n", 1),
        ("bash -e {0}", "false | true\n", 0),
        ("bash -e {0}", "false\ntrue\n", 1),
        ("bash {0}", "false\ntrue\n", 0),
        ("sh", "false\ntrue\n", 1),
        ("python", "import sys\nsys.exit(4)\n", 4),
        ("cat {0}", "anything", 0),
        ("perl {0}", "exit 5;", 5),
    ],
)
async def test_a_shell_is_started_as_the_workflow_says(
    sandbox: Sandbox, repository: Repository, shell: str, script: str, exit_code: int
) -> None:
    run = await Runner(sandbox).run(await repository({}), Check("step", script, "exit", shell=shell))
    assert run.exit_code == exit_code, run.output


async def test_a_link_in_the_place_of_a_step_s_file_is_not_followed(sandbox: Sandbox, repository: Repository) -> None:
    script = 'ln -sf /etc/passwd "$GITHUB_OUTPUT"; rm "$GITHUB_ENV"; mkfifo "$GITHUB_ENV"; rm "$GITHUB_PATH"'
    ran = await Runner(sandbox).step(await repository({}), Check("step", script, "exit"))
    assert (ran.run.exit_code, ran.left) == (0, {})
