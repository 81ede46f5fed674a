"""The code as it was after a round, from its diff."""

from __future__ import annotations

import pytest

from agent.contract.proposal import FileChange
from agent.edits.changes import EditProblem, diff
from agent.solving.answers import after


@pytest.mark.parametrize(
    ("before", "changed"),
    [
        ({"a.py": "x = 1\ny = 2\n"}, {"a.py": "x = 1\ny = 3\n"}),
        ({"a.py": "x = 1"}, {"a.py": "x = 1\n"}),
        ({"a.py": "x\n" * 40}, {"a.py": "y\n" + "x\n" * 38 + "z\n"}),
        ({"a.py": "x\n", "b.py": "1\n"}, {"a.py": "", "b.py": "2\n"}),
        ({"a.py": "x\n"}, {"pkg/new.py": "def f():\n    return 1\n"}),
        ({"a.py": "\n\n\n"}, {"a.py": "\n\n"}),
    ],
)
def test_a_diff_leads_from_the_files_to_those_after_it(before: dict[str, str], changed: dict[str, str]) -> None:
    edits = tuple(FileChange(path, before.get(path), text) for path, text in changed.items())
    assert after(before, diff(edits)) == {**before, **changed}


def test_a_diff_of_other_files_is_refused() -> None:
    edits = (FileChange("a.py", "x = 1\n", "x = 2\n"),)
    assert isinstance(after({"a.py": "y = 1\n"}, diff(edits)), EditProblem)
