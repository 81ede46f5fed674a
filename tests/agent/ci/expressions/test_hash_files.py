"""Which files `hashFiles` takes, and what it makes of them; GitHub's own package judges both on real files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agent.ci.expressions import ExpressionError
from agent.ci.expressions.hashing import digest, hash_files, matching
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
def test_the_same_files_are_hashed_in_the_same_order_as_by_github_s_own_package(judge: Judge, tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    contents = {path: f"content of {path}".encode() for path in FILES}
    for path, content in contents.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_bytes(content)
    asked = [[line.replace("{WORKSPACE}", str(workspace)) for line in patterns] for patterns in PATTERNS]
    answers = judge.answer("globs.mjs", {"workspace": str(workspace), "patterns": asked})
    ours: list[dict[str, str]] = []
    for patterns, answer in zip(asked, answers, strict=True):
        try:
            ours.append({"value": hash_files(patterns, contents, str(workspace))})
        except ExpressionError:
            ours.append({"error": answer.get("error", "refused by us alone")})
    shown = [(each, theirs, own) for each, theirs, own in zip(asked, answers, ours, strict=True) if theirs != own]
    assert not shown
    assert len({answer.get("value") for answer in answers}) > 30
    assert sum("error" in answer for answer in answers) >= 3


def test_the_digest_is_that_of_the_digests_in_the_order_of_the_walk() -> None:
    files = {"b.lock": b"B", "a/z.lock": b"Z", "a.lock": b"A"}
    # Byte order: the folder "a" comes before "a.lock".
    assert matching(["**/*.lock"], files, WORKSPACE) == ["a/z.lock", "a.lock", "b.lock"]
    joined = b"".join(hashlib.sha256(content).digest() for content in (b"Z", b"A", b"B"))
    assert hash_files(["**/*.lock"], files, WORKSPACE) == hashlib.sha256(joined).hexdigest()


def test_without_a_match_there_is_no_digest() -> None:
    assert hash_files(["*.toml"], {"a.lock": b"A"}, WORKSPACE) == "" == digest([])


def test_symbolic_links_may_be_asked_for_and_no_other_option() -> None:
    assert matching(["--follow-symbolic-links", "a"], ["a", "b"], WORKSPACE) == ["a"]
    with pytest.raises(ExpressionError, match="no option '--force'"):
        matching(["--force", "a"], ["a"], WORKSPACE)


def test_relative_steps_inside_a_pattern_are_refused_by_name() -> None:
    with pytest.raises(ExpressionError, match=r"sub/\.\./a"):
        matching(["sub/../a"], ["a"], WORKSPACE)


def test_hostile_patterns_over_hostile_names_are_bounded() -> None:
    names = ["a" * 255 + str(number) for number in range(5000)]
    with pytest.raises(ExpressionError, match="too much work"):
        matching(["*" + "a" * 120 + "b*"], names, WORKSPACE)
    assert matching(["*a" * 5000], names[:10], WORKSPACE) == []
    assert matching(["**/" * 3000 + "x"], ["y/" * 500 + "z"], WORKSPACE) == []
