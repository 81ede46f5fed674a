"""What of this machine's toolchains hostile code may see: theirs, and nobody else's things beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.base import Command, SandboxUnavailable
from sandbox.install import toolchains
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.install.toolchains import Toolchain
from sandbox.local import LocalSandboxes

NODE = "#!/bin/sh\necho this is node\n"


def program(path: Path, text: str = NODE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = (tmp_path / "home/worker").resolve()
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id").write_text("s3cr3t")
    (home / ".local/share/keyrings").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.mark.parametrize("place", ["bin", ".local/bin", ".local/tools/bin", "../bin"])
@pytest.mark.parametrize("with_npm", [False, True])
async def test_of_a_node_among_other_things_the_program_alone_is_shown(
    home: Path, place: str, with_npm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = program(home / place / "node").resolve()
    if with_npm and place != ".local/tools/bin":  # as `npm install --global --prefix` leaves it
        (node.parent.parent / "lib/node_modules/npm").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(node.parent))
    assert await toolchains.find(()) == (Toolchain(node, str(node.parent)),)


async def test_a_toolchain_of_its_own_is_shown_whole(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = home / ".nvm/versions/node/v22"
    program(tree / "bin/node")
    (tree / "lib/node_modules/npm").mkdir(parents=True)
    (tree / "share/man").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tree / "bin"))
    assert await toolchains.find(()) == (Toolchain(tree, f"{tree}/bin"),)
    (data := tree / "data").mkdir()
    assert await toolchains.find((data / "open",)) == (Toolchain(tree / "bin/node", f"{tree}/bin"),), "the worker's own folder"


@pytest.mark.parametrize(("name", "mark"), [("rustc", "lib/rustlib"), ("go", "pkg/tool")])
async def test_a_compiler_that_names_a_folder_of_others_is_not_believed(
    home: Path, name: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(home / "bin" / name, f"#!/bin/sh\necho {home}/own\n")
    (home / "own/bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert await toolchains.find(()) == ()
    (home / "own" / mark).mkdir(parents=True)
    assert await toolchains.find(()) == (Toolchain(home / "own", f"{home}/own/bin"),)
    program(home / "bin" / name, f"#!/bin/sh\necho {home}\n")
    (home / mark).mkdir(parents=True)
    assert await toolchains.find(()) == ()


async def test_code_runs_a_program_out_of_a_home_and_sees_nothing_else_of_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(home / ".local/bin/node")
    program(home / ".local/bin/other")
    monkeypatch.setenv("PATH", f"{home}/.local/bin:/usr/bin:/bin")
    sandboxes = LocalSandboxes(tmp_path / "open", PackageStore(tmp_path / "cache", IndexAccess((), frozenset())))
    try:
        async with sandboxes.open("toolchains") as sandbox, sandbox.candidate() as workspace:
            ran = await workspace.run(Command(("/bin/sh", "-c", f"{home}/.local/bin/node; find {home} -type f"), 20.0))
    except SandboxUnavailable as missing:
        pytest.skip(f"needs bubblewrap: {missing}")
    assert ran.stdout.decode().splitlines() == ["this is node", f"{home}/.local/bin/node"]
