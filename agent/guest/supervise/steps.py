"""Starts the programs of a request: the steps before a check unobserved, the check itself with its tests observed.

Steps pass variables, PATH folders and outputs to later steps by `GITHUB_ENV`, `GITHUB_PATH` and `GITHUB_OUTPUT`. What they
write is hostile text; the functions that read it are used both inside and outside the sandbox.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from .. import NAME
from ..wire import channel
from . import shims

LIMIT = 1 << 20  # most bytes read from one file
FILES = ("env", "path", "output", "state", "step_summary")
LONGEST = 100000  # most bytes of a text that is passed as an argument: the system has a limit
# GitHub refuses the first kind too: https://docs.github.com/actions/reference/workflow-commands. The second kind controls our
# own programs. Honest jobs also set variables that make programs run code (BASH_ENV, LD_PRELOAD, …): `decisive_files` reports
# how a change affects those.
_REFUSED = re.compile(r"NODE_OPTIONS|SELFHEAL_.*")
_NOT_STARTED = "import sys; print(sys.argv[1]); sys.exit(127)"  # 127, as a shell exits
_WHY = 500  # characters
_DELIMITED = re.compile(r"^([^=\n]*?)<<(.+)$")


def argv_of(shell: str, script: str, folder: str) -> list[str]:
    """The command that runs `script` with `shell`: "bash", "sh", "python", or a template such as "bash -e {0}".

    Shells and Python get the script as an argument if it is not too long, because a script could change its own file. Raises
    ValueError if `shell` is empty.
    """
    if not shell.strip():
        raise ValueError("no shell is given")
    words = {
        "bash": ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "{0}"],
        "sh": ["sh", "-e", "{0}"],
        "python": ["python", "{0}"],
    }.get(shell) or shell.split()
    name = os.path.basename(words[0])
    if name == "bash" and not shutil.which("bash"):
        words = ["sh", "-e", "{0}"]
    if name == "python" and "/" not in words[0]:
        words[0] = sys.executable
    if name in ("bash", "sh", "dash", "python", "python3") and words.count("{0}") == 1 and len(script.encode()) <= LONGEST:
        at = words.index("{0}")
        return words[:at] + ["-c", script] + words[at + 1 :]
    path = os.path.join(folder, "script")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    return [path if word == "{0}" else word.replace("{0}", path) for word in words]


def create_files(folder: str) -> dict[str, str]:
    """Create the files, empty; returns the variables that name them."""
    os.makedirs(folder, exist_ok=True)
    variables = {}
    for name in FILES:
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "w", encoding="utf-8"):
            pass
        variables["GITHUB_" + name.upper()] = path
    return variables


def read_files(folder: str) -> dict[str, str]:
    """What the step wrote, by file. A missing or special file counts as empty."""
    texts = {}
    for name in ("env", "path", "output"):
        try:
            handle = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with os.fdopen(handle, "rb") as file:
            text = file.read(LIMIT).decode("utf-8", "replace")
        if text:
            texts[name] = text
    return texts


def values(text: str) -> dict[str, str]:
    """`NAME=value` lines and `NAME<<END … END` blocks as a dictionary; anything else is ignored."""
    found = {}
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        block = _DELIMITED.match(line)
        if block:
            kept: list[str] = []
            for inner in lines:
                if inner == block.group(2):
                    found[block.group(1)] = "\n".join(kept)
                    break
                kept.append(inner)
            continue
        name, equals, value = line.partition("=")
        if equals and name:
            found[name] = value
    return found


def environment(text: str) -> dict[str, str]:
    """The variables that a step is allowed to set for later steps."""
    return {
        name: value
        for name, value in values(text).items()
        if not _REFUSED.fullmatch(name) and not name.startswith(("GITHUB_", "RUNNER_")) and "\0" not in name + value
    }


def paths(text: str) -> list[str]:
    """The folders that a step adds to the PATH, the last one first."""
    return [line for line in reversed(text.replace("\r\n", "\n").split("\n")) if line.strip() and "\0" not in line]


class ProgramStarter:
    """Starts programs. Each sees what earlier steps wrote to `GITHUB_ENV` and `GITHUB_PATH`, and nothing else of ours.

    Each gets a new folder, created after all earlier programs have ended, so knowing an earlier folder does not help it.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.variables: dict[str, str] = {}
        self.path: list[str] = list(request["path"])
        self.added_path: list[str] = []  # the part of `path` that steps added
        self.folder = self.files = self.shims = ""

    def close(self) -> None:
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def new_folder(self) -> str:
        """Make the folder of the next program."""
        self.close()
        self.folder = tempfile.mkdtemp(prefix="selfheal-")
        self.files = os.path.join(self.folder, "step")
        self.shims = shims.install(self.folder, self.request["guest"])
        return self.folder

    def start_step(self, step: dict[str, Any], output: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        """Start a step before the check; its tests are not observed."""
        self.new_folder()
        return self._popen(step, self._environment(step), output)

    def start_check(self, canary: str) -> subprocess.Popen[bytes]:
        """Start the check itself in the current folder, which already holds its channel."""
        request = self.request
        environment = self._environment(request)
        restore = {name: environment.get(name) for name in ("PYTEST_ADDOPTS", "PYTHONPATH", shims.NODE_VARIABLE)}
        guest = request["guest"]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [restore["PYTHONPATH"], guest]))
        if request["reader"] == "pytest":
            options = ["-p " + NAME + ".observe.collector", restore["PYTEST_ADDOPTS"]]
            environment["PYTEST_ADDOPTS"] = " ".join(filter(None, options))
        if request["reader"] == "javascript":
            environment[shims.NODE_VARIABLE] = shims.install_node_hook(self.folder, restore[shims.NODE_VARIABLE])
        shims.install_verbose(self.shims, request["reader"])
        restore["PATH"] = self._without_shims(environment["PATH"])
        environment[channel.VARIABLE] = self.folder
        with open(os.path.join(self.folder, channel.REQUEST), "w", encoding="utf-8") as file:
            shared = {name: request[name] for name in ("root", "only", "conditions")}
            shared["absent"] = request.get("absent", ())  # other subcommands have none
            json.dump(dict(shared, restore=restore, canary=canary), file)
        return self._popen(request, environment)

    def test_environment(self) -> dict[str, str]:
        """The variables that the tests of the check see."""
        self.new_folder()
        environment = self._environment(self.request)
        environment["PATH"] = self._without_shims(environment["PATH"])
        return environment

    def apply_outputs(self) -> None:
        """Pass on to later programs the variables and PATH folders that the last step wrote."""
        texts = self.outputs()
        self.variables.update(environment(texts.get("env", "")))
        added = paths(texts.get("path", ""))
        self.added_path, self.path = added + self.added_path, added + self.path

    def outputs(self) -> dict[str, str]:
        """What the last program wrote for later ones: "env", "path", "output" → text."""
        return {name: self._without_shim_names(text) for name, text in read_files(self.files).items()}

    def _without_shim_names(self, text: str) -> str:
        """Replace paths of our shims (`command -v python` prints one), because they are deleted after this run."""

        def program_of(found: re.Match[str]) -> str:
            program = os.path.join(os.path.dirname(sys.executable), found.group(1))
            return program if os.path.exists(program) else found.group(1)

        return re.sub(re.escape(self.shims) + r"/([\w.+-]+)", program_of, text)

    def _environment(self, step: dict[str, Any]) -> dict[str, str]:
        environment = dict(os.environ)
        for more in (step["outer"], self.variables, step["env"]):  # later values win, as on GitHub
            environment.update(more)
        parts = [self.shims, *self.path, os.path.dirname(sys.executable), environment.get("PATH", os.defpath)]
        environment["PATH"] = os.pathsep.join(parts)
        environment.update(create_files(self.files))
        environment["GITHUB_WORKSPACE"] = self.request["root"]
        if "GITHUB_ACTIONS" in step["outer"]:  # the variables that actions/setup-python sets
            for name in ("pythonLocation", "Python_ROOT_DIR", "Python3_ROOT_DIR"):
                environment.setdefault(name, os.path.dirname(os.path.dirname(sys.executable)))
        return environment

    def _without_shims(self, path: str) -> str:
        return path.partition(os.pathsep)[2]

    def _popen(
        self, step: dict[str, Any], environment: dict[str, str], output: int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        streams: Any = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT, "start_new_session": True}
        try:
            argv = argv_of(step["shell"], step["script"], self.folder)
            return subprocess.Popen(argv, cwd=os.path.join(self.request["root"], step["cwd"]), env=environment, **streams)
        except (OSError, ValueError) as error:  # no such folder or shell, a text too long or with a NUL in it
            why = "%s cannot be started: %s" % (json.dumps(str(step["name"])), str(error).replace("\0", ""))
            return subprocess.Popen([sys.executable, "-c", _NOT_STARTED, why[:_WHY]], **streams)
