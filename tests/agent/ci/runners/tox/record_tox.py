# ruff: noqa: E501 - files, written as text
"""Records what the real tox says of a corpus of configurations, as the judge of our own reading (`tox_recorded.json`).

Run by hand where tox 4 is installed: `python tests/agent/ci/runners/tox/record_tox.py PATH_OF_TOX`. Modelled on what popular
projects have in their files; nothing of theirs is copied.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
KEYS = (
    *("commands_pre", "commands", "commands_post", "deps", "extras", "dependency_groups", "set_env", "change_dir"),
    *("base_python", "package", "skip_install", "use_develop"),
)
OWN = ("PIP_", "PYTHONHASHSEED", "PYTHONIOENCODING", "TOX_", "VIRTUAL_ENV")  # what tox sets in every environment
PROJECT = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n[project]\nname = "x"\nversion = "1"\n'
PROJECT += "[project.optional-dependencies]\ntest = []\ndocs = []\n[dependency-groups]\ntest = []\nlint = []\ndev = []\n"


def case(file: str, text: str, envs: str, posargs: list[str] | None = None, env: dict[str, str] | None = None) -> dict:
    return {"file": file, "text": text, "envs": envs, "posargs": posargs, "env": env or {}}


CASES = {
    "generative": case(
        "tox.ini",
        """[tox]
min_version = 4
env_list =
    py{39,310,311}-django{42,50}
    lint, docs
[testenv]
description = run tests
deps =
    pytest>=7
    pytest-cov
    django42: Django>=4.2,<4.3
    django50: Django>=5.0,<5.1
    -r requirements/test.txt
    -c{toxinidir}/constraints.txt
extras = test
commands = pytest --cov={toxinidir}/src {posargs:tests}
[testenv:lint]
skip_install = true
deps = ruff
commands =
    ruff check .
    ruff format --check .
[testenv:docs]
changedir = docs
extras = docs
commands = sphinx-build -W -b html -d {envtmpdir}/doctrees . {envtmpdir}/html
""",
        "py39-django42,py311-django50,lint,docs",
    ),
    "posargs given": case(
        "tox.ini", "[testenv]\ncommands = {envpython} -m pytest {posargs:tests -q}\n", "py", ["-k", "a or b", "--maxfail=1"]
    ),
    "posargs with a substitution as its default": case(
        "tox.ini", "[testenv]\ncommands = pytest {posargs:{toxinidir}/tests --basetemp={envtmpdir}}\n", "py312"
    ),
    "set_env": case(
        "tox.ini",
        """[testenv]
setenv =
    PYTHONPATH = {toxinidir}/src:{toxinidir}
    COVERAGE_FILE = {env:COVERAGE_FILE:{toxworkdir}/.coverage.{envname}}
    HASH = {env:HASH_SEED:0}
    py311: ONLY = yes
    !py311: OTHER = yes
    MODE = {env:MODE}
    THEN = {env:MODE}-{env:HASH}
commands = python -c "import os; print(os.environ['PYTHONPATH'])" {env:HASH}
""",
        "py311,py312",
        env={"MODE": "fast"},
    ),
    "sections refer to each other": case(
        "tox.ini",
        """[tox]
envlist = unit, integration
[base]
deps =
    pytest
    hypothesis
flags = -ra --strict-markers
[testenv]
deps = {[base]deps}
commands = pytest {[base]flags} tests/{envname}
[testenv:integration]
deps =
    {[testenv]deps}
    requests
setenv =
    {[testenv:unit]setenv}
    LEVEL = 2
commands =
    {[testenv]commands} --slow
    - coverage combine
[testenv:unit]
setenv =
    LEVEL = 1
""",
        "unit,integration",
    ),
    "factors in commands": case(
        "tox.ini",
        """[testenv]
deps =
    cov: coverage
    !cov: pytest-xdist
    py{310,311}-cov: typing-extensions
    lint,type: mypy
commands =
    cov: coverage run -m pytest {posargs}
    cov: coverage report
    !cov: pytest -n 2 {posargs}
package = editable
""",
        "py310-cov,py312-cov,py311,lint",
    ),
    "before and after": case(
        "tox.ini",
        """[testenv]
commands_pre =
    python -m pip --version
    - rm -rf build
commands =
    pytest \\
        --cov pkg \\
        tests
commands_post = python -m coverage xml -o {toxinidir}/cov-{envname}.xml
usedevelop = true
""",
        "py310",
    ),
    "generative sections": case(
        "tox.ini",
        """[tox]
env_list = py{310-312}, {lint,types}
[testenv]
commands = pytest
[testenv:{lint,types}]
skip_install = true
deps =
    lint: flake8
    types: mypy
commands =
    lint: flake8 src
    types: mypy src
""",
        "py311,lint,types",
    ),
    "inheritance": case(
        "tox.ini",
        """[testenv]
deps = pytest
setenv = A = 1
commands = pytest
[slow]
deps = pytest-slow
extras = test
commands = pytest --slow
[testenv:nightly]
base = slow
basepython = python3.12
""",
        "nightly",
    ),
    "quotes and marks": case(
        "tox.ini",
        r"""[testenv]
