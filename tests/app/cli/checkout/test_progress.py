"""What a person sees while it works."""

from __future__ import annotations

import asyncio
import io
import time

import pytest
from rich.console import Console

from agent.checks.runner import WATCH
from agent.contract.events import StepDone, StepStarted
from app.cli.checkout import local_engine as screens
from app.cli.checkout.local_engine import Screen


async def shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    """What is written while a step takes a while."""
    monkeypatch.setattr(screens, "QUIET", 0.05)
    monkeypatch.setattr(screens, "BRIEF", 0.0)
    written = io.StringIO()
    screen = Screen(Console(file=written, force_terminal=terminal, width=200), time.monotonic())
    async with screen.working("Reproducing"):
        await screen.emit(StepStarted(step="install", text="Installing the dependencies"))
        await screen.emit(StepDone(step="install", text="Python is ready", seconds=0.1))
        await screen.emit(StepStarted(step="reproduce", text="Running `tests`"))
        for _ in range(100):
            await asyncio.sleep(0.05)
            if "Running `tests`, " in written.getvalue():
                break
    ended = written.getvalue()
    await asyncio.sleep(0.15)
    assert written.getvalue() == ended, "it goes on after the end"
    return ended


async def test_a_step_that_takes_long_is_told_in_lines_where_the_output_is_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (await shown(monkeypatch, terminal=False)).splitlines()
    assert [line.partition(" s  ")[2] for line in lines[:3]] == [
        "Installing the dependencies", "Python is ready", "Running `tests`"
    ]  # fmt: skip
    assert lines[3].endswith("still running: Running `tests`, 0 s")


async def test_the_test_that_takes_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "QUIET", 0.05)
    written = io.StringIO()
    screen = Screen(Console(file=written, width=200), time.monotonic())
    async with screen.working("Reproducing"):
        watch = WATCH.get()
        assert watch is not None
        watch("test_a.py::test_b")
        for _ in range(100):
            await asyncio.sleep(0.05)
            if "still running" in written.getvalue():
                break
    assert written.getvalue().splitlines()[0].endswith("still running: Reproducing, 0 s, in test_a.py::test_b")


async def test_on_a_terminal_the_status_line_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    said = await shown(monkeypatch, terminal=True)
    assert "Running `tests`, 0 s …" in said
    assert "still running" not in said


async def test_on_a_terminal_the_status_line_follows_quick_steps() -> None:
    written = io.StringIO()
    screen = Screen(Console(file=written, force_terminal=True, width=200), time.monotonic())
    async with screen.working("Writing"):
        await screen.emit(StepStarted(step="weigh", text="Weighing how sure the patch is"))
        await asyncio.sleep(0.3)
    assert "Weighing how sure the patch is …" in written.getvalue()
