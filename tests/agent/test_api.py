"""The Python API, and its examples in the documentation, as other programs use them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from agent import Agent, heal, solve
from agent.contract.outcome import NoRepair
from agent.models.values import Misconfigured
from agent.solving.home import BadSpecification
from tests.standins import extension

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs/examples"


def example(name: str, *arguments: object) -> str:
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
                          capture_output=True, text=True, timeout=200)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_a_function_is_written() -> None:
    said = example("solve.py", "scripted")
    assert "def merge_intervals(" in said
    assert said.endswith("2 answers were judged; the first one was healed.\n")


@pytest.mark.long
def test_events_are_streamed_until_the_solution() -> None:
    said = example("stream.py", "scripted").splitlines()
    assert said[0] == "Designing the signature and examples"
    assert said[-1] == "solved"


@pytest.mark.long
def test_a_folder_is_healed_and_not_changed(tmp_path: Path) -> None:
    code = "def larger(a, b):\n    return a if a < b else b\n"
    (tmp_path / "m.py").write_text(code)
    tests = (
        "from m import larger\n\ndef test_a():\n    assert larger(1, 2) == 2\n\ndef test_b():\n    assert larger(5, 2) == 5\n"
    )
    (tmp_path / "test_m.py").write_text(tests)
    assert "+    return a if a > b else b" in example("heal.py", tmp_path)
    assert (tmp_path / "m.py").read_text() == code


@pytest.mark.long
def test_rungs_of_other_packages_take_part(tmp_path: Path) -> None:
    (folder := tmp_path / "folder").mkdir()
    (folder / "m.py").write_text("def spell(a, b):\n    return 0\n")
    (folder / "test_m.py").write_text("from m import spell\n\ndef test_it():\n    assert spell(255, 8) == 'ff-10'\n")
    extension.install_rung(tmp_path / "site", "m.py", "return 0", "return f'{a:x}-{b:o}'")
    program = f"""if True:
        from agent import Agent
        from agent.contract.task import Policy
        import asyncio
        found = asyncio.run(Agent("none", policy=Policy(min_confidence=0.0)).heal({str(folder)!r}))
        print(found.title)
    """
    paths = f"{ROOT}{os.pathsep}{tmp_path / 'site'}"
    own = {"PYTHONPATH": paths, "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    done = subprocess.run([sys.executable, "-c", program], env=own, capture_output=True, text=True, timeout=200)
    assert done.stdout == "knows the answer\n", done.stderr


async def test_a_wrong_call_raises_before_anything_is_asked() -> None:
    with pytest.raises(BadSpecification):
        await solve("", model="scripted")
    with pytest.raises(NotADirectoryError):
        await heal("nowhere")


async def test_a_model_of_an_unknown_provider_is_named_before_it_is_asked(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"^the model 'nobody/m' has no provider"):
        await solve("Add.", signature="add(a)", model="nobody/m")
    with pytest.raises(Misconfigured, match=r"^the model 'nobody/m' has no provider"):
        await heal(tmp_path, model="nobody/m")


async def test_a_stream_ends_with_the_error_of_its_run() -> None:
    with pytest.raises(BadSpecification):
        async for _ in Agent("scripted").stream("Add.", signature="add(a"):
            pass


async def test_a_folder_without_tests_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("x")
    assert isinstance(await heal(tmp_path), NoRepair)


def test_a_project_with_folders_of_the_same_names_gets_ours_on_a_safe_path(tmp_path: Path) -> None:
    for name in ("agent", "app", "sandbox", "webhooks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the project has one of its own')\n")
    script = tmp_path / "script.py"
    script.write_text("import agent, sandbox\nfrom agent import Agent, heal, solve\nprint(agent.__file__)\n")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, script]
        return subprocess.run(command, cwd=tmp_path, env=environment | more, capture_output=True, text=True, timeout=60)

    assert "the project has one of its own" in run().stderr
    done = run(PYTHONSAFEPATH="1")
    assert done.stdout == f"{ROOT / 'agent' / '__init__.py'}\n", done.stderr
    program = Path(sys.executable).with_name("selfheal")
    done = subprocess.run([program, "solve", " "], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert "the specification is empty" in done.stderr


def test_type_checkers_read_the_packages_of_the_api() -> None:
    assert all((files(package) / "py.typed").is_file() for package in ("agent", "sandbox"))
