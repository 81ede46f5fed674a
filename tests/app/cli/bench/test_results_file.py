"""The file of results: what is taken over from an earlier run, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.bench.lab import BadInput
from agent.bench.score import Entry
from app.cli.bench.results_file import Header, ResultsNotSaved, left_out, open_results, stored

HEAD = Header("humanevalfix", {"oracle": "all", "model": "none"})


def entry(id_: str, seconds: float = 1.0, error: str | None = None) -> Entry:
    return Entry(id=id_, group="g", outcome="healed", plausible=True, seconds=seconds, details={"n": [1, None]}, error=error)


def test_entries_come_back_as_they_were_and_the_last_of_a_task_counts(tmp_path: Path) -> None:
    file = tmp_path / "results"
    state = open_results(file, HEAD)
    assert not state.known
    for one in (entry("a"), entry("b"), entry("a", 2.0)):
        state.append(one)
    assert dict(open_results(file, HEAD).known) == {"a": entry("a", 2.0), "b": entry("b")}


def test_what_could_not_be_measured_is_tried_again(tmp_path: Path) -> None:
    state = open_results(tmp_path / "results", HEAD)
    state.append(entry("a", error="the sandbox failed"))
    state.append(entry("b"))
    assert list(open_results(tmp_path / "results", HEAD).known) == ["b"]
    assert [one.error for one in stored(tmp_path / "results")] == ["the sandbox failed", None]
    state.append(entry("a"))
    assert [one.error for one in stored(tmp_path / "results")] == [None, None]


def test_a_line_that_was_cut_off_is_left_out_and_spoils_no_other(tmp_path: Path) -> None:
    file = tmp_path / "results"
    open_results(file, HEAD).append(entry("a"))
    with file.open("ab") as stream:
        stream.write(b'{"id":"b","gro')
    state = open_results(file, HEAD)
    state.append(entry("c"))
    assert list(open_results(file, HEAD).known) == ["a", "c"]


def test_lines_that_a_report_leaves_out_are_named(tmp_path: Path) -> None:
    file = tmp_path / "results"
    state = open_results(file, HEAD)
    state.append(entry("a"))
    assert left_out(file) == ""
    with file.open("ab") as stream:
        stream.write(b'{"id":"b","gro\n{"id":"\xff"}\n')
    state.append(entry("c"))
    assert left_out(file) == f"{file}: left out 2 lines that cannot be read: 3, 4."
    assert [one.id for one in stored(file)] == ["a", "c"]


@pytest.mark.parametrize(
    "other", [Header("quixbugs", HEAD.options), Header("humanevalfix", {"oracle": "half", "model": "none"})]
)
def test_results_of_something_else_are_never_mixed(other: Header, tmp_path: Path) -> None:
    open_results(tmp_path / "results", HEAD)
    with pytest.raises(
        BadInput, match=r"results contains results of `humanevalfix` with model none, oracle all, not of .*--resume"
    ):
        open_results(tmp_path / "results", other)


def test_a_file_of_another_kind_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("my diary")
    with pytest.raises(BadInput, match="is not a results file"):
        open_results(file, HEAD)
    assert file.read_text() == "my diary"


def test_a_result_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    with pytest.raises(BadInput, match="cannot store results: Is a directory"):
        open_results(folder, HEAD)
    state = open_results(folder / "file", HEAD)
    (folder / "file").unlink()
    folder.rmdir()
    with pytest.raises(ResultsNotSaved, match="can no longer be written"):
        state.append(entry("a"))
    open_results(None, HEAD).append(entry("a"))


def test_an_empty_file_begins_afresh(tmp_path: Path) -> None:
    (tmp_path / "results").touch()
    open_results(tmp_path / "results", HEAD).append(entry("a"))
    assert list(open_results(tmp_path / "results", HEAD).known) == ["a"]
