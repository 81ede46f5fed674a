"""The forms of solved code; scripts are run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent.solving.output import formed, without_examples

CODE = '''"""Words."""

from __future__ import annotations

import re


def _parts(text):
    return re.split(r"\\W+", text)


def slug(text: str, *more: str, joiner: str = "-", max_words: int = 9) -> str:
    """Joins the words of a text.

    At most `max_words` of them.

    Examples:
        >>> slug("A b")
        'a-b'
    """
    return joiner.join(_parts(" ".join([text, *more]).lower())[:max_words])
'''


def test_the_function_alone() -> None:
    assert formed(CODE, "slug", "function").startswith("def slug(")
    assert "_parts(text)" not in formed(CODE, "slug", "function")


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [(["Hello World"], "hello-world"), (["A", "B", "C", "--joiner", "_"], "a_b_c"), (["a b c", "--max-words", "2"], "a-b")],
)
def test_a_script_takes_the_arguments(arguments: list[str], printed: str, tmp_path: Path) -> None:
    script = tmp_path / "slug.py"
    script.write_text(formed(CODE, "slug", "script"))
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, f"{printed}\n"), done.stderr


def test_a_script_reads_literals_and_explains_itself(tmp_path: Path) -> None:
    code = 'def total(numbers, *, start=0):\n    """Sums 100 % of the numbers."""\n    return sum(numbers, start)\n'
    script = tmp_path / "total.py"
    script.write_text(formed(code, "total", "script"))
    run = [sys.executable, script]
    assert subprocess.run([*run, "[1, 2]", "--start", "4"], capture_output=True, text=True, timeout=30).stdout == "7\n"
    assert "100 %" in subprocess.run([*run, "--help"], capture_output=True, text=True, timeout=30).stdout


def test_examples_leave_the_docstrings() -> None:
    clean = without_examples(CODE)
    assert ">>>" not in clean
    assert "Examples" not in clean
    assert "At most `max_words` of them." in clean
    compile(clean, "x", "exec")
    only = 'def f():\n    """\n    >>> f()\n    1\n    """\n    return 1\n'
    compile(without_examples(only), "x", "exec")


def test_code_without_the_function_stays_as_it_is() -> None:
    assert formed("x = 1\n", "f", "script") == "x = 1\n"
