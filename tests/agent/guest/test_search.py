"""The driver of the search, between its server and the changes that wait for a fresh import."""

import json
import os
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.guest import search
from agent.guest.trial.forks import Write


class Driver(search.Driver):
    """Its fresh imports only tell that they began."""

    def try_fresh_import(self, candidate: dict[str, Any]) -> None:
        self.report({"event": "import"})
        os.write(self.began, b".")
        time.sleep(0.01)


def candidate(number: int, line: int, score: float) -> dict[str, Any]:
    return {"id": number, "path": "m.py", "line": line, "score": score}


READY = ["ready", 1, ["test_m.py::test"], [], {}, []]
FRONTIER = ["at", 0.3, [10, 0.1], [0, 0.0]]


def events(
    server: Callable[[Write, int, int], None], waiting: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """What the driver tells with this server, which gets what it writes with, what tells it that an import began, and `go`."""
    reading, began = os.pipe()
    monkeypatch.setattr(search, "serve", lambda *given: lambda write: server(write, reading, given[-1]))
    plan = {"seconds": 2.0, "after_hit": 10, "after_hit_seconds": 0.5, "red": ["test_m.py::test"], "reader": "pytest"}
    reader, writer = os.pipe()
    found = candidate(0, 1, 0.2)
    driver = Driver(plan, str(root), [*(candidate(number, 0, 0.5) for number in range(1, waiting)), found], writer)
    driver.began = began
    driver.run()
    os.close(writer)
    with os.fdopen(reader) as told:
        return [json.loads(line) for line in told]


def test_what_the_server_finds_is_read_while_likelier_changes_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def server(write: Write, began: int, go: int) -> None:
        write(READY)
        write(FRONTIER)
        os.read(began, 1)
        write(["plausible", [0], 1, [0, 0]])
        write(["done", True])
        time.sleep(30)

    kinds = [event["event"] for event in events(server, 30, tmp_path, monkeypatch)]
    assert "import" in kinds[kinds.index("plausible") :], kinds


def test_a_search_whose_process_dies_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def server(write: Write, began: int, go: int) -> None:
        write(READY)
        write(FRONTIER)

    *_, done = events(server, 3, tmp_path, monkeypatch)
    assert (done["event"], done["exhausted"]) == ("done", False)
    assert done["why"].startswith("its process died")


def test_what_code_under_test_writes_to_the_driver_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def server(write: Write, began: int, go: int) -> None:
        write(READY)
        for garbage in (["at"], ["plausible", [], 1], ["plausible", [99], 1, [0, 0]], "text", {"a": 1}, [[]], []):
            write(garbage)
        write(["plausible", [0], 1, [0, 0]])
        write(["done", True])

    told = events(server, 3, tmp_path, monkeypatch)
    assert [event["id"] for event in told if event["event"] == "plausible"] == [0]
    assert told[-1]["exhausted"]


def test_no_import_begins_while_the_server_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def server(write: Write, began: int, go: int) -> None:
        write(READY)
        write(FRONTIER)
        os.read(began, 1)
        write(["alone"])
        os.read(go, 1)
        while select.select([began], [], [], 0)[0]:
            os.read(began, 1)
        if not select.select([began], [], [], 0.2)[0]:
            write(["plausible", [0], 1, [0, 0]])
        write(["free"])
        os.read(began, 1)
        write(["done", True])

    kinds = [event["event"] for event in events(server, 200, tmp_path, monkeypatch)]
    assert "import" in kinds[: kinds.index("plausible")], kinds
    assert "import" in kinds[kinds.index("plausible") :], kinds
