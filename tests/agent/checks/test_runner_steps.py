"""Checks as steps of a job: what comes before them in the same run, their shells, and what they leave behind."""

from dataclasses import replace

import pytest

from agent.checks.runner import Runner
from agent.contract.verdicts import EXIT, Check, Step, Verdict
from sandbox.base import Sandbox
from tests.agent.conftest import Repository

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEST = "import built, os\n\ndef test_built(): assert built.VALUE == os.environ['WANTED']\n"
BUILD = Step("Build", 'echo "VALUE = \'$(cat source.txt)\'" > built.py\necho WANTED=right >> "$GITHUB_ENV"')
CHECK = Check("tests", "python -m pytest -q", "pytest", before=(BUILD,))


@pytest.mark.long
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
    assert run.output == 'trying\n\nStep "Set up", which runs before the check, failed.'


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
    assert ran.exports == {"output": "one=1\n", "env": "TEXT<<END\na\nb\nEND\n", "path": "/repo/bin\n"}


async def test_where_a_step_finds_a_program_is_where_it_still_is_in_the_next_run(
    sandbox: Sandbox, repository: Repository
) -> None:
    runner, workspace = Runner(sandbox), await repository({})
    ran = await runner.step(workspace, Check("find", 'command -v python coverage uv >> "$GITHUB_OUTPUT"', "exit"))
    python, coverage, uv = ran.exports["output"].split()
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
    assert (ran.run.exit_code, ran.exports) == (0, {})


async def test_what_comes_after_a_step_that_may_fail_runs(sandbox: Sandbox, repository: Repository) -> None:
    optional = Step("Optional", 'echo A=1 >> "$GITHUB_ENV"; exit 3', may_fail=True)
    run = await Runner(sandbox).run(await repository({}), Check("step", "echo $A", "exit", before=(optional,)))
    assert (run.exit_code, run.stopped_at, run.output) == (0, "", "1")


async def test_the_nearer_a_variable_is_set_the_more_it_counts(sandbox: Sandbox, repository: Repository) -> None:
    around = {"A": "job", "B": "job", "C": "job"}
    before = Step("Set", 'echo $A >> seen; for n in B C; do echo "$n=step" >> "$GITHUB_ENV"; done', outer=around)
    check = Check("step", "echo $(cat seen) $A $B $C", "exit", env={"C": "own"}, outer=around, before=(before,))
    run = await Runner(sandbox).run(await repository({}), check)
    assert run.output == "job job step own"


@pytest.mark.parametrize(
    "step",
    [
        Step("S", "Write-Output hello", shell="pwsh -command . '{0}'"),
        Step("S", "true", shell=" "),
        Step("S", "true", cwd="nowhere"),
        Step("S", "echo a\0b"),
        Step("S", "true", env={"A=B": "C"}),
        Step("S", "true", env={"A": "a" * 200_000}),
    ],
    ids=["no such shell", "no shell", "no such folder", "a NUL", "no name", "too long a value"],
)
async def test_a_step_that_cannot_be_started_is_what_failed(sandbox: Sandbox, repository: Repository, step: Step) -> None:
    run = await Runner(sandbox).run(await repository({}), replace(CHECK, before=(step,)))
    assert (run.ending, run.exit_code, run.stopped_at) == ("finished", 127, "S"), run.output
    assert '"S" cannot be started: ' in run.output


async def test_a_step_after_one_that_leaves_too_much_is_what_failed(sandbox: Sandbox, repository: Repository) -> None:
    large = Step("Large", "printf 'A=%0200000d\n' 1 >> \"$GITHUB_ENV\"")
    run = await Runner(sandbox).run(await repository({}), replace(CHECK, before=(large, Step("Next", "true"))))
    assert (run.exit_code, run.stopped_at) == (127, "Next")


async def test_a_text_that_is_too_long_for_an_argument_runs(sandbox: Sandbox, repository: Repository) -> None:
    long = "#" * 200_000 + "\n"
    before = (Step("One", long + "echo one >> seen"), Step("Two", long + "open('seen', 'a').write('two')", shell="python"))
    run = await Runner(sandbox).run(await repository({}), Check("step", long + "cat seen", "exit", before=before))
    assert (run.exit_code, run.output) == (0, "one\ntwo")


async def test_a_step_leaves_nothing_that_runs_and_knows_no_place_of_the_check(
    sandbox: Sandbox, repository: Repository
) -> None:
    hidden = '(env -i setsid sleep 900 > /dev/null 2>&1 &)\ndirname "$(dirname "$GITHUB_ENV")" > place\ncat place'
    seen = '! grep -x sleep /proc/[0-9]*/comm\ntest ! -e "$(cat place)"\ntest "${GITHUB_ENV#$(cat place)}" = "$GITHUB_ENV"'
    check = Check("step", seen, "exit", shell="bash -e {0}", before=(Step("Hide", hidden),))
    run = await Runner(sandbox).run(await repository({}), check)
    assert run.exit_code == 0, run.output


async def test_what_a_step_puts_into_the_place_of_our_own_programs_is_gone(sandbox: Sandbox, repository: Repository) -> None:
    exchange = Step("Exchange", 'own=$(dirname "$(command -v python)"); printf "#!/bin/sh\\necho mine\\n" > "$own/python"')
    run = await Runner(sandbox).run(await repository({}), Check("step", "python --version", "exit", before=(exchange,)))
    assert run.output.startswith("Python 3")


@pytest.mark.long
async def test_what_steps_do_to_what_decides_is_told(sandbox: Sandbox, repository: Repository) -> None:
    files = {"test_a.py": "def test_a(): assert True\n", "tests/data.txt": "1", "README": "", "Makefile": "a:\n", "bin/b": ""}
    script = """
        echo "# more" >> test_a.py; rm tests/data.txt; echo more >> README; echo "[pytest]" > pytest.ini
        mkdir tools; printf '#!/bin/sh' > tools/sh; chmod +x tools/sh; echo "$PWD/tools" >> "$GITHUB_PATH"
        printf 'VERSION=%s\nBASH_ENV=/x\nARGS=-q\nNODE_OPTIONS=a\nSELFHEAL_GUEST=a\n' "$RANDOM" >> "$GITHUB_ENV"
        echo "a=b" > ~/.npmrc
    """
    check = Check("tests", "python -m pytest $ARGS", "pytest", before=(Step("Make", script),))
    runner = Runner(sandbox)
    one, other = [await runner.run(await repository(files), check) for _ in range(2)]
    assert sorted(said.partition(" (")[0] for said in one.prepared) == [
        "changed test_a.py", "exported ARGS", "exported BASH_ENV", "exported VERSION", "led to tools", "made pytest.ini",
        "made ~/.npmrc", "placed tools/sh", "removed tests/data.txt",
    ]  # fmt: skip
    assert one.prepared == other.prepared, "the same steps do the same"


async def test_who_only_says_that_it_has_ended_has_not_told_all(sandbox: Sandbox, repository: Repository) -> None:
    script = """\
import json, os, socket

channel = socket.socket(socket.AF_UNIX)
channel.connect(os.path.join(os.environ["SELFHEAL_GUEST"], "channel"))
for told in ({"kind": "hello"}, {"kind": "end", "marks": []}, {"kind": "bye"}):
    channel.sendall(json.dumps(dict(told, key="k")).encode() + b"\\n")
"""
    runner = Runner(sandbox)
    workspace = await repository({"say.py": script, "test_a.py": "def test_a(): pass\n"})
    assert not (await runner.run(workspace, Check("tests", "python say.py", "pytest"))).told_all
    assert (await runner.run(workspace, Check("tests", "python -m pytest", "pytest"))).told_all
