"""Which Pythons are found beside those on the PATH, and which are not shown to anybody's code."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.install.python import interpreters
from sandbox.install.python.interpreters import Interpreter, own


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("variable", "folder"), [("PYENV_ROOT", "versions/{}.{}"), ("UV_PYTHON_INSTALL_DIR", "cpython-{}.{}-linux-x86_64-gnu")]
)
async def test_the_newest_that_works_is_found_in_a_version_managers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str
) -> None:
    mine = own()
    name = f"python{mine.minor[0]}.{mine.minor[1]}"
    series = f"{mine.minor[0]}.{mine.minor[1]}"
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PYENV_ROOT", "/nowhere")
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", "/nowhere")
    monkeypatch.setenv(variable, str(tmp_path))
    program(tmp_path / folder.format(series, 9) / "bin" / name, f'#!/bin/sh\nexec {mine.path} "$@"\n')
    program(tmp_path / folder.format(series, 10) / "bin" / name, "#!/bin/sh\nexit 1\n")
    asked: list[str] = []
    ask = interpreters.ask

    async def listened(path: str) -> Interpreter | None:
        asked.append(path)
        return await ask(path)

    monkeypatch.setattr(interpreters, "ask", listened)
    assert await interpreters.find(mine.minor) == mine
    assert [folder.format(series, number) in path for number, path in zip((10, 9), asked[1:3], strict=True)] == [True, True]


async def test_a_program_that_is_another_version_than_its_name_says_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    program(tmp_path / "versions/3.99.0/bin/python3.99", f'#!/bin/sh\nexec {own().path} "$@"\n')
    assert await interpreters.find((3, 99)) is None


@pytest.mark.parametrize(
    ("prefix", "is_shown"),
    [("~/.pyenv/versions/3.12.1", True), ("/usr/local", True), ("/opt/python3.12", True), ("~", False), ("~/..", False),
     ("~/.local", False), ("/opt", False), ("/", False)],
)  # fmt: skip
async def test_a_tree_that_is_not_its_own_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, is_shown: bool
) -> None:
    home = tmp_path / "people" / "me"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    said = prefix.replace("~/..", str(home.parent)).replace("~", str(home))
    program(tmp_path / "bin/python3.99", f"""#!/bin/sh\necho '["/x/python3.99", "{said}", "3.99.0"]'\n""")
    assert (await interpreters.ask(str(tmp_path / "bin/python3.99")) is not None) is is_shown
