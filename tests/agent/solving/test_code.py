"""Code in models' answers: what is read, completed and refused with a sentence."""

from __future__ import annotations

import pytest

from agent.edits.changes import EditProblem
from agent.solving.code import completed, defined_twice, files_in, is_open, problem_in, reaches, signed

PATH = "solution.py"


@pytest.mark.parametrize(
    "answer",
    [
        "```python\ndef f(x):\n    return x\n```",
        "Here it is:\n\n```py\ndef f(x):\n    return x\n```\nIt returns x.",
        "def f(x):\n    return x\n",
        "<think>```python\nwrong\n```</think>\n```\ndef f(x):\n    return x\n```",
        "solution.py\n```python\ndef f(x):\n    return x\n```",
        "```python\n# solution.py\ndef f(x):\n    return x\n```",
        "### `solution.py`:\n~~~python\r\ndef f(x):\r\n    return x\r\n~~~",
        "```python\ndef f(x):\n    return 0\n```\nBetter:\n```python\ndef f(x):\n    return x\n```",
        "```python\ndef f(x):\n    return x",
    ],
)
def test_the_code_is_found(answer: str) -> None:
    found = files_in(answer, PATH)
    assert not isinstance(found, EditProblem)
    assert {path: text.strip() for path, text in found.items()} == {PATH: "def f(x):\n    return x"}


def test_several_files_are_named_by_their_paths() -> None:
    answer = "pkg/__init__.py\n```python\nfrom pkg.a import f\n```\n\n**pkg/a.py**\n```python\ndef f(): ...\n```"
    assert files_in(answer, PATH) == {"pkg/__init__.py": "from pkg.a import f\n", "pkg/a.py": "def f(): ...\n"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("I cannot do that.", "no block of Python code"),
        ("", "no block of Python code"),
        ("```bash\nrm -rf /\n```", "no block of Python code"),
        ("```python\ndef f(x):\n    return max(x,", "Your answer was cut off: its last code block is not closed."),
        ("../../etc/x.py\n```python\nx = 1\n```", "not a path inside the project"),
        ("".join(f"m{n}.py\n```python\nx = 1\n```\n" for n in range(13)), "13 files"),
    ],
)
def test_what_is_no_code_is_named(answer: str, said: str) -> None:
    found = files_in(answer, PATH)
    assert isinstance(found, EditProblem)
    assert said in found.sentence


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(x:\n", "does not parse, line 1"),
        ("def g(x):\n    return x\n", "must define a function `f` at the top level; it defines `g`"),
        ("x = 1\n", "it defines no function"),
        ("def f(x): ...\ndef f(x): ...\n", "defines `f` 2 times"),
        ("def f(y, z=1): ...\n", "must keep its parameters (x), not (y, z)"),
        ("def f(x, *rest): ...\n", "not (x, *rest)"),
    ],
)
def test_code_that_was_not_asked_for_is_named(code: str, said: str) -> None:
    problem = problem_in({PATH: code}, PATH, "f", "def f(x: int) -> int")
    assert problem is not None
    assert said in problem.sentence


@pytest.mark.parametrize(
    ("second", "is_twice"),
    [
        ("def f(x):\n    return x\n", True),
        ("def f(x): return 0", False),
        ('def f(x):\n    """Zero."""\n    return 0', False),
        ("f(1)", False),
        ("def f(", False),
    ],
)
def test_a_function_that_two_blocks_define_in_different_ways_is_seen(second: str, is_twice: bool) -> None:
    answer = f"```python\ndef f(x):\n    return 0\n```\nBetter:\n```python\n{second}\n```"
    assert defined_twice(answer, PATH) == defined_twice(answer, PATH, "f") == ("f" if is_twice else "")


def test_functions_of_different_files_may_have_the_same_name() -> None:
    first, other = "```python\ndef f(x):\n    return 0\n```\n", "```python\ndef f(x):\n    return x\n```\n"
    assert defined_twice(f"pkg/a.py\n{first}pkg/b.py\n{other}", PATH) == ""
    assert defined_twice(f"pkg/a.py\n{first}pkg/a.py\n{other}", PATH) == "f"
    assert defined_twice(f"{first}{PATH}\n{other}", PATH) == "f", "a block without a path is the file that was asked for"


def test_a_block_that_is_not_closed_is_seen() -> None:
    assert is_open("```python\nx = 1\n```\n~~~\ny = 1\n")
    assert not is_open("```python\nx = 1\n```\nIt is done.")


@pytest.mark.parametrize(
    ("signature", "said"),
    [("def f(x)", "`f` must not be an `async def`"), ("async def f(x)", "`f` must be an `async def`")],
)
def test_a_signature_decides_whether_the_function_is_async(signature: str, said: str) -> None:
    other = {"def f(x)": "async def f(x): ...\n", "async def f(x)": "def f(x): ...\n"}[signature]
    problem = problem_in({PATH: other}, PATH, "f", signature)
    assert problem is not None
    assert said in problem.sentence
    assert problem_in({PATH: f"{signature}: ...\n"}, PATH, "f", signature) is None


