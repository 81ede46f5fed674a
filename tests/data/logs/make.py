"""Makes the corpus of job logs: runs real tools on small failing projects and keeps what they print, as GitHub shows it.

    python tests/data/logs/make.py TOOLS [NAME…]

TOOLS is a folder outside of the project that keeps the tools: a virtual environment `py` and an npm project `js`, made where they
are missing, and `goroot` where Go shall be had from there; cargo, javac, mvn, gcc and node come from the machine. Other versions in
TOOLS show how far the readers carry.

Beside each log lies expected.json: what the run's own report says failed, reduced by reports.py ("judge": "report"). Where a tool
writes no report it is what the project was built to fail with ("construction"); logs of runs that end outside any tool follow
GitHub's documentation ("documented"). Nothing here reads a log, so nobody grades their own reading.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cases_javascript
import cases_machine
import cases_other
import cases_python
from case import Case, Made

HERE = Path(__file__).parent
CASES: tuple[Case, ...] = (*cases_python.CASES, *cases_javascript.CASES, *cases_other.CASES, *cases_machine.CASES)
HOME = "/home/runner/work/app/app"
# What a machine shows of itself, made neutral in logs.
_HOSTS = re.compile(
    r"https?://(?!localhost|127\.0\.0\.1|docs\.|pytest|github\.com|json\.schemastore)[\w.-]+(?::\d+)?(?=[/\s'\"),]|$)"
)
_OWN = (
    "docs",
    "errors.pydantic.dev",
    "pip.pypa.io",
    "doc.rust-lang.org",
    "maven.apache.org/xsd",
    "cwiki.apache.org",
    "pylint",
    "nodejs.org",
    "npmjs.com/support",
)


PYTHON_TOOLS = (
    "black==26.10.1", "coverage==7.17.3", "flake8==7.5.0", "isort==9.0.2", "mypy==2.4.1", "nox==2026.10.20", "poetry==2.5.1",
    "pre-commit==4.7.0", "pylint==4.1.4", "pyright==1.1.414", "pytest==9.2.0", "pytest-cov==7.1.0", "pytest-reportlog==1.0.0",
    "pytest-rerunfailures==16.7", "pytest-timeout==2.4.0", "pytest-xdist==3.8.0", "ruff==0.17.6", "setuptools", "tox==4.67.15",
    "unittest-xml-reporting==4.0.0", "uv==0.13.9",
)  # fmt: skip
NODE_TOOLS = ("eslint@9.39.5", "jest@30.5.2", "mocha@12.0.3", "prettier@3.10.1", "typescript@7.0.2", "vitest@4.1.12")


def install(tools: Path) -> None:
    """Makes what of TOOLS is missing."""
    if not (tools / "py").exists():
        subprocess.run([sys.executable, "-m", "venv", tools / "py"], check=True)
        subprocess.run([tools / "py" / "bin" / "pip", "install", "-q", *PYTHON_TOOLS], check=True, timeout=600)
    if not (tools / "js").exists():
        (tools / "js").mkdir(parents=True)
        (tools / "js" / "package.json").write_text('{"name": "tools", "private": true}')
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", *NODE_TOOLS], cwd=tools / "js", check=True, timeout=600)


def main(tools: Path, names: list[str]) -> None:
    install(tools)
    for case in CASES:
        if not names or case.name in names:
            print(case.name, end=" ", flush=True)
            made = make(case, tools)
            print(made.exit_code, len(made.log), len(made.expected.get("failures", ())))
            if len(made.log) > 50_000:
                raise SystemExit(f"the log of {case.name} is too big")
            folder = HERE / case.name
            folder.mkdir(exist_ok=True)
            (folder / "log.txt").write_text(made.log, encoding="utf-8", newline="")
            (folder / "expected.json").write_text(json.dumps(made.expected, indent=1, ensure_ascii=False) + "\n")


def make(case: Case, tools: Path) -> Made:
    if case.log is not None:
        return Made(case.log, 1, {"cause": case.cause, "judge": "documented", "failures": list(case.built)})
    # JavaScript finds its packages in the folders above the project.
    root = Path(tempfile.mkdtemp(dir=tools / "js" if case.javascript else None, prefix="job-"))
    project = root / "app"
    project.mkdir()
    try:
        for name, text in case.files.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        environment = _environment(tools, root) | case.env
        printed, code = _run(case.run, project, environment)
        if case.report_run:
            _run(case.report_run, project, environment)
        if case.report is not None:
            try:
                judge, failures = "report", case.report(project)
            except (OSError, ValueError, KeyError, IndexError, StopIteration) as error:
                raise SystemExit(
                    f"{case.name} wrote no report to judge by ({error!r}); it printed:\n{printed[-4000:]}"
                ) from error
        else:
            judge, failures = "construction", list(case.built)
        expected = {"cause": case.cause, "judge": judge, "exit_code": code, "failures": failures}
        text = _neutral(printed, project, tools)
        for failure in failures:
            for key in ("id", "path"):
                failure[key] = _neutral(failure.get(key, ""), project, tools).replace(HOME + "/", "")
        return Made(_as_github(case.run, text, code) if case.github else text, code, expected)
    finally:
        shutil.rmtree(root)


def _environment(tools: Path, root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "GITHUB_", "npm_"))}
    path = [tools / "py" / "bin", tools / "js" / "node_modules" / ".bin", tools / "goroot" / "usr" / "lib" / "go-1.19" / "bin"]
    return kept | {
        "PATH": os.pathsep.join([*map(str, path), os.environ["PATH"]]), "COLUMNS": "80", "TERM": "dumb", "CI": "true", "GOFLAGS": "-mod=mod",
        "GOCACHE": str(tools / "gocache"), "GOPATH": str(root / "go"), "GOROOT": str(tools / "goroot/usr/lib/go-1.19"), "PYTHONDONTWRITEBYTECODE": "1",
        "RUFF_NO_CACHE": "true", "CARGO_TARGET_DIR": str(root / "target"), "PRE_COMMIT_HOME": str(root / "pre-commit"), "LC_ALL": "C.UTF-8",
    }  # fmt: skip


def _run(command: str, project: Path, environment: dict[str, str]) -> tuple[str, int]:
    """What the step printed, both streams in one as a runner shows them, and its exit code."""
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command + "\n:" if "\n" in command else command],
        cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return done.stdout.decode("utf-8", "replace"), code


def _neutral(text: str, project: Path, tools: Path) -> str:
    for folder, name in (
        (project, HOME),
        (project.parent, "/home/runner/work/app"),
        (tools / "py", "/opt/hostedtoolcache/Python/3.11.9/x64"),
        (tools / "js", "/home/runner/work/app/app"),
        (tools, "/opt/tools"),
        (Path.home(), "/home/runner"),
    ):
        text = text.replace(str(folder.resolve()), name).replace(str(folder), name)

    def host(found: re.Match[str]) -> str:
        return found[0] if any(own in found[0] for own in _OWN) else "https://index.example"

    text = _HOSTS.sub(host, text)
    text = re.sub(
        r"(?m)^.*(?:is ignored: it is neither a file nor a directory|Looking in (?:indexes|links)|\[notice\]|Unknown user config|nodedir).*\n",
        "",
        text,
    )
    return re.sub(r"(?<![\w.-])/(?:opt/pypi|work|root|tmp)[\w./-]*", "/somewhere", text)


def _as_github(run: str, printed: str, code: int) -> str:
    """The log of a job that got ready, ran this one step, and cleaned up: groups, colours, a stamp on every line."""
    shown = run.strip().split("\n")
    before = [
        "Current runner version: '2.328.0'", "##[group]Runner Image Provisioner", "Hosted Compute Agent", "##[endgroup]", "Secret source: Actions",
        "Prepare workflow directory", "Prepare all required actions", "Getting action download info", "Complete job name: test",
        "##[group]Run actions/checkout@v4", "with:", "  repository: acme/app", "  fetch-depth: 1", "##[endgroup]", "Syncing repository: acme/app",
        "##[group]Run python -m pip --version", "\x1b[36;1mpython -m pip --version\x1b[0m", "shell: /usr/bin/bash -e {0}", "##[endgroup]", "pip 25.1 (python 3.11)",
        f"##[group]Run {shown[0]}", *[f"\x1b[36;1m{line}\x1b[0m" for line in shown], "shell: /usr/bin/bash -e {0}", "env:", "  CI: true", "##[endgroup]",
    ]  # fmt: skip
    failed = [f"##[error]Process completed with exit code {code}."] if code else []
    after = ["Post job cleanup.", "[command]/usr/bin/git version", "git version 2.43.0", "Cleaning up orphan processes"]
    lines = [*before, *printed.removesuffix("\n").split("\n"), *failed, *after]
    stamps = (f"2026-01-02T03:{at // 60 % 60:02}:{at % 60:02}.{1000000 + at}Z" for at in range(len(lines)))
    return "\ufeff" + "".join(f"{stamp} {line}\n" for stamp, line in zip(stamps, lines, strict=True))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
