"""Records what the jobs of the stand-in repositories really come to: the judge of the replays. Uses nothing of Selfheal.

`NAME/LEG.sh` is one leg of one job of `../workflows/ten/NAME.yml` as a person would do it by hand, on a copy of
`NAME/repository`, with the real tools (pip, tox, nox, pipx, uv, poetry, coverage, PostgreSQL, Redis): its matrix values and
outputs are written out, `#: NAME` begins a step with the name that GitHub shows, what comes before the first one is done
before each. Each step is a `bash -e` of its own. What was said is kept as GitHub shows the log of a job (`LEG.log`), and what
failed, in the words of the tools themselves, in `LEG.json`.

By hand, with the wanted Pythons (python3.11, python3.12, …) on the PATH: `python tests/data/replays/record.py [NAME/LEG]…`
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pip._internal.models.index import PyPI

HERE = Path(__file__).parent
TEN = HERE.parent / "workflows" / "ten"
PATIENCE = 600  # seconds that one step may take
# How to reach a package index is the machine's to say; nothing of it is kept.
PASSED_ON = re.compile(r"PIP_.*|UV_.*INDEX.*|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|(?:https?|no|all)_proxy", re.IGNORECASE)
# Poetry asks an interface of the index that not every mirror has; with this it asks the one that pip asks, too.
MIRROR = "poetry-plugin-pypi-mirror<0.5"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s(].*?)(?: - .*)?$", re.MULTILINE)  # of pytest's summary
_UNITTEST = re.compile(r"^(?:FAIL|ERROR): (\w+) \((\S+)\)$", re.MULTILINE)
_RUFF = re.compile(r"^(\S+?):\d+:\d+: ([A-Z]+\d+ .*)$", re.MULTILINE)


def repository(name: str, folder: Path) -> None:
    """A stand-in with its workflow, as it would be checked out."""
    shutil.copytree(HERE / name / "repository", folder)
    github = folder / ".github"
    places = {
        f"{name}.yml": f"workflows/{name}.yml",
        f"{name}-called.yml": f"workflows/{name}-called.yml",
        f"{name}.action.yml": "actions/prepare/action.yml",
    }
    for file, place in places.items():
        if (TEN / file).is_file():
            (github / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TEN / file, github / place)


class Job:
    """One leg's script, taken apart."""

    def __init__(self, script: Path) -> None:
        self.name, self.leg = script.parent.name, script.stem
        head, *steps = re.split(r"^#: (.*)\n", script.read_text(), flags=re.MULTILINE)
        self.head = head
        self.steps = list(zip(steps[::2], steps[1::2], strict=True))

    def said(self, what: str) -> str:
        found = re.search(rf"^# {what}: (.*)$", self.head, re.MULTILINE)
        return found[1] if found else ""