@pytest.mark.parametrize(
    ("signature", "head"),
    [
        ("def f(x: int, y: int=3) -> int", "def f(x, y):"),
        ("def f(x, *, y=()) -> int", "def f(x, y) -> int:  # a comment"),
        ("def f(x, /, y)", "def f(\n    x,\n    y,\n):"),
        ("def f(*x: str, y: dict[str, int]={})", "def f(*x, y=lambda: 0):"),
        ("async def f(x: int)", "async def f(x: str):"),
    ],
)
def test_what_a_signature_states_is_restored(signature: str, head: str) -> None:
    text = f'@staticmethod\n{head}\n    """Says."""\n    return 1\n'
    found = signed(text, "f", signature)
    assert f"@staticmethod\n{signature}:" in found
    assert found.endswith('\n    """Says."""\n    return 1\n')
    compile(found, PATH, "exec")
    assert signed(found, "f", signature) == found
    assert signed("def f(x, y): return x\n", "f", "def f(x, y=1)") == "def f(x, y=1): return x\n"


def test_a_head_is_found_wherever_lines_end() -> None:
    assert signed("x = 1\rdef f(\r\n  y,\r):\r    return y\r", "f", "def f(y=2)") == "x = 1\ndef f(y=2):\n    return y\n"


def test_hints_of_the_answer_stay_and_names_that_the_signature_needs_can_be_imported() -> None:
    assert signed("def f(x: int) -> int: ...\n", "f", "def f(x=1)") == "def f(x: int=1) -> int: ...\n"
    text = signed("def f(x): ...\n", "f", "def f(x: List[np.ndarray]) -> Optional[int]")
    assert text.startswith("from __future__ import annotations\n\nfrom typing import List, Optional\n")
    exec(compile(text, PATH, "exec"), {})


def test_helpers_hints_and_decorators_are_welcome() -> None:
    code = "from functools import cache\n\n@cache\ndef f(x: 'int') -> int:\n    return _g(x)\n\ndef _g(x):\n    return x\n"
    assert problem_in({PATH: code}, PATH, "f", "def f(x: int) -> int") is None


def test_imports_of_the_stub_that_the_answer_uses_and_forgot_are_added() -> None:
    stub = "from typing import List\nimport math\n\ndef f(x: List[int]): ...\n"
    assert completed("def f(x: List[int]):\n    return x\n", stub).startswith("from typing import List\n\n\ndef f")
    assert "math" not in completed("def f(x: List[int]):\n    return x\n", stub)
    known = "from typing import List\n\ndef f(x: List[int]): ...\n"
    assert completed(known, stub) == known
    later = completed("from __future__ import annotations\ndef f(x): return math.pi\n", stub)
    assert later.startswith("from __future__ import annotations\n\nimport math\n")
    compile(later, PATH, "exec")


def test_a_docstring_that_the_answer_forgot_is_kept() -> None:
    stub = 'def f(x):\n    """Says\n    what."""\n    raise NotImplementedError\n'
    assert completed("def f(x):\n    return x\n", stub) == 'def f(x):\n    """Says\n    what."""\n    return x\n'
    own = 'def f(x):\n    """Own."""\n    return x\n'
    assert completed(own, stub) == own
    assert completed("def f(x): return x\n", stub) == "def f(x): return x\n"


def test_examples_that_the_answer_forgot_are_kept() -> None:
    stub = 'def f(x):\n    """Says what.\n\n    >>> f(1)\n    1\n    """\n    raise NotImplementedError\n'
    whole = stub.replace("raise NotImplementedError", "return x")
    for own in ('"""Own."""', '"""Own,\n    and more.\n    """'):
        assert completed(f"def f(x):\n    {own}\n    return x\n", stub) == whole
    assert completed(whole.replace("1", "2"), stub) == whole.replace("1", "2"), "it has examples of its own"
    one_line = 'def f(x):\n    """Own."""; return x\n'
    assert completed(one_line, stub) == one_line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import os.path\nprint(open('a').read())\nx = open('a', 'r', encoding='ascii')\n", []),
        ("from urllib.request import urlopen\n", ["uses the network"]),
        ("import subprocess, socket\n", ["starts processes", "uses the network"]),
        ("open('/etc/hosts', 'a').write('x')\n", ["writes or deletes files"]),
        ("with path.open(mode='w') as file: pass\n", ["writes or deletes files"]),
        ("from pathlib import Path\nPath('x').unlink()\n", ["writes or deletes files"]),
        ("Path('x').open('w')\nframe.rename(columns={})\n", ["writes or deletes files"]),
        ("import os\nos.system('ls')\nos.remove('x')\n", ["starts processes", "writes or deletes files"]),
        ("from os import popen\nfrom asyncio import open_connection\n", ["starts processes", "uses the network"]),
        ("import importlib\nimportlib.import_module('soc' + 'ket')\n", ["imports modules by computed names"]),
    ],
)
def test_what_code_does_beyond_computing_is_told(text: str, told: list[str]) -> None:
    assert reaches({"solution.py": text}) == [f"the code {each}: read it before you run it" for each in told]
