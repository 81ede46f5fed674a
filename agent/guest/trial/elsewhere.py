"""Repeats recorded calls outside of any test runner: in a fresh process with other arguments, variables, home, time zone and
thread name. Code that knows when it is tested answers differently there.

The parent (`answers`) sends one JSON request {guest, path, modules: {path: module}, functions, calls: [pickled call]}; the
child prints one JSON list with an answer, or null, for each call.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import NAME
from .answers import answer_of, function_in
from .forks import TimeLimit

MOST = 40  # calls that are repeated
_CODE = """\
import json, sys
request = json.load(sys.stdin)
sys.path.insert(0, request["guest"])
from {}.trial import elsewhere
elsewhere.main(request)
"""


def packed(value: Any) -> str | None:
    """The value as text, or None if it cannot be handed to another process."""
    try:
        return base64.b64encode(pickle.dumps(value)).decode()
    except Exception:  # any `__reduce__`
        return None


def as_sent(arguments: Any) -> Any:
    """The arguments as the other process gets them, so that both call with the same; unchanged if they cannot be sent."""
    try:
        return pickle.loads(pickle.dumps(arguments))
    except Exception:  # any `__reduce__`, and what it makes
        return arguments


def answers(root: str, texts: Mapping[str, str], functions: Sequence[Any], calls: Sequence[str], seconds: float) -> list[Any]:
    """The answers with these texts of files, which are written; empty if the process failed."""
    for path, text in texts.items():
        with open(os.path.join(root, path), "w", encoding="utf-8", newline="") as file:
            file.write(text)
    names = {os.path.realpath(getattr(m, "__file__", None) or ""): name for name, m in list(sys.modules.items())}
    modules = {path: names.get(os.path.realpath(os.path.join(root, path)), "") for path, _ in functions}
    guest = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    known = [path for path in sys.path if path and path != guest]
    request = {"guest": guest, "path": known, "modules": modules, "functions": list(functions), "calls": list(calls)}
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": home,
            "TZ": "Asia/Kathmandu",
            "LANG": "C.UTF-8",
            "USER": "app",
        }
        command = [sys.executable, "-X", "pycache_prefix=" + home, "-c", _CODE.format(NAME)]
        try:
            done = subprocess.run(
                command, input=json.dumps(request).encode(), env=environment, cwd=root, timeout=max(0.1, seconds),
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            found = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return []
    return found if isinstance(found, list) else []


def main(request: Mapping[str, Any]) -> None:
    output = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    sys.argv[:] = ["app"]
    sys.path[:] = [*request["path"], request["guest"]]
    threading.current_thread().name = "request-1"
    limit, found = TimeLimit(), []
    functions: list[Callable[..., Any] | None] = []
    for path, name in request["functions"]:
        functions.append(None)
        with contextlib.suppress(Exception, SystemExit):  # imports of the repository
            functions[-1] = function_in(importlib.import_module(request["modules"][path]), name)
    for text in request["calls"]:
        answer = None
        with contextlib.suppress(Exception):  # what is unpickled is the repository's
            index, args, kwargs = pickle.loads(base64.b64decode(text))
            function = functions[index]
            answer = None if function is None else answer_of(function, args, kwargs, limit)[:2]
        found.append(answer)
    os.write(output, json.dumps(found).encode())
    os._exit(0)  # threads of the repository may run
