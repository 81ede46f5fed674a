"""One reader per tool: each knows its tool's output, and nothing of jobs, steps or other readers.

The order counts: test runners come first and own all lines from their start to their end, because a test can print what looks
like another tool's output.
"""

from agent.ci.logs.model import Reader
from agent.ci.logs.readers import dependencies, findings, junit_xml, node_test, pytest, running, test_runners

# Coverage thresholds are inside the output of pytest and jest.
READERS: tuple[Reader, ...] = (
    test_runners.read_coverage, junit_xml.read, pytest.read, test_runners.read_unittest, test_runners.read_doctest,
    test_runners.read_vitest, test_runners.read_jest, test_runners.read_mocha, node_test.read, test_runners.read_go,
    test_runners.read_cargo, test_runners.read_surefire, findings.read_tsc, findings.read_eslint, findings.read_python,
    findings.read_unformatted, findings.read_compilers, running.read_hooks, dependencies.read,
)  # fmt: skip
LAST: tuple[Reader, ...] = (running.read_summaries, running.read_traceback)  # used if no other reader reports a failure
