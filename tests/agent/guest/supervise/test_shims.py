import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.guest.supervise import shims

SAYS = "import sys; print(sys.argv[1:])"


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "say.py").write_text(SAYS)
    return shims.install(str(tmp_path), str(tmp_path / "guest"))


def run(path: str, line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{path}{os.pathsep}{os.defpath}"}
    return subprocess.run(line, shell=True, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "line",
    [
        "pip install -r missing.txt",
        "pip3 --quiet install no-such-package-anywhere",
        "pip uninstall -y pytest",
        "pip download x",
        "pip cache purge",
        "pip config set a b",
        "python -m pip install --upgrade pip",
        "python3 -Im pip install x",
        "python -W error -X dev -mpip install x",
        "python -m pip sync reqs.txt",
    ],
)
def test_pip_changes_nothing_and_says_so(line: str, path: str, tmp_path: Path) -> None:
    done = run(path, line, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "selfheal: the packages are already installed\n")


@pytest.mark.parametrize("line", ["pip --version", "pip list", "pip freeze", "python -m pip show pytest", "pip check || true"])
def test_pip_tells_what_there_is_or_nothing_where_it_is_not(line: str, path: str, tmp_path: Path) -> None:
    done = run(path, line, tmp_path)
    assert done.returncode == 0
    assert bool(done.stdout) is (importlib.util.find_spec("pip") is not None)
    assert "beforehand" not in done.stderr


def test_where_there_is_no_pip_what_asks_it_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=60)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    path = shims.install(str(tmp_path), str(tmp_path / "guest"))
    assert run(path, "pip --version && pip list && pip check && python -m pip freeze", tmp_path).returncode == 0
    assert run(path, "python -m no_such_module", tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("python say.py -m pip install", ["-m", "pip", "install"]),
        ("python -c 'import say' -m pip install", ["-m", "pip", "install"]),
        ("python -m say install pip", ["install", "pip"]),
    ],
)
def test_a_program_whose_arguments_look_like_it_runs(line: str, said: list[str], path: str, tmp_path: Path) -> None:
    assert run(path, line, tmp_path).stdout == f"{said}\n"


@pytest.mark.skipif(not Path(sys.executable).with_name("pytest").exists(), reason="needs pytest beside Python")
def test_a_marker_that_is_called_pip_is_no_pip(path: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    assert "1 deselected" in run(path, "pytest -m pip", tmp_path).stdout
