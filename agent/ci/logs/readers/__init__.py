"""One reader a tool: each knows what its tool prints, and nothing of jobs, steps or of the other readers.

In order: those that run tests come first and own what stands between their beginning and their end, as whatever a test
prints is the test's word and not a tool's.
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
    scripts,
    surefire,
    tsc,
    unittest,
    vitest,
)

# Coverage's threshold stands inside of pytest's and jest's own output.
READERS: tuple[Reader, ...] = (
    coverage.read, junit_xml.read, pytest.read, unittest.read, doctest.read, vitest.read, jest.read, mocha.read, node_test.read,
    go_test.read, cargo_test.read, surefire.read, tsc.read, eslint.read, python_findings.read, formatting.read, compilers.read,
    running.read_hooks, dependencies.read,
)  # fmt: skip
LAST: tuple[Reader, ...] = (running.read_summaries, scripts.read)  # asked where nobody else told of a failure
