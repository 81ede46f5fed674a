"""What all tests share: which skips are allowed in CI."""

from __future__ import annotations

import pytest

collect_ignore = ["data"]  # repositories with tests of their own
SKIPPED = 6  # exit status of its own, beyond pytest's: running failed tests again would not mend it


class Skips:
    """Every test or module that was skipped without being marked `optional`."""

    def __init__(self) -> None:
        self.nodeids: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # An expected failure is also reported as skipped; it did run.
        if report.skipped and not hasattr(report, "wasxfail") and "optional" not in report.keywords:
            self.nodeids[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.nodeids[report.nodeid] = None

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.nodeids and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = SKIPPED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.nodeids:
            terminalreporter.section("skipped, but not marked optional", red=True)
            for nodeid in self.nodeids:
                terminalreporter.line(nodeid)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forbid-skips", action="store_true", help="Fail when a test that is not marked `optional` was skipped (for CI)."
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--forbid-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(), "skips")
