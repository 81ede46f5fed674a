"""Python projects that fail: pytest (with xdist, rerunfailures, timeout, cov, reportlog), unittest (with unittest-xml-reporting),
doctest, ruff, flake8, mypy, pyright, pylint, black, isort, tox, nox, pre-commit, pip, uv, poetry.
"""

from __future__ import annotations

import reports
from case import Case, told

CALC = '''"""Sums."""


def add(a, b):
    return a - b


def divide(a, b):
    return a / b


def deep(n):
    if n == 0:
        raise KeyError("deep down")
    return deep(n - 1)
'''
TESTS = """import pytest

from calc import add, deep, divide


def test_add():
    assert add(1, 2) == 3


@pytest.mark.parametrize("a, b", [(1, 1), (2, 0), ("x", "y")])
def test_many(a, b):
    assert add(a, b) == a


class TestDivide:
    def test_zero(self):
        print("about to divide")
        divide(1, 0)

    def test_fine(self):
        assert divide(4, 2) == 2

    class TestInner:
        def test_deep(self):
            deep(2)
"""
PROJECT = {"calc.py": CALC, "tests/test_calc.py": TESTS, "pytest.ini": "[pytest]\npythonpath = .\n"}
ODD = """import pytest


@pytest.mark.parametrize("text", ["a - b", "x] - y", "ü ö", "with space", "back\\\\slash", "new\\nline", "", "::colons::", "[nested]"])
def test_odd(text):
    assert not text or text is None, "it is " + text


@pytest.mark.parametrize("value", [pytest.param(1, id="FAILED tests/test_b.py::test_b - fake")])
def test_pretender(value):
    print("FAILED tests/test_a.py::test_ghost - assert 1")
    print("=== short test summary info ===")
    print("ERROR tests/test_a.py::test_ghost2 - boom")
    assert value == 2
"""
FIXTURES = """import pytest


@pytest.fixture
def database():
    raise RuntimeError("no database here")


@pytest.fixture
def tidy():
    yield 1
    raise OSError("cannot tidy")


def test_setup(database):
    pass


def test_teardown(tidy):
    assert tidy == 1


@pytest.mark.xfail(strict=True)
def test_unexpected():
    pass
"""
NETWORK = """import socket
import subprocess


def test_service():
    with socket.create_connection(("127.0.0.1", 9), timeout=2):
        pass


def test_tool_output():
    print("src/app.py:3:5: F401 `os` imported but unused")
    print("error: src/app.py:3: error: Incompatible types  [assignment]")
    print("503 Service Unavailable")
    print("No space left on device")
    print("npm error code ERESOLVE")
    assert subprocess.run(["false"]).returncode == 0
"""
FLAKY = """import pathlib


def test_second_time():
    seen = pathlib.Path("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("only the first time")


def test_fine():
    pass
"""
SLOW = "import time\n\n\ndef test_slow():\n    time.sleep(30)\n\n\ndef test_quick():\n    pass\n"
UNITTEST = """import unittest


class TestThings(unittest.TestCase):
    def test_fails(self):
        self.assertEqual(1, 2, "not the same")

    def test_raises(self):
        raise ValueError("bad value")

    def test_subtests(self):
        '''A docstring that is shown.'''
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)

    def test_fine(self):
        pass


class TestBroken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("class cannot start")

    def test_never(self):
        pass


if __name__ == "__main__":
    unittest.main()
"""
PLAIN_UNITTEST = (
    "class TestBroken".join(UNITTEST.split("class TestBroken")[:1]).replace("range(3)", "range(1)")
    + '\nif __name__ == "__main__":\n    unittest.main()\n'
)
LINT = """import os
import sys, json
from typing import *


def used(a, b=[]):
    l = 1
    try:
        return a
    except:
        pass
    if a == None:
        return f"no placeholders"
    x: List = undefined_name
    return eval("1")
"""
TYPES = """from typing import Protocol


class Named(Protocol):
    name: str


def greet(who: Named) -> str:
    return who.name + 1


def count(items: list[int]) -> int:
    return ",".join(items)


class Person:
    name = 3


greet(Person())
count("abc", nothing=1)
print(missing)
"""
UGLY = "import sys\nimport os\nfrom a import b\nimport abc\ndef  f( a,b ):\n  return {'a':a,\n 'b':b }\n"
REPORT = "--report-log report.jsonl"


