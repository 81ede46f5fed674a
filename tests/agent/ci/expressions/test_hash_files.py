"""Which patterns of `hashFiles` match a file; GitHub's own package judges it on real files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent.ci.expressions import ExpressionError, Unknown, hash_files
from agent.ci.expressions.hash_files import DIGEST, MatchedFiles, matches
from tests.judges.node import Judge

WORKSPACE = "/home/runner/work/x/x"
FILES = [
    "requirements.txt", "requirements-dev.txt", "poetry.lock", "a.txt", "B.txt", ".hidden", ".config/x.lock",
    "sub/requirements.txt", "sub/deep/er/poetry.lock", "sub/deep/a.txt", "sub-x/y.txt", "sub.d/z.txt",
    "node_modules/m/package-lock.json", "package-lock.json", "odd[a]name.txt", "odd!name.txt", "o", "é/ü.txt", "a b/c d.txt",
    "star*name", "back\\slash.txt", "x1", "x2", "x-", "x^", "x]", "xa",
]  # fmt: skip
PATTERNS = [
    ["requirements.txt"], ["**/requirements*.txt"], ["**/*.lock"], ["**"], ["*"], ["*.txt"], ["sub"], ["sub/"], ["sub/**"],
    ["sub/*"], ["**/"], ["**/sub"], ["sub/**/poetry.lock"], ["sub/**/**/*.lock"], ["**/deep/**"], ["**/deep/*"], ["*/*"],
    ["*/*/*"], ["s*b/*"], ["sub*/*.txt"], ["nothing"], ["**/nothing"], ["**/*.txt", "!sub/**"],
    ["**/*.txt", "!**/requirements*"], ["!sub/**", "**/*.txt"], ["sub/**", "!sub/deep", "**/a.txt"],
    ["**/*.txt\n!sub/**\n# sub-x\n\n  *.lock  "], ["!!requirements.txt"], ["! requirements.txt", "*.txt"],
    ["poetry.lock", "a.txt", "B.txt"], ["sub/deep/a.txt", "a.txt", "sub"], ["sub", "package-lock.json", "sub/deep"],
    ["./requirements.txt"], ["./**/*.lock"], ["."], ["./"], ["odd[[]a]name.txt"], ["odd[a]name.txt"], ["odd\\[a\\]name.txt"],
    ["odd[!b]name.txt"], ["odd[^b]*"], ["star[*]name"], ["star\\*name"], ["back\\\\slash.txt"], ["?"], ["??"], ["x[0-9]"],
    ["x[!0-9]"], ["x[a-c1]"], ["x[-a]"], ["x[a-]"], ["x[]]"], ["x[^]"], ["x["], ["[x]1"], [".*"], [".hidden"], [".config/*"],
    ["**/.*"], ["**/.*/**"], ["a**t"], ["sub**"], ["é/*"], ["**/ü.txt"], ["a b/c d.txt"], ["B.txt", "b.txt"], ["SUB/**"],
    ["~/x"], ["{WORKSPACE}/sub/**"], ["{WORKSPACE}/*.txt", "!{WORKSPACE}/a.txt"], ["/etc/hostname"], ["{WORKSPACE}x/*"],
    ["../x"], ["sub/../a.txt"], ["sub/./a.txt"], ["!"], ["{a,B}.txt"], ["+(a|B).txt"], ["!(a).txt"], ["#x", "a.txt"],
    ["sub//deep/a.txt"],
]  # fmt: skip


@pytest.mark.optional(reason="needs node and GitHub's packages from npm")
def test_patterns_match_files_as_for_github_s_own_package(judge: Judge, tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    for path in FILES:
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(path)
    asked = [[line.replace("{WORKSPACE}", str(workspace)) for line in patterns] for patterns in PATTERNS]
    # Where the pattern alone decides, each file is excluded in turn, so that every single match is judged too.
    asked += [[*patterns, "!" + path] for patterns in asked for path in FILES[:6] if len(patterns) == 1]
    answers = judge.answer("globs.mjs", {"workspace": str(workspace), "patterns": asked})
    ours: list[str] = []
    for patterns in asked:
        try:
            ours.append("a match" if matches(patterns, FILES, str(workspace)) else "none")
        except ExpressionError:
            ours.append("refused")
    theirs = ["refused" if "error" in answer else "a match" if answer["value"] else "none" for answer in answers]
    assert [each for each in zip(asked, theirs, ours, strict=True) if each[1] != each[2]] == []
    assert min(map(theirs.count, ("a match", "none", "refused"))) >= 3


def files(*paths: str) -> MatchedFiles:
    return MatchedFiles(paths, WORKSPACE)


def test_a_match_gives_a_digest_that_stands_for_any_and_no_match_an_empty_text() -> None:
    one = files("a.lock", "b/c.txt")
    assert [one([pattern]) for pattern in ("*.lock", "**", "*.toml", "b", "c.txt")] == [DIGEST, DIGEST, "", DIGEST, ""]
    assert len(DIGEST) == 64


def test_the_last_pattern_that_matches_a_path_decides() -> None:
    assert matches(["**/*.txt", "!b/**"], ["b/c.txt"], WORKSPACE) is False
    assert matches(["!b/**", "**/*.txt"], ["b/c.txt"], WORKSPACE) is True


def test_symbolic_links_may_be_asked_for_and_no_other_option() -> None:
    assert matches(["--follow-symbolic-links", "a"], ["a", "b"], WORKSPACE)
    with pytest.raises(ExpressionError, match="no option '--force'"):
        matches(["--force", "a"], ["a"], WORKSPACE)


def test_relative_steps_inside_a_pattern_are_refused_by_name() -> None:
    with pytest.raises(ExpressionError, match=r"sub/\.\./a"):
        matches(["sub/../a"], ["a"], WORKSPACE)
    assert files("a")(["sub/../a"]) == Unknown("the hashFiles pattern 'sub/../a' is empty or contains a '.' or '..' segment")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*" + "a" * 120 + "b*", "a" * 255),
        ("*a" * 5000, "a" * 255),
        ("**/" * 3000 + "x", "y/" * 500 + "z"),
        ("**/a/" * 3000 + "x", "a/" * 500 + "a"),
        ("**/*a*a*b/" * 1000, "a" * 40 + "/" + "a/" * 500 + "a"),
    ],
)
def test_hostile_patterns_over_hostile_names_are_quick(pattern: str, path: str) -> None:
    started = time.monotonic()
    assert not matches([pattern], [path] * 200, WORKSPACE)
    assert time.monotonic() - started < 5.0


def test_patterns_without_end_and_answers_that_take_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExpressionError, match="more than 20000 characters"):
        matches(["a" * 20_001], ["a"], WORKSPACE)
    monkeypatch.setattr(hash_files, "SECONDS", -1.0)
    assert files("a")(["**"]) == Unknown("hashFiles")
