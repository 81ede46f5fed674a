"""One reader per tool: each knows its tool's output, and nothing of jobs, steps or other readers.

The order counts: test runners come first and own all lines from their start to their end, because a test can print what looks
like another tool's output.
"""

from agent.ci.logs.model import Reader
from agent.ci.logs.readers import (
    cargo_test,
    compilers,
    coverage,
    dependencies,
    doctest,
    eslint,
    formatting,
    go_test,
    jest,
    junit_xml,
    mocha,
    node_test,
    pytest,
    python_findings,
    running,
    surefire,
    tracebacks,
    tsc,
    unittest,
    vitest,
)

# Coverage thresholds are inside the output of pytest and jest.
READERS: tuple[Reader, ...] = (
    coverage.read, junit_xml.read, pytest.read, unittest.read, doctest.read, vitest.read, jest.read, mocha.read, node_test.read,
    go_test.read, cargo_test.read, surefire.read, tsc.read, eslint.read, python_findings.read, formatting.read, compilers.read,
    running.read_hooks, dependencies.read,
)  # fmt: skip
LAST: tuple[Reader, ...] = (running.read_summaries, tracebacks.read)  # used where no other reader reports a failure