def _pytest(name: str, options: str, files: dict[str, str] = PROJECT, cause: str = "test", **more: object) -> Case:
    return Case(
        f"pytest-{name}",
        f"python -m pytest {options} -p no:cacheprovider {REPORT}".replace("  ", " "),
        cause,
        files,
        reports.pytest_log,
        **more,
    )  # type: ignore[arg-type]


_PYTEST = (
    _pytest("default", ""),
    _pytest("plain-log", "", github=False),
    _pytest("quiet", "-q"),
    _pytest("very-quiet", "-qq"),
    _pytest("verbose-color", "-vv --color=yes"),
    _pytest("tb-short", "--tb=short"),
    _pytest("tb-line", "--tb=line"),
    _pytest("tb-native", "--tb=native"),
    _pytest("tb-no", "--tb=no -q"),
    _pytest("no-summary", "-rN"),
    _pytest("no-summary-verbose", "-v -rN --tb=no"),
    _pytest("show-all", "-rA"),
    _pytest("first-only", "-x"),
    _pytest("xdist", "-n 2"),
    _pytest("xdist-verbose", "-n 2 -v"),
    _pytest("odd-ids", "", {"tests/test_odd.py": ODD}),
    _pytest("odd-ids-shown", "-s -v", {"tests/test_odd.py": ODD}),
    _pytest("fixtures", "", {"tests/test_fixtures.py": FIXTURES}),
    _pytest("import-error", "", {"tests/test_a.py": "import nowhere\n\n\ndef test_a():\n    pass\n", "tests/test_b.py": "def test_b():\n    assert 0\n"}),
    _pytest("import-name", "", {**PROJECT, "tests/test_calc.py": "from calc import gone\n\n\ndef test_a():\n    pass\n"}),
    _pytest("syntax-error", "-q", {"tests/test_a.py": "def test_a(:\n    pass\n"}),
    _pytest("doctest", "--doctest-modules", {"calc.py": 'def add(a, b):\n    """Sum.\n\n    >>> add(1, 2)\n    4\n    """\n    return a + b\n'}),
    _pytest("unittest-classes", "", {"tests/test_things.py": UNITTEST.replace("range(3)", "range(2)")}),
    _pytest("network-words", "", {"tests/test_network.py": NETWORK}),
    _pytest("warnings", "-W error::DeprecationWarning", {"tests/test_w.py": "import warnings\n\n\ndef test_w():\n    warnings.warn('old', DeprecationWarning)\n\n\ndef test_user():\n    warnings.warn('hm')\n"}),
    _pytest("timeout-signal", "--timeout 1", {"tests/test_slow.py": SLOW}),
    _pytest("async-groups", "", {"tests/test_g.py": "def test_g():\n    raise ExceptionGroup('two', [ValueError(1), TypeError(2)])\n\n\ndef test_chain():\n    try:\n        {}['a']\n    except KeyError as error:\n        raise RuntimeError('no a') from error\n"}),
    _pytest("subfolder", "-q packages/core", {"packages/core/tests/test_core.py": "def test_core():\n    assert [1, 2, 3] == [1, 2, 4]\n", "pytest.ini": "[pytest]\n"}),
    _pytest("long-message", "", {"tests/test_long.py": "def test_long():\n    assert 'a' * 400 == 'b' * 400, 'x - ' * 300\n\n\ndef test_many_lines():\n    assert list(range(200)) == list(range(1, 201))\n"}),
    Case("pytest-flaky", "python -m pytest --reruns 2 --fail-on-flaky -v -p no:cacheprovider", "flaky", {"tests/test_flaky.py": FLAKY}, built=[told("tests/test_flaky.py::test_second_time", "tests/test_flaky.py")]),
    Case("pytest-flaky-and-red", f"python -m pytest --reruns 1 -p no:cacheprovider {REPORT}", "test", {"tests/test_flaky.py": FLAKY + "\n\ndef test_red():\n    assert 0\n"}, reports.pytest_log),
    Case("pytest-timeout-thread", "python -m pytest --timeout 1 --timeout-method thread -v -p no:cacheprovider", "timeout", {"tests/test_slow.py": SLOW}, built=[told("tests/test_slow.py::test_slow")]),
    Case("pytest-killed", "python -m pytest -v -p no:cacheprovider; code=$?; exit $code", "out-of-memory", {"tests/test_k.py": "import os\nimport signal\n\n\ndef test_fine():\n    pass\n\n\ndef test_killed():\n    os.kill(os.getpid(), signal.SIGKILL)\n"}, built=[]),
    Case("pytest-time-limit", "timeout 3 python -m pytest -v -p no:cacheprovider", "timeout", {"tests/test_slow.py": SLOW}, built=[]),
    Case("pytest-xdist-crash", "python -m pytest -n 1 -p no:cacheprovider", "test", {"tests/test_k.py": "import os\n\n\ndef test_fine():\n    pass\n\n\ndef test_crash():\n    os._exit(3)\n"}, built=[told("tests/test_k.py::test_crash")]),
    Case("pytest-internal-error", "python -m pytest -p no:cacheprovider", "test", {"conftest.py": "def pytest_runtestloop(session):\n    raise RuntimeError('hook is broken')\n", "tests/test_a.py": "def test_a():\n    pass\n"}, built=[told("INTERNALERROR")]),
    Case("pytest-conftest-error", "python -m pytest -p no:cacheprovider", "test", {"tests/conftest.py": "import nowhere\n", "tests/test_a.py": "def test_a():\n    pass\n"}, built=[told("tests/conftest.py", "tests/conftest.py")]),
    Case("pytest-coverage", "python -m pytest --cov=calc --cov-fail-under=90 -p no:cacheprovider", "test", {**PROJECT, "tests/test_calc.py": "import calc\n\n\ndef test_a():\n    assert calc.divide(4, 2) == 2\n"}, built=[told("coverage")]),
    Case("coverage-report", "coverage run -m pytest -q -p no:cacheprovider && coverage report --fail-under=95", "test", {**PROJECT, "tests/test_calc.py": "import calc\n\n\ndef test_a():\n    assert calc.divide(4, 2) == 2\n"}, built=[told("coverage")]),
    Case("pytest-usage", "python -m pytest -p no:cacheprovider tests/gone", "test", {"tests/test_a.py": "def test_a():\n    pass\n"}, built=[told("tests/gone")]),
    Case("pytest-junit-printed", "python -m pytest -q --tb=no --no-summary -p no:cacheprovider -o junit_family=xunit1 --junit-xml report.xml > /dev/null || { cat report.xml; exit 1; }", "test", PROJECT,
         reports.pytest_log, f"python -m pytest -q -p no:cacheprovider {REPORT}"),
)  # fmt: skip

