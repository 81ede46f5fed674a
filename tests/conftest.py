"""What all tests share: which skips are allowed in CI, and in which order their files are begun."""

from __future__ import annotations

from pathlib import Path

import pytest

collect_ignore = ["data"]  # repositories with tests of their own
TESTS = Path(__file__).parent
LONG = ("story", "chaos", "deploy")  # folders whose files take minutes; begun last, one of them would keep one core to the end
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files keep their order otherwise (`make test` has xdist keep it too: by itself it begins those with the most tests)."""
    items.sort(key=lambda item: not any(item.path.is_relative_to(TESTS / folder) for folder in LONG))
