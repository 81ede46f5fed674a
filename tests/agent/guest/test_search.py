"""The driver of the search, between its server and the changes that wait for a fresh import."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.guest import search
from agent.guest.trial.forks import Write


class Driver(search.Driver):
    def try_fresh_import(self, candidate: dict[str, Any]) -> None:
        time.sleep(0.1)
        self.fresh += 1


WAITING = [{"id": number, "path": "m.py", "line": 0, "score": 0.5} for number in range(1, 100)]
FOUND = {"id": 0, "path": "m.py", "line": 1, "score": 0.2}
READY = ["ready", 1, ["test_m.py::test"], [], {}, []]


def events(server: Callable[[Write], None], root: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the driver tells with this server."""
    monkeypatch.setattr(search, "serve", lambda *_: server)
    plan = {"seconds": 3.0, "after_hit": 10, "after_hit_seconds": 0.5, "red": ["test_m.py::test"], "reader": "pytest"}
    reader, writer = os.pipe()
    Driver(plan, str(root), [*WAITING, FOUND], writer).run()
    os.close(writer)
    with os.fdopen(reader) as told:
        return [json.loads(line) for line in told]


def test_what_the_server_finds_is_read_while_likelier_changes_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def server(write: Write) -> None:
        write(READY)
        write(["at", 0.3, [10, 0.1], [0, 0.0]])
        time.sleep(0.5)  # by now, the driver tries the likelier ones
        write(["plausible", [0], 1, [0, 0]])
        write(["done", True])
        time.sleep(30)

    told = events(server, tmp_path, monkeypatch)
    assert [event["id"] for event in told if event["event"] == "plausible"] == [0]
    assert told[-1]["fresh"][0] < len(WAITING)


def test_a_search_whose_process_dies_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def server(write: Write) -> None:
        write(READY)
        write(["at", 0.3, [10, 0.1], [0, 0.0]])

    *_, done = events(server, tmp_path, monkeypatch)
    assert (done["event"], done["exhausted"], done["why"]) == ("done", False, "its process died")