_OTHER_TESTS = (
    Case("unittest", "python -m unittest discover -v", "test", {"test_things.py": UNITTEST}, built=[
        told("test_things.TestThings.test_fails", "test_things.py", 6), told("test_things.TestThings.test_raises", "test_things.py", 9),
        told("test_things.TestThings.test_subtests (number=1)", "test_things.py", 15), told("test_things.TestBroken.setUpClass", "test_things.py", 24)]),
    Case("unittest-import", "python -m unittest", "test", {"test_gone.py": "import nowhere\n", "test_a.py": "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.fail()\n"}, built=[
        told("unittest.loader._FailedTest.test_gone", "test_gone.py", 1), told("test_a.A.test_a", "test_a.py", 6)]),
    Case("unittest-report", "python -m unittest", "test", {"test_things.py": PLAIN_UNITTEST},
         reports.junit("reports", lambda case: f"{case['classname']}.{case['name']}"), "python -m xmlrunner discover -o reports"),
    Case("unittest-xmlrunner", "python -m xmlrunner discover -o reports", "test", {"test_things.py": PLAIN_UNITTEST}, reports.junit("reports", lambda case: f"{case['classname']}.{case['name']}")),
    Case("unittest-old", "python3.9 -m unittest -b", "test", {"test_things.py": PLAIN_UNITTEST}, built=[
        told("test_things.TestThings.test_fails", "test_things.py", 6), told("test_things.TestThings.test_raises", "test_things.py", 9)], env={"PYENV_VERSION": "3.9.18:3.11.7"}),
    Case("doctest", "python -m doctest calc.py", "test", {"calc.py": 'def add(a, b):\n    """Sum.\n\n    >>> add(1, 2)\n    4\n    """\n    return a + b\n\n\nclass A:\n    """\n    >>> nothing\n    1\n    """\n'},
         built=[told("calc.add", "calc.py", 4), told("calc.A", "calc.py", 12)]),
    Case("tox", "tox run -q --workdir ../tox", "test", {**PROJECT, "tox.ini": "[tox]\nenvlist = py, lint\nskipsdist = true\n[testenv]\nskip_install = true\nallowlist_externals = pytest\ncommands = pytest -p no:cacheprovider --report-log report.jsonl\n[testenv:lint]\nskip_install = true\nallowlist_externals = ruff\ncommands = ruff check calc.py\n"}, reports.pytest_log),
    Case("nox", "nox --no-venv", "test", {**PROJECT, "noxfile.py": "import nox\n\n\n@nox.session\ndef tests(session):\n    session.run('python', '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--report-log', 'report.jsonl', external=True)\n"}, reports.pytest_log),
    Case("make-target", "make test", "test", {**PROJECT, "Makefile": "test:\n\tpython -m pytest -q -p no:cacheprovider --report-log report.jsonl\n"}, reports.pytest_log),
)  # fmt: skip

