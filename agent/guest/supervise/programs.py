"""Starts the programs of a request: the steps before a check as they are, the check itself with its tests observed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from .. import NAME
from ..wire import channel
from . import javascript, shims, steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NOT_STARTED = "import sys; print(sys.argv[1]); sys.exit(127)"  # the exit code of a shell
_WHY = 500  # characters


class ProgramStarter:
    """Each program sees what earlier steps wrote to `GITHUB_ENV` and `GITHUB_PATH`, and nothing else of ours.

    Each gets a new folder, made after all earlier programs have ended, so knowing an earlier folder helps none of them.
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
        restore = {name: environment.get(name) for name in ("PYTEST_ADDOPTS", "PYTHONPATH", javascript.VARIABLE)}
        guest = request["guest"]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [restore["PYTHONPATH"], guest]))
        if request["reader"] == "pytest":
            options = ["-p " + NAME + ".observe.collector", restore["PYTEST_ADDOPTS"]]
            environment["PYTEST_ADDOPTS"] = " ".join(filter(None, options))
        if request["reader"] == "javascript":
            environment[javascript.VARIABLE] = javascript.options(javascript.install(self.folder), restore[javascript.VARIABLE])
        shims.install_verbose(self.shims, request["reader"])
        restore["PATH"] = self._without_shims(environment["PATH"])
        environment[channel.VARIABLE] = self.folder
        with open(os.path.join(self.folder, channel.REQUEST), "w", encoding="utf-8") as file:
            shared = {name: request[name] for name in ("root", "only", "conditions")}
            json.dump(dict(shared, restore=restore, canary=canary), file)
        return self._popen(request, environment)

    def test_environment(self) -> dict[str, str]:
        """The variables that the tests of the check see."""
        self.new_folder()
        environment = self._environment(self.request)
        environment["PATH"] = self._without_shims(environment["PATH"])
        return environment

    def apply_outputs(self) -> None:
        """Give later programs the variables and the PATH folders that the last step wrote."""
        texts = self.outputs()
        self.variables.update(steps.environment(texts.get("env", "")))
        added = steps.paths(texts.get("path", ""))
        self.added_path, self.path = added + self.added_path, added + self.path

    def outputs(self) -> dict[str, str]:
        """What the last program wrote for those after it: "env", "path", "output" → text."""
        return {name: self._without_shim_names(text) for name, text in steps.read_files(self.files).items()}

    def _without_shim_names(self, text: str) -> str:
        """Replace paths of our shims (`command -v python` prints one), as they are deleted after this run."""

        def program_of(found: re.Match[str]) -> str:
            program = os.path.join(os.path.dirname(sys.executable), found.group(1))
            return program if os.path.exists(program) else found.group(1)

        return re.sub(re.escape(self.shims) + r"/([\w.+-]+)", program_of, text)

    def _environment(self, step: dict[str, Any]) -> dict[str, str]:
        environment = dict(os.environ)
        for more in (step["outer"], self.variables, step["env"]):  # later ones win, as on GitHub
            environment.update(more)
        parts = [self.shims, *self.path, os.path.dirname(sys.executable), environment.get("PATH", os.defpath)]
        environment["PATH"] = os.pathsep.join(parts)
        environment.update(steps.create_files(self.files))
        environment["GITHUB_WORKSPACE"] = self.request["root"]
        if "GITHUB_ACTIONS" in step["outer"]:  # as actions/setup-python sets them
            for name in ("pythonLocation", "Python_ROOT_DIR", "Python3_ROOT_DIR"):
                environment.setdefault(name, sys.prefix)
        return environment

    def _without_shims(self, path: str) -> str:
        return path.partition(os.pathsep)[2]

    def _popen(
        self, step: dict[str, Any], environment: dict[str, str], output: int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        streams: Any = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT, "start_new_session": True}
        try:
            argv = steps.argv(step["shell"], step["script"], self.folder)
            return subprocess.Popen(argv, cwd=os.path.join(self.request["root"], step["cwd"]), env=environment, **streams)
        except (OSError, ValueError) as error:  # no such folder or shell, a text too long or with a NUL in it
            why = "%s cannot be started: %s" % (json.dumps(str(step["name"])), str(error).replace("\0", ""))
            return subprocess.Popen([sys.executable, "-c", _NOT_STARTED, why[:_WHY]], **streams)
