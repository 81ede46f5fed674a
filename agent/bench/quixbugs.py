"""QuixBugs (Python): forty small algorithms, each with a bug on one line, read from a checkout of the public layout.

    python_programs/NAME.py            the broken program, with a function NAME
    json_testcases/NAME.json           cases, `[arguments, expected]` one after the other; missing for graph programs
    python_testcases/test_NAME.py      its tests, which read the cases from `load_testdata`; missing in older checkouts
    correct_python_programs/NAME.py    the reference; may be missing, and is never shown

Layout: https://github.com/jkoppel/QuixBugs (D. Lin et al., 2017).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from agent.bench.differential import Function
from agent.bench.functions import FunctionTask, OracleKind, Texts, function_benchmark
from agent.bench.lab import BadInput, Benchmark, NotPosed

PROGRAMS, CASES, TESTS, REFERENCES = "python_programs", "json_testcases", "python_testcases", "correct_python_programs"
_CONFTEST = "import pytest\n\n\ndef pytest_configure(config):\n    pytest.use_correct = pytest.run_slow = False\n"
_HEADER = '''\
from collections.abc import Iterator

import pytest

from {programs}.{name} import {name}


def plain(value):
    """JSON has only lists."""
    return [plain(item) for item in value] if isinstance(value, (Iterator, list, tuple)) else value
'''
_TEST = "\n\ndef test_{number:02}():\n    assert plain({name}(*{arguments!r})) == {expected}\n"


def load(root: Path, oracle: OracleKind) -> Benchmark:
    """Raises `BadInput`."""
    stems = [file.stem for file in sorted((root / PROGRAMS).glob("*.py"))]
    names = [n for n in stems if (root / CASES / f"{n}.json").is_file() or (root / TESTS / f"test_{n}.py").is_file()]
    if not names:
        raise BadInput(
            f"{root} is not a checkout of QuixBugs: it needs {PROGRAMS}/NAME.py with {CASES}/NAME.json "
            f"or {TESTS}/test_NAME.py; give its top folder"
        )
    groups = {name: "with cases" if (root / CASES / f"{name}.json").is_file() else "graphs" for name in names}
    return function_benchmark("quixbugs", groups, oracle, partial(_task, root))


def _task(root: Path, name: str) -> FunctionTask:
    """Raises `NotPosed`."""
    program = f"{PROGRAMS}/{name}.py"
    tests, reference = root / TESTS / f"test_{name}.py", root / REFERENCES / f"{name}.py"
    cases = _cases(root / CASES / f"{name}.json")
    files = {program: _read(root / program)}
    if tests.is_file():
        for path in (f"{TESTS}/load_testdata.py", f"{TESTS}/node.py", f"{PROGRAMS}/node.py"):
            if (root / path).is_file():
                files[path] = _read(root / path)
        files["conftest.py"] = _read(root / "conftest.py") if (root / "conftest.py").is_file() else _CONFTEST
        files[f"{TESTS}/test_{name}.py"] = _read(tests)

    def write(shown: Sequence[str]) -> Texts:
        if not cases:
            return {}
        if tests.is_file():
            return {f"{CASES}/{name}.json": "".join(f"{case}\n" for case in shown)}
        return {f"{TESTS}/test_{name}.py": _written(name, shown)}

    calls = tuple(repr((tuple(_arguments(case)), {})) for case in cases)
    return FunctionTask(
        id=name,
        files=files,
        cases=cases,
        write=write,
        function=Function(f"{PROGRAMS}.{name}", name, calls=calls) if calls else None,
        reference={program: _read(reference)} if reference.is_file() else None,
    )


def _cases(file: Path) -> tuple[str, ...]:
    """The cases, each as one line of JSON. Raises `NotPosed`."""
    if not file.is_file():
        return ()
    decoder, text, at, cases = json.JSONDecoder(), _read(file), 0, list[str]()
    while at < len(text.rstrip()):
        at += len(text[at:]) - len(text[at:].lstrip())
        try:
            case, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise NotPosed(f"{file} is not a series of JSON values: {error}") from error
        if not isinstance(case, list) or len(case) != 2:
            raise NotPosed(f"{file} contains a case that is not [arguments, expected]")
        cases.append(json.dumps(case))
    return tuple(cases)


def _arguments(case: str) -> list[object]:
    arguments = json.loads(case)[0]
    return arguments if isinstance(arguments, list) else [arguments]


def _written(name: str, cases: Sequence[str]) -> str:
    """Selfheal's own tests, for checkouts without tests; floats are compared approximately."""
    tests = []
    for number, case in enumerate(cases, 1):
        expected = json.loads(case)[1]
        told = f"pytest.approx({expected!r})" if isinstance(expected, float) else repr(expected)
        tests.append(_TEST.format(number=number, name=name, arguments=_arguments(case), expected=told))
    return _HEADER.format(programs=PROGRAMS, name=name) + "".join(tests)


def _read(file: Path) -> str:
    """Raises `NotPosed`."""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotPosed(f"{file} cannot be read: {error}") from error