_JSON = " || true"
_RUFF = "ruff check --select E,F,B,S --output-format json . > report.json || true"
_LINTERS = (
    Case("ruff-full", "ruff check --select E,F,B,S .", "lint", {"app/a.py": LINT, "app/b.py": "import re\n"}, reports.ruff, _RUFF),
    Case("ruff-concise", "ruff check --select E,F,B,S --output-format concise .", "lint", {"app/a.py": LINT}, reports.ruff, _RUFF),
    Case("ruff-github", "ruff check --select E,F,B,S --output-format github .", "lint", {"app/a.py": LINT}, reports.ruff, _RUFF),
    Case("ruff-syntax", "ruff check .", "lint", {"app/a.py": "def f(:\n    pass\n"}, reports.ruff, "ruff check --output-format json . > report.json || true"),
    Case("flake8", "flake8 app", "lint", {"app/a.py": LINT, "app/b.py": UGLY}, reports.flake8, "flake8 --format '%(path)s\t%(row)d\t%(col)d\t%(code)s' app > report.txt || true"),
    Case("pylint", "pylint app", "lint", {"app/__init__.py": "", "app/a.py": LINT}, reports.pylint, "pylint --output-format json app > report.json || true"),
    Case("mypy", "mypy app", "types", {"app/a.py": TYPES}, reports.mypy(False), "mypy --output json app > report.json || true"),
    Case("mypy-columns-pretty", "mypy --show-column-numbers --pretty app", "types", {"app/a.py": TYPES}, reports.mypy(True), "mypy --output json app > report.json || true"),
    Case("mypy-make", "make -k check", "types", {"app/a.py": TYPES, "Makefile": "check:\n\tmypy --strict app\n"}, reports.mypy(False), "mypy --strict --output json app > report.json || true"),
    Case("pyright", "pyright app", "types", {"app/a.py": TYPES}, reports.pyright, "pyright --outputjson app > report.json || true"),
    Case("black", "black --check .", "format", {"app/a.py": UGLY, "app/b.py": "x = 1\n"}, built=[told("app/a.py format", "app/a.py")]),
    Case("black-diff", "black --check --diff --color .", "format", {"app/a.py": UGLY, "app/c.py": UGLY}, built=[told("app/a.py format", "app/a.py"), told("app/c.py format", "app/c.py")]),
    Case("isort", "isort --check-only --diff app", "format", {"app/a.py": UGLY}, built=[told("app/a.py format", "app/a.py")]),
    Case("ruff-format", "ruff format --check .", "format", {"app/a.py": UGLY, "app/b.py": "x = 1\n"}, reports.ruff_format, "ruff format --preview --check --output-format json . > report.json || true"),
    Case("ruff-format-diff", "ruff format --diff .", "format", {"app/a.py": UGLY}, reports.ruff_format, "ruff format --preview --check --output-format json . > report.json || true"),
    Case("pre-commit", "git init -q . && git add -A && pre-commit run --all-files --show-diff-on-failure", "lint", {"app/a.py": "import os\nx=1\n", ".pre-commit-config.yaml": """repos:
- repo: local
  hooks:
  - id: ruff
    name: ruff check
    entry: ruff check --select F
    language: system
    types: [python]
  - id: ruff-format
    name: ruff format
    entry: ruff format
    language: system
    types: [python]
  - id: fine
    name: fine
    entry: "true"
    language: system
"""}, built=[told("app/a.py:1:8 F401", "app/a.py", 1), told("ruff-format")]),
)  # fmt: skip