def record(script: Path) -> None:
    job = Job(script)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        checkout, temp, home = root / "work", root / "temp", root / "home"
        temp.mkdir()
        home.mkdir()
        repository(job.name, checkout)
        env = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
        paths = [environment(root / "python", job.said("Python"), [])]
        if tools := job.said("Tools").split():
            paths.append(environment(root / "tools", job.said("Python"), tools))
        outer = [path for path in os.environ["PATH"].split(os.pathsep) if "shims" not in path]
        env |= {
            "HOME": str(home), "PATH": os.pathsep.join([*paths, *outer]), "LC_ALL": "C.UTF-8", "RUNNER_TEMP": str(temp),
            "CI": "true", "GITHUB_ACTIONS": "true", "RUNNER_OS": "Linux", "GITHUB_WORKSPACE": str(checkout),
            "POETRY_PYPI_MIRROR_URL": PyPI.simple_url,
        }  # fmt: skip
        if (checkout / "pyproject.toml").is_file():
            lock(job, checkout, env)
        log = Log(root)
        conclusions, failing, exit_code, failed = {}, [], 0, ""
        for name, text in job.steps:
            title = name.removesuffix(" (skipped)")
            # What GitHub does beside the steps is in the script to be done, and is no step.
            is_step = title not in ("Initialize containers", "Stop containers")
            always = not is_step or not text.strip() or "always" in name
            if title != name or (failed and not always):
                conclusions[title] = "skipped"
                continue
            log.add(
                f"##[group]{title if title.startswith('Run ') else f'Run {title}'}", *text.strip().split("\n"), "##[endgroup]"
            )
            ran = subprocess.run(
                ["bash", "-e", "-c", f"{job.head}\n{text}"],
                cwd=checkout, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
            )  # fmt: skip
            log.add(*ran.stdout.rstrip("\n").split("\n"))
            if is_step:
                conclusions[title] = "failure" if ran.returncode else "success"
            if ran.returncode:
                log.add(f"##[error]Process completed with exit code {ran.returncode}.")
                where = re.search(r"^cd ([\w/]+)$", text, re.MULTILINE)
                exit_code, failed, failing = ran.returncode, title, ids(ran.stdout, f"{where[1]}/" if where else "")
        version = subprocess.run([f"{paths[0]}/python", "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    if not failing:
        sys.exit(f"{script}: nothing failed that the tools name\n" + "\n".join(log.lines))
    told = {
        "python": version, "job": job.said("Job"), "failed_step": failed, "conclusions": conclusions, "exit_code": exit_code,
        "failing": failing,
    }  # fmt: skip
    script.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
    script.with_suffix(".log").write_text("\n".join(log.lines) + "\n")
    print(f"{job.name}/{job.leg}: {failed}: {' '.join(failing)}")


def environment(folder: Path, python: str, packages: list[str]) -> str:
    """What an action for setup would bring: the folder of its programs."""
    subprocess.run([f"python{python}", "-m", "venv", folder], check=True, timeout=PATIENCE)
    if packages:
        subprocess.run([folder / "bin" / "pip", "install", "-q", *packages], check=True, timeout=PATIENCE)
    return str(folder / "bin")


def lock(job: Job, checkout: Path, env: dict[str, str]) -> None:
    """The lock file of a stand-in that has none yet, as its authors would have made it; without the index's address."""
    text = (checkout / "pyproject.toml").read_text()
    commands = {"uv.lock": (["uv", "lock"], ["uv"]), "poetry.lock": (["poetry", "lock", "-q"], ["poetry==1.8.3", MIRROR])}
    for name, (command, needed) in commands.items():
        if f"[tool.{command[0]}]" not in text:
            continue
        kept = HERE / job.name / "repository" / name
        (checkout / name).unlink(missing_ok=True)
        tools = environment(Path(env["HOME"]) / "lock", job.said("Python"), needed)
        plain = {**env, "PATH": f"{tools}{os.pathsep}{env['PATH']}"}
        subprocess.run(command, cwd=checkout, env=plain, check=True, timeout=PATIENCE)
        kept.write_text(neutral((checkout / name).read_text()))


def neutral(text: str) -> str:
    """Without the addresses of the machine's index and mirrors."""
    text = re.sub(r"https?://[^/\s\"']+/simple/?", "https://index.example/simple", text)
    return re.sub(
        r"https?://(?!index\.example)[^\s\"']*?([^/\s\"']+\.(?:whl|tar\.gz|zip|metadata))", r"https://files.example/\1", text
    )


def ids(output: str, folder: str) -> list[str]:
    """What failed, as the tool that ran last names it: pytest's summary, unittest's headings, ruff's findings.

    Paths are told as seen from the repository's root; the tool ran in `folder` ("" or "packages/api/").
    """
    plain = _ANSI.sub("", output)
    found = [folder + found for found in _FAILED.findall(plain)] or [dotted for _, dotted in _UNITTEST.findall(plain)]
    return sorted(set(found)) or sorted({f"{path}: {text}" for path, text in _RUFF.findall(plain)})


class Log:
    """A job's log as GitHub shows it. What is of the machine becomes what GitHub's own would say, or is left out."""

    def __init__(self, root: Path) -> None:
        self.root, self.lines = root, list[str]()

    def add(self, *lines: str) -> None:
        for line in lines:
            if re.search(
                r"Looking in (?:indexes|links)|is ignored: it is neither a file|find-links|Stored in directory|\[notice\]", line
            ):
                continue
            line = line.replace(f"{self.root}/work", "/home/runner/work/repository/repository")
            line = line.replace(f"{self.root}/temp", "/home/runner/work/_temp").replace(f"{self.root}/home", "/home/runner")
            line = re.sub(rf"{self.root}/(?:python|tools)", "/opt/hostedtoolcache/Python/x64", line)
            line = re.sub(r"(?:/[\w.+-]+)*/versions/(3\.\d+\.\d+)", r"/opt/hostedtoolcache/Python/\1/x64", line)
            line = re.sub(r"(?:https?|file)://\S+", "https://index.example/", neutral(line))
            now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f0Z")
            self.lines.append(f"{now} {line}")


if __name__ == "__main__":
    asked = [HERE / f"{name}.sh" for name in sys.argv[1:]]
    for one in asked or sorted(HERE.glob("*/*.sh")):
        record(one)
