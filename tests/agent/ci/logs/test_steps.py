"""What the runner's own lines of a log tell."""

from __future__ import annotations

from agent.ci.logs import read_merge

CHECKOUT = """\
2026-11-27T10:00:00.0000000Z ##[group]Checking out the ref
2026-11-27T10:00:00.1000000Z HEAD is now at {short} {subject}
2026-11-27T10:00:00.1000000Z ##[endgroup]
2026-11-27T10:00:00.2000000Z [command]/usr/bin/git log -1 --format=%H
2026-11-27T10:00:00.3000000Z {sha}
"""


def test_the_merge_that_a_job_checked_out_is_read() -> None:
    sha, merge = "a1" * 20, f"Merge {'b' * 40} into {'c' * 40}"
    assert read_merge(CHECKOUT.format(short=sha[:7], sha=sha, subject=merge)) == sha
    assert read_merge(CHECKOUT.format(short=sha[:7], sha=f"'{sha}'", subject=merge)) == sha
    assert read_merge(CHECKOUT.format(short=sha[:7], sha=sha, subject="Fix the boiler")) is None
    assert read_merge("") is None
