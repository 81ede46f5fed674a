"""The forms of solved code; scripts are run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def test_the_function_comes_with_what_it_needs() -> None:
    more = CODE.replace("import re\n", "import re\nimport json\n\nSEPARATOR = r'\\W+'\nUNUSED = 1\n").replace(
        're.split(r"\\W+", text)', "re.split(SEPARATOR, text)"
    )
    alone = formed(f"{more}\n\ndef other():\n    return json\n", "slug", "function")
    assert alone.startswith("from __future__ import annotations\nimport re\nSEPARATOR = r'\\W+'\n\n\ndef _parts(text):")
    assert not {"json", "UNUSED", "other"} & set(re.findall(r"\w+", alone))
    names: dict[str, Any] = {}
    exec(alone, names)
    assert names["slug"]("Hello World") == "hello-world"
    assert formed("x = 1\n\n@print\ndef f(): ...\n", "f", "function") == "@print\ndef f(): ...\n"


@pytest.mark.parametrize("annotation", ["int", "list"])
@pytest.mark.parametrize(
    "before", ["", '"""Doc."""\n\n\n', "from __future__ import annotations\n\nimport re\n\n\n", "LIMIT = 3\n\n\n"]
)
def test_a_script_is_formatted(before: str, annotation: str) -> None:
    script = formed(f'{before}def f(a: {annotation}, by: str = "-"):\n    return a\n', "f", "script")
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "-"]
    assert subprocess.run(ruff, input=script, capture_output=True, text=True, check=True).stdout == script


@pytest.mark.parametrize(
    ("annotation", "argument", "printed"),
    [
        ("str", "3", "'3'"),
        ("'str'", "3", "'3'"),
        ("float | None", "3", "3.0"),
        ("Optional[int]", "3", "3"),
        ("list[int]", "[3]", "[3]"),
        ("bool", "False", "False"),
        ("int", "three", None),
        ("bool", "no", None),
    ],
)
def test_a_script_converts_as_the_annotations_say(annotation: str, argument: str, printed: str | None, tmp_path: Path) -> None:
    code = f"from typing import Optional\n\ndef f(x: {annotation}):\n    return repr(x)\n"
    (tmp_path / "f.py").write_text(formed(code, "f", "script"))
    done = subprocess.run([sys.executable, tmp_path / "f.py", argument], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == (printed or "")
    assert ("error: argument x: invalid" in done.stderr) == (printed is None), done.stderr


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


def test_a_script_names_wrong_input_as_argparse_does(tmp_path: Path) -> None:
    script = tmp_path / "total.py"
    script.write_text(formed("def total(numbers: list[int]) -> int:\n    return sum(numbers)\n", "total", "script"))
    done = subprocess.run([sys.executable, script, "abc"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("total.py: error: TypeError: unsupported operand")
