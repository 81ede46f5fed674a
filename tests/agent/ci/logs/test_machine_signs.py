"""What a step's output says of a program that could not be started."""

from __future__ import annotations

import pytest

from agent.ci.logs.machine_signs import absent_program, by_sandbox


@pytest.mark.parametrize(
    ("output", "exit_code", "program"),
    [
        ("bash: line 2: go: command not found", 127, "go"),
        ("> a@1.0.0 test\n> xo && ava\n\nsh: 1: xo: not found", 127, "xo"),
        ("make: go: No such file or directory\nmake: *** [Makefile:31: deps] Error 127", 2, "go"),
        ("scripts/test.sh: line 3: cargo: command not found", 127, "cargo"),
        ("\"Run it\" cannot be started: [Errno 2] No such file or directory: 'msys2'", 127, "msys2"),
        ("py27: failed with could not find python interpreter matching any of the specs py27\n  py27: FAIL code 1", 1, "py27"),
        ("ERROR:  py27: InterpreterNotFound: python2.7", 1, "python2.7"),
        ("nox > Session tests-2.7 failed: Python interpreter 2.7 not found.", 1, "python2.7"),
        ("nox > Session tests-2.7 skipped: Python interpreter 2.7 not found.", 1, ""),
        (
            "py27: could not find python interpreter matching any of the specs py27\n  py27: FAIL code 1\n  py39: FAIL code 1",
            1,
            "",
        ),
        ("sh: 1: xo: not found\n3 tests failed", 1, ""),
        ("cat: data: No such file or directory", 1, ""),
    ],
)
def test_the_program_that_ended_a_step(output: str, exit_code: int, program: str) -> None:
    assert absent_program(output.splitlines(), exit_code) == program
    assert program == "" or by_sandbox(output.splitlines(), exit_code) == f"the program {program}"
