"""Records lock files and what the real tools would install from them (`locks_recorded.json`), to judge `locked`.

Run by hand on Python 3.11 where uv and pipenv are: `python tests/agent/ci/project/record_locks.py FOLDER_OF_TOOLS`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

HERE = Path(__file__).parent
NEEDS = ["rich>=13", "exceptiongroup; python_version < '3.11'", "colorama; sys_platform == 'win32'"]
EXTRA, DEV, DOCS = ["requests[socks]>=2.31"], ["pytest>=8", "httpx[socks]>=0.27"], ["markdown-it-py"]
HEAD = f"""[project]
name = "thing"
version = "1"
requires-python = ">=3.9"
dependencies = {json.dumps(NEEDS)}
[project.optional-dependencies]
net = {json.dumps(EXTRA)}
"""
GROUPS = f"[dependency-groups]\ndev = {json.dumps(DEV)}\ndocs = {json.dumps(DOCS)}\n"
PIPFILE = """[packages]
rich = ">=13"
exceptiongroup = {version = "*", markers = "python_version < '3.11'"}
[dev-packages]
pytest = ">=8"
"""
CASES = [([], []), (["net"], []), ([], ["dev"]), (["net"], ["dev", "docs"])]


def run(folder: Path, *arguments: str) -> str:
    env = {
        **os.environ,
        "HOME": str(folder),
        "VIRTUAL_ENV": "",
        "POETRY_VIRTUALENVS_IN_PROJECT": "1",
        "PIPENV_VENV_IN_PROJECT": "1",
    }
    ended = subprocess.run(arguments, cwd=folder, env=env, capture_output=True, text=True, timeout=200)
    if ended.returncode != 0:
        sys.exit(f"{arguments}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def pins(text: str) -> list[str]:
    """Those of a requirements file that hold here."""
    lines = [line.strip() for line in text.split("\n") if line.strip() and not line.startswith(("#", "-", " "))]
    parsed = [Requirement(line) for line in lines]
    return sorted({f"{one.name.lower()}{one.specifier}" for one in parsed if one.marker is None or one.marker.evaluate()})


def uv(folder: Path, tools: Path) -> tuple[str, list[list[str]]]:
    (folder / "pyproject.toml").write_text(HEAD + GROUPS)
    run(folder, str(tools / "uv"), "lock")
    said = []
    for extras, groups in CASES:
        asked = [*(f"--extra={name}" for name in extras), *(f"--group={name}" for name in groups), "--no-default-groups"]
        said.append(pins(run(folder, str(tools / "uv"), "export", "--frozen", "--no-hashes", "--no-emit-project", *asked)))
    return (folder / "uv.lock").read_text(), said


def pipenv(folder: Path, tools: Path) -> tuple[str, list[list[str]]]:
    (folder / "Pipfile").write_text(PIPFILE)
    run(folder, str(tools / "pipenv"), "lock", "-q")
    return (folder / "Pipfile.lock").read_text(), [
        pins(run(folder, str(tools / "pipenv"), "requirements")),
        pins(run(folder, str(tools / "pipenv"), "requirements", "--dev")),
    ]


def slim(lock: str) -> str:
    """Without where the files lie and their sums, which are nobody's judge."""
    lock = re.sub(r"https?://[^\s\"']+", "https://index.example/simple", lock)
    lock = re.sub(r"(?m)^(?:wheels|files) = \[\n(?: .*\n)*\]\n", "", lock)
    lock = re.sub(r"(?m)^(?:sdist = .*|description = .*|content[-_]hash = .*)\n", "", lock)
    return re.sub(r'(?s)"hashes": \[.*?\],', "", lock)


if __name__ == "__main__":
    recorded = {}
    for tool in (uv, pipenv):
        with tempfile.TemporaryDirectory() as folder:
            lock, said = tool(Path(folder), Path(sys.argv[1]))
        recorded[tool.__name__] = {"lock": slim(lock), "said": said}
    kept = {"cases": CASES, "needs": NEEDS, "extra": EXTRA, "dev": DEV, "docs": DOCS, "tools": recorded}
    (HERE / "locks_recorded.json").write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
