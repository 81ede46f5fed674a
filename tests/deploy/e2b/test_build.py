"""The template of the machines at E2B has what their server needs. That E2B builds it, the live test shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from e2b.template.main import TemplateBase

from deploy.e2b import build
from sandbox.e2b.public_template import SERVING
from sandbox.e2b.sandboxes import sandbox_bundle
from sandbox.remote.wire import INTERPRETER

_IMPORTED = """
import sys
sys.path.insert(0, sys.argv[1])
import sandbox.remote.server, sandbox.remote.messenger, sandbox.jail.seccomp, sandbox.install.packages
assert sandbox.remote.server.__file__.startswith(sys.argv[1])
sandbox.jail.seccomp.program()
files = {name.partition(".")[0]: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
print(*(name for name, file in files.items() if "site-packages" in file))
"""


def test_what_is_served_needs_only_what_the_template_installs(tmp_path: Path) -> None:
    bundle = tmp_path / "code.zip"
    bundle.write_bytes(sandbox_bundle())
    subprocess.run([sys.executable, "-m", "zipfile", "-e", bundle, tmp_path / "code"], check=True)
    done = subprocess.run(
        [sys.executable, "-P", "-c", _IMPORTED, str(tmp_path / "code")],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= set(SERVING) | {"_virtualenv", "distutils-precedence", "_distutils_hack"}


def test_the_recipe_makes_the_interpreter_and_installs_the_jail() -> None:
    text = TemplateBase.to_dockerfile(build.recipe())
    assert f"python3 -m venv {build.HOME}" in text
    assert f"{INTERPRETER} -m pip install" in text
    for name in ("bubblewrap", "libseccomp2", *(f"{name}==" for name in SERVING)):
        assert name in text


def test_the_recipe_has_what_jobs_of_other_languages_and_with_services_need() -> None:
    text = TemplateBase.to_dockerfile(build.recipe())
    assert text.startswith("FROM node:")
    for name in ("postgresql", "redis-server", "mariadb-server-core", "cargo", "golang-go", "maven"):
        assert name in text
    assert text.index("create_main_cluster = false") < text.index("mariadb-server-core"), "before it is installed"


def test_its_commands_are_of_a_shell() -> None:
    text = TemplateBase.to_dockerfile(build.recipe())
    commands = [line.removeprefix("RUN ") for line in text.splitlines() if line.startswith("RUN ")]
    assert len(commands) >= 5
    for command in commands:
        done = subprocess.run(["/bin/sh", "-n", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)


def test_without_a_key_the_setting_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    monkeypatch.setattr(sys, "argv", ["build"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="SELFHEAL_E2B_API_KEY"):
        build.main()
