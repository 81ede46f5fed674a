"""A patch in GitHub's form, taken back, gives the old text exactly, or says why it cannot."""

from __future__ import annotations

import random
import subprocess

import pytest

from agent.edits.changes import EditProblem
from agent.edits.patches import reverse_patch

ALPHABET = [
    "a = 1",
    "b = 2",
    "    return a",
    "",
    "x\r",
    "\f",
    "- sign",
    "+ sign",
    " ",
    "@@ -1 +1 @@",
    "\\ No newline",
    "ü\u2028",
]


def texts(seed: int) -> tuple[str, str]:
    """An old and a new text, with every kind of line and of ending."""
    chance = random.Random(seed)
    old = [chance.choice(ALPHABET) for _ in range(chance.randrange(25))]
    new = list(old)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(new) + 1)
        new[at : at + chance.randrange(3)] = [chance.choice(ALPHABET) for _ in range(chance.randrange(3))]
    before, after = ("".join(line + "\n" for line in each) for each in (old, new))
    return before[: len(before) - chance.randrange(2)], after[: len(after) - chance.randrange(2)]


@pytest.fixture(scope="module")
def patches(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str]]:
    """Old text, new text, and what git says is between them: the hunks alone, as GitHub gives them."""
    folder = tmp_path_factory.mktemp("patches")
    pairs = [texts(seed) for seed in range(400)]
    for side, which in (("old", 0), ("new", 1)):
        (folder / side).mkdir()
        for number, pair in enumerate(pairs):
            (folder / side / f"{number:03}").write_bytes(pair[which].encode())
    # One process for all; options as GitHub's diffs look, whatever this machine's configuration says.
    said = subprocess.run(
        ["git", "-c", "core.autocrlf=false", "diff", "--no-index", "--no-color", "--text", "-U3", "--no-renames", "old", "new"],
        cwd=folder, capture_output=True, check=False,
    ).stdout.decode()  # fmt: skip
    found = []
    for part in ("\n" + said).split("\ndiff --git ")[1:]:
        number, (_, start, hunks) = int(part.partition("\n")[0][-3:]), part.partition("\n@@ ")
        found.append((*pairs[number], (start + hunks)[1:].removesuffix("\n")))
    return found


def test_what_git_says_is_taken_back_exactly(patches: list[tuple[str, str, str]]) -> None:
    assert len(patches) > 300
    for before, after, patch in patches:
        assert reverse_patch(after, patch) == before, patch


def test_a_text_that_is_not_what_the_patch_made_is_refused(patches: list[tuple[str, str, str]]) -> None:
    refused = 0
    for number, (before, after, patch) in enumerate(patches):
        chance = random.Random(number)
        rows = patch.split("\n")
        shown = [n for n, row in enumerate(rows) if row[:1] in (" ", "+") and n]
        if not shown:
            continue
        at = chance.choice(shown)
        rows[at] += "?"
        result = reverse_patch(after, "\n".join(rows))
        assert isinstance(result, EditProblem), (before, after, rows)
        refused += 1
    assert refused > 250


@pytest.mark.parametrize(
    ("after", "patch", "says"),
    [
        ("a\n", "nonsense", "does not start a hunk"),
        ("a\n", "@@ -1 +1,2 @@\n-b\n+a", "announces"),
        ("a\n", "@@ -1 +1 @@\n-b\n~a", "no sign"),
        ("a\n", "@@ -1 +9 @@\n-b\n+a", "line 9"),
        ("a\nb\n", "@@ -2 +1 @@\n-c\n+a", "line 2 of the old text"),
        ("a\nb\n", "@@ -1 +1 @@\n-c\n\\ No newline at end of file\n+a", "without a line break"),
        ("a", "@@ -1 +1 @@\n-b\n+a", "Line 1"),
        ("", "@@ -1 +1 @@\n-b\n+a", "Line 1"),
        ("a\n", "@@ -1,2 +1 @@\n-b\n a\n-c", "Line 4"),
    ],
)
def test_a_patch_that_does_not_fit_says_why(after: str, patch: str, says: str) -> None:
    result = reverse_patch(after, patch)
    assert isinstance(result, EditProblem)
    assert says in result.sentence


def test_removed_and_unchanged_files() -> None:
    assert reverse_patch("", "@@ -1,2 +0,0 @@\n-a\n-b") == "a\nb\n"
    assert reverse_patch("same\r\n", "") == "same\r\n"
    assert reverse_patch("a\n", "@@ -0,0 +1 @@\n+a") == ""
