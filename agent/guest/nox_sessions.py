"""Runs nox and prints what its sessions would install and run, without doing it, as JSON after a NUL.

Self-contained: run by `python -c` in an environment that has nox.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any, Callable

SESSIONS: list[dict[str, Any]] = []
HOME = os.getcwd()
_OWN_VARIABLES = ("NOX_CURRENT_SESSION", "TMPDIR")


def main() -> None:
    import nox.sessions
    import nox.virtualenv
    from nox.__main__ import main as run_nox

    session, runner = nox.sessions.Session, nox.sessions.SessionRunner
    environment = nox.virtualenv.PassthroughEnv([os.path.join(sys.prefix, "bin")])
    environment.location = sys.prefix
    runner._create_venv = lambda self: setattr(self, "venv", environment)
    runner.execute = _executing(runner.execute)
    session.create_tmp = _creating_tmp(session.create_tmp)
    session.install = session.conda_install = _recording("install")
    session.run_install = session.run_always = _recording("run_install")
    session.run = _recording("run")
    os.environ["NOX_SCRIPT_MODE"] = "none"
    try:
        run_nox()
    finally:
        sys.stdout.write("\0" + json.dumps(SESSIONS))
        sys.stdout.flush()


def _executing(execute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def executing(self: Any) -> Any:
        python = self.func.python
        SESSIONS.append(
            {"name": self.friendly_name, "python": python if isinstance(python, str) else "", "calls": [], "ended": ""}
        )
        result = execute(self)
        if result.status.name != "SUCCESS":
            SESSIONS[-1]["ended"] = ": ".join(filter(None, [result.status.name.lower(), result.reason]))
        return result

    return executing


def _creating_tmp(create_tmp: Callable[[Any], str]) -> Callable[[Any], str]:
    def creating_tmp(self: Any) -> str:
        folder = create_tmp(self)
        self.run("mkdir", "-p", folder)
        return folder

    return creating_tmp


def _recording(kind: str) -> Callable[..., Any]:
    def recording(self: Any, *args: Any, **options: Any) -> Any:
        if args and callable(args[0]):
            return args[0](*args[1:])
        if kind == "run" and self._runner.global_config.install_only:
            return None
        env = {**self.env, **(options.get("env") or {})}
        given = {name: _relative(str(text)) for name, text in env.items() if text is not None and os.environ.get(name) != text}
        SESSIONS[-1]["calls"].append(
            {
                "installs": kind == "install",
                "words": [_relative(os.fspath(word)) for word in args],
                "env": {name: text for name, text in given.items() if name not in _OWN_VARIABLES},
                "cwd": os.path.relpath(os.getcwd(), HOME),
                "codes": list(options.get("success_codes") or ()),
            }
        )
        return _output(args) if options.get("silent") else True

    return recording


def _output(words: tuple[Any, ...]) -> str:
    """The output that a session gets from a program, such as the version of its Python."""
    argv = [sys.executable if word == "python" else os.fspath(word) for word in words]
    try:
        return subprocess.run(argv, capture_output=True, check=False, text=True).stdout
    except OSError:
        return ""


def _relative(text: str) -> str:
    """Paths in the repository relative to this folder, and programs of the environment by their names."""
    text = text.replace(os.path.join(sys.prefix, "bin") + os.sep, "")
    back = os.path.relpath(HOME, os.getcwd())
    text = re.sub(rf"(?<![\w.~/-]){re.escape(HOME)}/", "" if back == "." else f"{back}/", text)
    return re.sub(rf"(?<![\w.~/-]){re.escape(HOME)}(?![\w.~-])", back, text)


if __name__ == "__main__":
    main()
