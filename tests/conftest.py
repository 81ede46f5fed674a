"""What all tests share: the tiers, the order, and which skips CI allows.

`--tier quick` leaves out what is marked `long`, `--tier ci` only what is not in the part of it that `tests/tiers.py` names,
`--tier all` nothing. What was left out is listed at the end of the run.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import tiers

collect_ignore = ["data"]  # repositories with tests of their own
SKIPPED = 6  # an exit status of its own, beyond pytest's

# rustup looks for its toolchains in HOME; under another HOME they still lie beside the `.cargo` that is on the PATH.
if (cargo := shutil.which("cargo")) and (home := Path(cargo).parents[2] / ".rustup").is_dir():
    os.environ.setdefault("RUSTUP_HOME", str(home))


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


class Tier:
    """Deselects what the tier leaves out, and lists it at the end."""

    def __init__(self, name: tiers.Name) -> None:
        self.name = name
        self.left_out: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        out = [item for item in items if not tiers.includes(self.name, item)]
        self.left_out = Counter(item.nodeid.partition("::")[0] for item in out)
        is_whole = [Path(arg).name for arg in config.args] == ["tests"] and not config.option.keyword
        if self.name == "ci" and is_whole and (unknown := tiers.unknown_names(items)):
            # Now, not at the end of half an hour.
            raise pytest.UsageError(f"tests/tiers.py names what is no such test: {', '.join(unknown)}")
        if out:
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item in items if tiers.includes(self.name, item)]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput.update(left_out=dict(self.left_out))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist collected, not this process."""
        self.left_out = Counter(getattr(node, "workeroutput", {}).get("left_out", self.left_out))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left_out:
            terminalreporter.section(f"left out of tier {self.name}: {self.left_out.total()} tests (make test-all runs them)")
            for file, count in sorted(self.left_out.items()):
                terminalreporter.line(f"{count:5} {file}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=tiers.NAMES, default="all", help="Which tests to run (default: all).")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="Shuffle the modules, and the tests within each.")
    parser.addoption(
        "--forbid-skips", action="store_true", help="Fail when a test that is not marked `optional` was skipped (for CI)."
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--tier") != "all":
        config.pluginmanager.register(Tier(config.getoption("--tier")), "tier")
    if config.getoption("--forbid-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(), "skips")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slow modules first: started last, one of them would keep one core busy alone."""
    tiers.mark(items)
    seed = config.getoption("--shuffle")
    if seed is None:
        items.sort(key=lambda item: not tiers.is_slow(item))
        return
    shuffled = random.Random(seed)
    ranks = {path: shuffled.random() for path in sorted({item.path for item in items})}
    items[:] = sorted(items, key=lambda item: (ranks[item.path], shuffled.random()))
