import pytest

from agent.ci.logs import excerpt


def stamped(*lines: str) -> str:
    return "\ufeff" + "\n".join(f"2026-01-02T03:04:05.1234567Z {line}" for line in lines)


def test_the_failing_steps_own_failure_is_kept() -> None:
    log = stamped(
        "##[group]Run pip install x",
        "an error that is not ours",
        "##[endgroup]",
        "##[group]Run pytest",
        "shell: /usr/bin/bash -e {0}",
        "##[endgroup]",
        *["tests/test_a.py ....."] * 1000,
        "=================== FAILURES ===================",
        "\x1b[31mE   assert 1 == 2\x1b[0m",
        "##[error]Process completed with exit code 1.",
        "Post job cleanup.",
    )
    assert excerpt(log).split("\n")[1:] == ["E   assert 1 == 2", "Process completed with exit code 1."]


@pytest.mark.long
def test_a_huge_or_strange_log_is_bounded() -> None:
    assert len(excerpt("x" * 50_000_000, limit=500)) <= 500
    assert len(excerpt("\n" * 1_000_000 + "boom\x00\x1b[2J", limit=500)) <= 500
    assert excerpt("") == ""
