# ruff: noqa: E501 - files, written as text
"""Records which sessions the real nox lists for a corpus of noxfiles, as the judge of what ours says (`nox_recorded.json`).

Run by hand where nox is installed: `python tests/agent/ci/runners/record_nox.py PATH_OF_NOX`. Each session writes what it would
install and run by a stand-in for its methods, so the commands are those that the real nox came to, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# Put behind the noxfile: the sessions tell what they do instead of doing it.
TELLS = """
import json as _json, os as _os
from nox.sessions import Session as _Session, SessionRunner as _Runner
from nox.virtualenv import PassthroughEnv as _NoEnv
_Runner._create_venv = lambda self: setattr(self, "venv", _NoEnv())
def _telling(kind):
    def tell(self, *args, **options):
        with open(_os.environ["TOLD"], "a") as file:
            env = {k: v for k, v in (options.get("env") or {}).items()}
            file.write(_json.dumps([self._runner.friendly_name, kind, [str(a) for a in args], env]) + "\\n")
    return tell
for _kind in ("install", "run", "run_always", "run_install"):
    setattr(_Session, _kind, _telling(_kind))
"""
PYPROJECT = """[project]
name = "x"
classifiers = ["Programming Language :: Python :: 3", "Programming Language :: Python :: 3.9", "Programming Language :: Python :: 3.11"]
[dependency-groups]
test = ["pytest>=8", {include-group = "base"}]
base = ["attrs"]
"""


def case(text: str, *arguments: str) -> dict:
    return {"text": "import nox\n" + text, "arguments": list(arguments)}


CASES = {
    "one session": case(
        "@nox.session\ndef tests(session):\n    session.install('pytest')\n    session.run('pytest', *session.posargs)\n"
    ),
    "posargs": case(
        "@nox.session\ndef tests(session):\n    args = session.posargs or ['tests', '-q']\n    if session.posargs:\n"
        "        session.run('echo', 'given')\n    session.run('pytest', *args)\n",
        *("--", "-k", "a or b"),
    ),
    "several pythons": case(
        "PY = ['3.10', '3.11']\n@nox.session(python=PY)\ndef tests(session):\n    session.install('.[test]')\n"
        "    session.run('python', '-m', 'pytest', f'--junitxml={session.python}.xml')\n",
        *("-s", "tests-3.11"),
    ),
    "parametrize": case(
        "@nox.session\n@nox.parametrize('django', ['4.2', '5.0'])\n@nox.parametrize('db', ['pg', 'lite'], ids=['postgres', 'sqlite'])\n"
        "def tests(session, django, db):\n    session.install(f'django=={django}', db)\n    session.run('pytest')\n"
    ),
    "parametrize several": case(
        "@nox.session(python=['3.10'])\n@nox.parametrize('a,b', [(1, 'x'), (2, 'y')])\ndef t(session, a, b):\n    session.run('echo', str(a), b)\n"
    ),
    "parametrized python": case(
        "@nox.session\n@nox.parametrize('python,dep', [('3.10', '1.0'), ('3.11', '2.0')])\ndef t(session, dep):\n    session.install(f'x=={dep}')\n"
    ),
    "param": case(
        "@nox.session\n@nox.parametrize('v', [nox.param('1', id='one', tags=['old']), nox.param('2', id='two')])\n"
        "def t(session, v):\n    session.run('echo', v)\n",
        *("-t", "old"),
    ),
    "options": case(
        "nox.options.sessions = ['lint', 'tests']\nDEPS = ('pytest', 'pytest-cov')\n@nox.session\ndef tests(session):\n"
        "    session.install('-r', 'requirements.txt', *DEPS)\n    session.run('pytest', env={'A': '1', 'B': 'x y'})\n"
        "@nox.session(name='lint', tags=['style'])\ndef run_lint(session):\n    session.install('ruff')\n    session.run('ruff', 'check', '.')\n"
        "@nox.session\ndef docs(session):\n    session.run('sphinx-build')\n"
    ),
    "default": case(
        "@nox.session(default=False)\ndef release(session):\n    session.run('twine')\n@nox.session\ndef tests(session):\n    session.run('pytest')\n"
    ),
    "keywords": case(
        "@nox.session\ndef unit_fast(session):\n    session.run('a')\n@nox.session\ndef unit_slow(session):\n    session.run('b')\n"
        "@nox.session\ndef docs(session):\n    session.run('c')\n",
        *("-k", "unit and not slow"),
    ),
    "functions": case(
        "def deps(session, *more, extra='test'):\n    session.install('-e', f'.[{extra}]')\ndef go(s, name):\n    s.run('pytest', name)\n"
        "@nox.session\ndef tests(session):\n    deps(session)\n    for name in ['a', 'b']:\n        go(session, name)\n"
    ),
    "groups": case(
        "PYPROJECT = nox.project.load_toml('pyproject.toml')\n@nox.session(python=nox.project.python_versions(PYPROJECT))\n"
        "def tests(session):\n    session.install(*nox.project.dependency_groups(PYPROJECT, 'test'))\n    session.run('pytest')\n",
        *("-s", "tests-3.9"),
    ),
    "environment": case(
        "import os\nX = os.environ.get('MODE', 'quick')\n@nox.session\ndef t(session):\n    cmd = ['pytest', '-m', X]\n    cmd += ['-q']\n"
        "    cmd.append('tests')\n    if X == 'slow' and not session.posargs:\n        cmd.extend(['--slow'])\n    session.run(*cmd)\n"
    ),
    "signature": case(
        "@nox.session(python=['3.10', '3.11'])\n@nox.parametrize('n', [1, 2])\ndef t(session, n):\n    session.run('echo', f'{n}')\n",
        *("-s", "t-3.11(n=2)"),
    ),
}


def record(nox: str, one: dict) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "noxfile.py").write_text(one["text"] + TELLS)
        (root / "pyproject.toml").write_text(PYPROJECT)
        (root / "told").write_text("")
        env = {"PATH": os.environ["PATH"], "HOME": folder, "TOLD": str(root / "told")}

        def run(*arguments: str) -> str:
            ended = subprocess.run([nox, *arguments], cwd=root, env=env, capture_output=True, text=True, timeout=60)
            if ended.returncode != 0:
                sys.exit(f"{one['text']}\n{ended.stdout}{ended.stderr}")
            return ended.stdout

        listed = json.loads(run("--list", "--json"))
        run(*one["arguments"])
        told = [json.loads(line) for line in (root / "told").read_text().splitlines()]
        return {"list": [{key: item[key] for key in ("session", "name", "python", "tags")} for item in listed], "told": told}


if __name__ == "__main__":
    recorded = {name: {**one, "nox": record(sys.argv[1], one)} for name, one in CASES.items()}
    (HERE / "nox_recorded.json").write_text(
        json.dumps({"pyproject": PYPROJECT, "cases": recorded}, indent=1, sort_keys=True) + "\n"
    )
