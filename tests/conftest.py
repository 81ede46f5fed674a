"""What all tests share: which skips are allowed in CI."""

from __future__ import annotations

import pytest

OPTIONAL = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forbid-skips", action="store_true", help="Fail when a test that is not marked `optional` was skipped (for CI)."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OPTIONAL] = []


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    outcome = yield
    report = outcome.get_result()
    # An expected failure is also reported as skipped; it did run.
    if report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("optional") is None:
        item.config.stash[OPTIONAL].append(item.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        report.session_skipped = True  # type: ignore[attr-defined]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    skipped = session.config.stash[OPTIONAL]
    if session.config.getoption("--forbid-skips") and skipped and exitstatus == 0:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = config.stash[OPTIONAL]
    if config.getoption("--forbid-skips") and skipped:
        terminalreporter.section("skipped, but not marked optional", red=True)
        for nodeid in skipped:
            terminalreporter.line(nodeid)
