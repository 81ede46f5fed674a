import pytest

from agent.checks.findings import LIMIT, read_findings, read_traceback


@pytest.mark.parametrize(
    ("line", "name", "path", "number"),
    [
        ("pkg/a.py:3:5: F401 [*] `os` imported but unused", "pkg/a.py: F401 `os` imported but unused", "pkg/a.py", 3),
        ("./a.py:3:80: E501 line too long (90 > 79 characters)", "a.py: E501 line too long (90 > 79 characters)", "a.py", 3),
        ("a.py:7: F811 redefinition of 'x' from line 3", "a.py: F811 redefinition of 'x' from line N", "a.py", 7),
        (
            'a.py:2: error: Name "y" is not defined  [name-defined]',
            'a.py: error: Name "y" is not defined [name-defined]',
            "a.py",
            2,
        ),
        ("  /repo/a.py:2:5 - error: no (reportX)", "a.py: error: no (reportX)", "a.py", 2),
        (
            "a.py:1:0: C0114: Missing docstring (missing-docstring)",
            "a.py: C0114: Missing docstring (missing-docstring)",
            "a.py",
            1,
        ),
        ("would reformat /repo/src/a.py", "src/a.py: would be reformatted", "src/a.py", 1),
        ("Would reformat: src/a.py", "src/a.py: would be reformatted", "src/a.py", 1),
    ],
)
def test_the_lines_of_each_tool_are_read(line: str, name: str, path: str, number: int) -> None:
    (found,) = read_findings(f"some header\n{line}\nFound 1 error.", "/repo")
    assert found.id == name
    assert (found.frames[0].path, found.frames[0].line) == (path, number)


@pytest.mark.parametrize("line", ["", "a.py:3: note: see here", "12:30:01: started", "All checks passed!", "x" * 100_000])
def test_other_lines_are_no_findings(line: str) -> None:
    assert read_findings(line) == ()


def test_paths_are_told_from_the_root_wherever_the_tool_ran() -> None:
    (found,) = read_findings("a.py:1:1: E1 x", "/repo", "sub/dir")
    assert found.frames[0].path == "sub/dir/a.py"


def test_findings_are_bounded() -> None:
    assert len(read_findings("a.py:1:1: E1 x\n" * (LIMIT + 10))) == LIMIT


def test_a_traceback_tells_the_lines_of_the_repository_alone() -> None:
    said = (
        'Traceback (most recent call last):\n  File "/repo/setup.py", line 3, in <module>\n'
        '  File "/usr/lib/python3/x.py", line 9, in run\n  File "<string>", line 1, in <module>\n'
        "*** Error compiling 'pkg/a.py'...\n  File \"pkg/a.py\", line 7\n    def f(\n"
    )
    assert [(f.path, f.line, f.function) for f in read_traceback(said, "/repo")] == [
        ("setup.py", 3, "<module>"),
        ("pkg/a.py", 7, ""),
    ]