allowlist_externals = *
commands =
    python -c 'print("a b")'
    -python bad.py
    ! python -m must_fail
    bash -c "echo $HOME && ls *.py"
    python -m pytest -m "not slow" -k 'x and not y'   # a comment
    echo \{literal\} {unknown}
""",
        "py",
    ),
    "setup.cfg": case(
        "setup.cfg",
        """[metadata]
name = x
[tox:tox]
envlist = py311
skipsdist = true
[testenv]
deps = -rrequirements.txt
commands = python -m unittest discover -s {toxinidir}/tests
""",
        "py311",
    ),
    "legacy in pyproject": case(
        "pyproject.toml",
        PROJECT
        + '''[tool.tox]
legacy_tox_ini = """
[tox]
envlist = py310,py311
isolated_build = true
[testenv]
extras = test
commands = pytest {posargs}
"""
''',
        "py311",
        ["tests/test_a.py"],
    ),
    "native in pyproject": case(
        "pyproject.toml",
        PROJECT
        + """[tool.tox]
requires = ["tox>=4.21"]
env_list = ["3.12", "3.11", "lint"]
[tool.tox.env_run_base]
description = "tests"
dependency_groups = ["test"]
extras = ["test"]
set_env = { A = "1", COVERAGE_FILE = "{work_dir}/cov.{env_name}", B = { replace = "env", name = "B", default = "two" } }
commands = [["pytest", "-q", { replace = "posargs", default = ["tests", "{env_tmp_dir}"], extend = true }], ["-", "echo", "x y"]]
[tool.tox.env.lint]
skip_install = true
dependency_groups = ["lint"]
commands = [["ruff", "check", "."]]
""",
        "3.12,lint",
    ),
    "tox.toml": case(
        "tox.toml",
        """env_list = ["py311", "type"]
[env_run_base]
deps = ["pytest>=8", "-r requirements.txt"]
package = "wheel"
commands = [["pytest", { replace = "posargs", extend = true }]]
[env.type]
deps = [{ replace = "ref", of = ["env_run_base", "deps"], extend = true }, "mypy==1.15"]
change_dir = "{tox_root}/src"
commands = [["mypy", "--strict", "pkg"], { replace = "ref", of = ["env_run_base", "commands"], extend = true }]
""",
        "py311,type",
        ["-x"],
    ),
    "dependency groups": case(
        "tox.ini",
        """[testenv]
package = editable
dependency_groups =
    test
    dev
commands = pytest
[testenv:check]
package = skip
dependency_groups = lint
commands = ruff check
""",
        "py312,check",
    ),
    "no package": case(
        "tox.ini",
        "[tox]\nno_package = true\n[testenv]\nchangedir = {toxinidir}/tests\ndeps =\n    ..\n    pytest\ncommands = pytest . {envsitepackagesdir}/x\n",
        "py",
    ),
    "keys of the environment itself": case(
        "tox.ini",
        "[tox]\nenv_list = a-b\n[testenv]\nsrc = lib\nchange_dir = work\ncommands = pytest {[testenv]src} {envname} {env_name} {changedir} {/}\n",
        "a-b",
    ),
    "comments and blank lines": case(
        "tox.ini",
        "[testenv]\ndeps =\n    # for tests\n    pytest  # runner\n\n    attrs\ncommands =\n    # first\n    pytest\n\n    # second\n    python -V\n",
        "py",
    ),
    "negation and several factors": case(
        "tox.ini",
        "[testenv]\ndeps =\n    !py39-!pypy: numpy\n    py39,pypy: numpy<2\n    linux: uvloop\n    win32: colorama\n    darwin,linux-!cov: psutil\ncommands = pytest\n",
        "py39,py312,pypy-cov,py310-cov",
    ),
}


def record(tox: str, one: dict) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "pyproject.toml").write_text(PROJECT)
        for name in ("requirements.txt", "requirements/test.txt", "constraints.txt"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text("")
        (root / one["file"]).write_text(one["text"])
        more = [] if one["posargs"] is None else ["--", *one["posargs"]]
        arguments = [tox, "config", "-c", one["file"], "--format", "json", "-e", one["envs"], "-k", *KEYS, *more]
        env = {"PATH": os.environ["PATH"], "HOME": folder, **one["env"]}
        ended = subprocess.run(arguments, cwd=root, env=env, capture_output=True, text=True, timeout=60)
        if ended.returncode != 0:
            sys.exit(f"{one['text']}\n{ended.stdout}{ended.stderr}")
        environments = json.loads(ended.stdout.replace(str(root), "ROOT"))["env"]
        for said in environments.values():
            said["set_env"] = {key: value for key, value in said["set_env"].items() if not key.startswith(OWN)}
            # Where the name asks for no Python it is the one that runs tox.
            said["base_python"] = [name for name in said["base_python"] if not name.startswith("/")]
        listing = [tox, "list", "-c", one["file"], "-d", "--no-desc", "-q"]
        listed = subprocess.run(listing, cwd=root, env=env, capture_output=True, text=True, timeout=60, check=True).stdout
        return {"env": environments, "list": listed.split()}


if __name__ == "__main__":
    recorded = {name: {**one, "tox": record(sys.argv[1], one)} for name, one in CASES.items()}
    (HERE / "tox_recorded.json").write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
