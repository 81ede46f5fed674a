"""Follows programs that run `go test` and only show its results in another way."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from agent.ci.runners.context import Again, Followed, ShellContext
from agent.ci.runners.options import split_options

_GOTESTSUM_VALUED = (
    "-f", "--format", "--format-icons", "--jsonfile", "--jsonfile-timing-events", "--junitfile",
    "--junitfile-project-name", "--junitfile-testcase-classname", "--junitfile-testsuite-name", "--max-fails", "--packages",
    "--post-run-command", "--rerun-fails-max-failures", "--rerun-fails-report",
)  # fmt: skip


def richgo(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    return context.result(shlex.join(["go", *words[1:]])) if words[1:2] == ["test"] else None


def gotestsum(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    options, arguments = split_options(words[1:], _GOTESTSUM_VALUED)
    if arguments[:1] == ["tool"] or options.has("--raw-command", "--version", "--help"):
        return None
    return context.result(shlex.join(["go", "test", *(arguments or ["./..."]), *options.names("--packages")]))
