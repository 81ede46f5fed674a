"""Starts what a request asks for: the steps before a check as they are, and the check itself so that its tests are observed.

Knows environments and programs, not what they tell.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from . import channel, javascript, shims, stepping

_NOT_STARTED = "import sys; print(sys.argv[1]); sys.exit(127)"  # as a shell says it
_WHY = 500  # characters


class Starter:
    """Each later program sees what the steps before it have left in `GITHUB_ENV` and `GITHUB_PATH`, and nothing else of ours.

    Each has a folder of its own, made for it after all before it have ended: whoever knew an earlier one knows nothing.
    """

    def __init__(self, request):
        self.request = request
        self.variables, self.path, self.led = {}, list(request["path"]), []
        self.folder = None
        self.files = self.shims = ""

    def close(self):
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def renew(self):
        """A fresh folder for the next program."""
        self.close()
        self.folder = tempfile.mkdtemp(prefix="selfheal-")
        self.files = os.path.join(self.folder, "step")
        self.shims = shims.install(self.folder, self.request["guest"])

    def step(self, step, output=subprocess.PIPE):
        """A step before the check: nobody asks what its tests say."""
        self.renew()
        return self._popen(step, self._environment(step), output)

    def check(self, sentinel):
        """The check itself; `renew` comes first, so that its channel is there."""
        request = self.request
        environment = self._environment(request)
        restore = {name: environment.get(name) for name in ("PYTEST_ADDOPTS", "PYTHONPATH", javascript.VARIABLE)}
        guest = request["guest"]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [restore["PYTHONPATH"], guest]))
        if request["reader"] == "pytest":
            options = ["-p " + __package__ + ".collector", restore["PYTEST_ADDOPTS"]]
            environment["PYTEST_ADDOPTS"] = " ".join(filter(None, options))
        if request["reader"] == "javascript":
            environment[javascript.VARIABLE] = javascript.options(javascript.install(self.folder), restore[javascript.VARIABLE])
        shims.tell(self.shims, request["reader"])
        restore["PATH"] = self._without_shims(environment["PATH"])
        environment[channel.VARIABLE] = self.folder
        with open(os.path.join(self.folder, channel.REQUEST), "w", encoding="utf-8") as file:
            told = {name: request[name] for name in ("root", "only", "conditions")}
            json.dump(dict(told, restore=restore, sentinel=sentinel), file)
        return self._popen(request, environment)

    def surroundings(self):
        """The variables that the tests of the check see."""
        self.renew()
        environment = self._environment(self.request)
        environment["PATH"] = self._without_shims(environment["PATH"])
        return environment

    def take_over(self):
        """What the last step left is there for those after it."""
        texts = self.left()
        self.variables.update(stepping.environment(texts.get("env", "")))
        led = stepping.paths(texts.get("path", ""))
        self.led, self.path = led + self.led, led + self.path

    def left(self):
        """What the last program wrote for those after it: "env", "path", "output" → text."""
        return {name: self._lasting(text) for name, text in stepping.left(self.files).items()}

    def _lasting(self, text):
        """Without our own programs (`command -v python` finds one): they are gone with this run."""

        def own(found):
            program = os.path.join(os.path.dirname(sys.executable), found.group(1))
            return program if os.path.exists(program) else found.group(1)

        return re.sub(re.escape(self.shims) + r"/([\w.+-]+)", own, text)

    def _environment(self, step):
        environment = dict(os.environ)
        for more in (step["outer"], self.variables, step["env"]):  # the nearer wins, as GitHub has it
            environment.update(more)
        parts = [self.shims, *self.path, os.path.dirname(sys.executable), environment.get("PATH", os.defpath)]
        environment["PATH"] = os.pathsep.join(parts)
        environment.update(stepping.offer(self.files))
        environment["GITHUB_WORKSPACE"] = self.request["root"]
        if "GITHUB_ACTIONS" in step["outer"]:  # as actions/setup-python has it
            for name in ("pythonLocation", "Python_ROOT_DIR", "Python3_ROOT_DIR"):
                environment.setdefault(name, sys.prefix)
        return environment

    def _without_shims(self, path):
        return path.partition(os.pathsep)[2]

    def _popen(self, step, environment, output=subprocess.PIPE):
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT, "start_new_session": True}
        try:
            argv = stepping.argv(step["shell"], step["script"], self.folder)
            return subprocess.Popen(argv, cwd=os.path.join(self.request["root"], step["cwd"]), env=environment, **streams)
        except (OSError, ValueError) as error:  # no such folder or shell, a text too long or with a NUL in it
            why = "%s cannot be started: %s" % (json.dumps(str(step["name"])), str(error).replace("\0", ""))
            return subprocess.Popen([sys.executable, "-c", _NOT_STARTED, why[:_WHY]], **streams)