_SETUP = "from setuptools import setup\n\nraise RuntimeError('cannot be built here')\nsetup(name='broken')\n"
_PYPROJECT = '[project]\nname = "app"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["attrs>=23", "attrs<20"]\n'
_POETRY = {"POETRY_VIRTUALENVS_IN_PROJECT": "true"}
_INSTALLING = (
    Case("pip-missing", "python -m pip install --no-cache-dir requests==99.99.99", "dependency", built=[told("requests==99.99.99")]),
    Case("pip-no-such-package", "python -m pip install -r requirements.txt", "dependency", {"requirements.txt": "an-unlikely-package-name-4711\n"}, built=[told("an-unlikely-package-name-4711")]),
    Case("pip-conflict", "python -m pip install --dry-run 'attrs>=23' 'attrs<20'", "dependency", built=[told("attrs")]),
    Case("pip-conflict-inner", "python -m pip install --dry-run 'jsonschema==4.17.3' 'attrs==17.3.0'", "dependency", built=[told("attrs")]),
    Case("pip-build", "python -m pip install --no-build-isolation ./broken", "dependency", {"broken/setup.py": _SETUP}, built=[told("./broken")]),
    Case("pip-hash", "python -m pip install --target ../t --require-hashes -r requirements.txt", "dependency", {"requirements.txt": "idna==3.7 --hash=sha256:" + "0" * 64 + "\n"}, built=[told("idna==3.7")]),
    Case("uv-missing", "uv pip install --dry-run --python 3.11 'requests==99.99.99'", "dependency", built=[told("requests==99.99.99")]),
    Case("uv-conflict", "uv lock", "dependency", {"pyproject.toml": _PYPROJECT}, built=[told("attrs")]),
    Case("poetry-missing", "poetry lock", "dependency", {"pyproject.toml": '[tool.poetry]\nname = "app"\nversion = "1"\ndescription = ""\nauthors = []\n[tool.poetry.dependencies]\npython = ">=3.11"\nidna = "99.9"\n'}, built=[told("idna")], env=_POETRY),
    Case("poetry-stale-lock", "poetry install", "dependency", {"poetry.lock": 'package = []\n\n[metadata]\nlock-version = "2.1"\npython-versions = ">=3.11"\ncontent-hash = "' + "0" * 64 + '"\n', "pyproject.toml": '[tool.poetry]\nname = "app"\nversion = "1"\ndescription = ""\nauthors = []\n[tool.poetry.dependencies]\npython = ">=3.11"\nidna = ">=3.6"\n'}, built=[told("poetry.lock")], env=_POETRY),
)  # fmt: skip
CASES = (*_PYTEST, *_OTHER_TESTS, *_LINTERS, *_INSTALLING)
