"""The install step, with a real package index on loopback, real pip and uv, and code that is executed while it is built."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.base import Command, Installed, InstallFailed, LimitExceeded, Packages, Sandbox
from sandbox.install.package_index import configured
from sandbox.install.python import interpreters, wheels
from sandbox.install.python.interpreters import Interpreter
from sandbox.install.python.requirements import RequirementLines
from sandbox.jail import stage
from tests.sandbox.conftest import ENGINES, LIMITS, engine_of, make, tarball
from tests.sandbox.index import PYPROJECT, Index
from tests.tiers import long_but


async def python(sandbox: Sandbox, program: str) -> str:
    async with sandbox.candidate() as workspace:
        ended = await workspace.run(Command((workspace.python, "-c", program), 30.0))
        return (ended.stdout + ended.stderr).decode().strip()


@pytest.mark.parametrize("kind", ["local", "process"])
@pytest.mark.parametrize("client", long_but(["uv", "pip"], "uv"))
async def test_wheels_come_from_outside_once_and_then_from_the_cache(
    kind: str, client: str, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if client == "pip":
        monkeypatch.setattr(interpreters, "uv_binary", lambda: None)
    elif interpreters.uv_binary() is None:
        pytest.skip("uv is not installed")
    index.add_wheel("answering")
    sandboxes = make(kind, tmp_path, index.access)
    async with sandboxes.open("first") as sandbox:
        await sandbox.unpack(tarball({"requirements.txt": b"answering>=0.1 # comment\n"}))
        installed = await sandbox.install(Packages(requirement_files=("requirements.txt",)))
        assert installed.built == ()
        assert await python(sandbox, "import answering; print(answering.answer)") == "42"
        if kind == "local":
            assert "Read-only" in await python(sandbox, "import answering; open(answering.__file__, 'w')")
    asked = len(index.requests)
    assert asked
    async with sandboxes.open("second") as sandbox:
        await sandbox.unpack(tarball({"requirements.txt": b"answering>=0.1\n"}))
        await sandbox.install(Packages(requirement_files=("requirements.txt",)))
        assert await python(sandbox, "import answering; print(answering.answer)") == "42"
    assert len(index.requests) == asked


@pytest.mark.long
async def test_an_old_answer_is_asked_for_again_and_used_where_the_index_is_away(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandboxes = make("process", tmp_path, index.access)

    async def installed() -> Installed:
        async with sandboxes.open("again") as sandbox:
            await sandbox.unpack(tarball({"a": b""}))
            done = await sandbox.install(Packages(requirements=("answering",)))
            return replace(done, output=await python(sandbox, "import answering; print(answering.answer)"))

    index.add_wheel("answering")
    assert (await installed()).output == "42"
    index.add_wheel("answering", "answer = 43", version="1.1")
    today = await installed()
    assert today.output == "42", "the answer of this day"
    assert [note[:36] for note in today.notes] == ["Unpinned dependencies resolved as of"]
    monkeypatch.setattr(wheels, "FRESH_SECONDS", -1.0)
    again = await installed()
    assert (again.output, [note[:36] for note in again.notes]) == ("43", ["Unpinned dependencies resolved as of"])
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    away = await installed()
    assert away.output == "43"
    assert "could not be refreshed" in away.notes[0]
    assert len(list((tmp_path / "packages/wheels").iterdir())) == 1


async def test_the_package_client_outside_gets_no_secret_of_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / "python"
    client.write_text(f"#!/bin/sh\nenv >> {tmp_path}/seen\nexit 1\n")
    client.chmod(0o755)
    monkeypatch.setenv("SELFHEAL_TEST_SECRET", "s3cr3t")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "s3cr3t")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:1")
    asked = (RequirementLines(("answering",)),)
    async with wheels.fetched(tmp_path / "wheels", Interpreter(str(client), "/usr", "3.11.1"), asked) as found:
        assert found.missing == ("answering",)
    seen = (tmp_path / "seen").read_text()
    assert "s3cr3t" not in seen
    for kept in ("PIP_INDEX_URL=http://127.0.0.1:1/simple", "https_proxy=http://proxy.invalid:1", "PATH="):
        assert kept in seen
    assert not list((tmp_path / "wheels").iterdir()), "what failed is not kept"


@pytest.mark.parametrize(
    ("client", "kind"),
    [
        ("uv", "local"),
        pytest.param("pip", "local", marks=pytest.mark.long),
        pytest.param("uv", *ENGINES[0].values, marks=ENGINES[0].marks),
    ],
)
async def test_what_has_no_wheel_is_built_inside_where_only_the_index_is_reached(
    client: str, kind: str, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if client == "pip":
        monkeypatch.setattr(interpreters, "uv_binary", lambda: None)
    elif interpreters.uv_binary() is None:
        pytest.skip("uv is not installed")
    mark = tmp_path / "executed"
    index.add_source("sourceful", mark)
    index.add_wheel("answering")
    async with make(kind, tmp_path, index.access, engine_of(kind)).open("build") as sandbox:
        await sandbox.unpack(tarball({"a": b""}))
        installed = await sandbox.install(Packages(requirements=("sourceful", "answering")))
        assert installed.built == ("sourceful",)
        told = json.loads(await python(sandbox, "import json, sourceful; print(json.dumps(sourceful.attempts))"))
        # The proxy said no, loopback of the host is not ours, and the host's folders are not there.
        assert told["proxied"] == 403
        assert told["direct"] != 0
        assert told["host"] is False
        assert not mark.exists()
        # And afterwards even the proxy is gone.
        program = (
            "import os; print([os.path.exists(p) for p in ('/way', '/wheels', '/installer')], 'HTTPS_PROXY' in os.environ)"
        )
        assert await python(sandbox, program) == "[False, False, False] False"
    assert not list(tmp_path.rglob("*.sock"))


@pytest.mark.parametrize("kind", ["local", "process", ENGINES[1]])
async def test_a_project_is_installed_editable_with_its_static_dependencies(kind: str, index: Index, tmp_path: Path) -> None:
    index.add_wheel("answering")
    pyproject = PYPROJECT.replace("@NAME@", "mine").replace("@STATIC@", '"answering"')
    files = {
        "pyproject.toml": pyproject.encode(),
        "backend.py": index.backend("mine", tmp_path / "executed", "Requires-Dist: answering\\n"),
        "src/mine_module.py": b"import answering\nvalue = answering.answer\n",
    }
    async with make(kind, tmp_path, index.access, engine_of(kind)).open("project") as sandbox:
        await sandbox.unpack(tarball(files))
        await sandbox.install(Packages(projects=(".",)))
        program = "import mine_module; print(mine_module.value)"
        assert await python(sandbox, program) == "42"
        async with sandbox.candidate() as workspace:
            await workspace.write("src/mine_module.py", b"value = 'changed'\n")
            assert (await workspace.run(Command((workspace.python, "-c", program), 20.0))).stdout == b"changed\n"
        assert await python(sandbox, program) == "42"


@pytest.mark.parametrize("kind", ["local", ENGINES[1]])
async def test_a_build_that_fills_the_disk_is_stopped(kind: str, index: Index, tmp_path: Path) -> None:
    backend = b"""
import time
def build_editable(folder, config_settings=None, metadata_directory=None):
    for number in range(5): open(f"filler-{number}", "wb").write(bytes(16 << 20))
    time.sleep(60)
build_wheel = build_sdist = build_editable
"""
    pyproject = PYPROJECT.replace("@NAME@", "filler").replace("@STATIC@", "").encode()
    async with make(kind, tmp_path, index.access, engine_of(kind)).open("filler", LIMITS) as sandbox:
        await sandbox.unpack(tarball({"pyproject.toml": pyproject, "backend.py": backend}))
        with pytest.raises(LimitExceeded, match="disk"):
            await sandbox.install(Packages(projects=(".",)))
    assert not list((tmp_path / "open").iterdir())


@pytest.mark.long
async def test_what_cannot_be_had_is_told_with_the_installers_words(index: Index, tmp_path: Path) -> None:
    async with make("local", tmp_path, index.access).open("missing") as sandbox:
        await sandbox.unpack(tarball({"a": b""}))
        with pytest.raises(InstallFailed) as failed:
            await sandbox.install(Packages(requirements=("no-such-thing==1.0",)))
    assert "no-such-thing" in failed.value.reason
    assert failed.value.output


@pytest.mark.long
async def test_what_is_left_out_is_not_asked_for_whether_or_not_a_shared_environment_is_there(
    index: Index, tmp_path: Path
) -> None:
    if interpreters.uv_binary() is None:
        pytest.skip("uv is not installed")
    index.add_wheel("answering")
    sandboxes = make("local", tmp_path, index.access)
    lines = b"answering\nelsewhere @ git+https://127.0.0.1:1/elsewhere.git\n"
    for name in ("first", "second"):
        async with sandboxes.open(name) as sandbox:
            await sandbox.unpack(tarball({"requirements.txt": lines}))
            await sandbox.install(Packages(requirement_files=("requirements.txt",), without=("elsewhere",)))
            assert await python(sandbox, "import answering; print(answering.answer)") == "42"


@pytest.mark.long
async def test_where_the_workers_uv_cannot_start_pip_installs(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "uv"
    foreign.write_text("#!/bin/sh\nexit 127\n")
    foreign.chmod(0o755)
    monkeypatch.setattr(interpreters, "uv_binary", lambda: foreign)
    index.add_wheel("answering")
    async with make("local", tmp_path, index.access).open("foreign") as sandbox:
        await sandbox.unpack(tarball({"a": b""}))
        await sandbox.install(Packages(requirements=("answering",)))
        assert await python(sandbox, "import answering; print(answering.answer)") == "42"


async def test_with_nothing_to_install_the_interpreter_is_ready(tmp_path: Path) -> None:
    async with make("local", tmp_path).open("nothing") as sandbox:
        await sandbox.unpack(tarball({"a.py": b"print('ran')"}))
        installed = await sandbox.install(Packages(python="2.1"))
        assert installed.python.startswith("3.")
        assert await python(sandbox, "import a, sys; print(sys.prefix)") == "ran\n/env"


LOOK = "import answering as a, os; s = os.stat(a.__file__); print(s.st_dev, s.st_ino, os.path.exists(a.__cached__))"


async def test_attempts_that_need_the_same_share_one_environment_with_its_bytecode(index: Index, tmp_path: Path) -> None:
    index.add_wheel("answering")
    sandboxes = make("local", tmp_path, index.access)
    seen = []
    for files in ({"requirements.txt": b"answering\n"}, {"requirements.txt": b"# another repository\nanswering\n"}):
        async with sandboxes.open("sharing") as sandbox:
            await sandbox.unpack(tarball(files))
            await sandbox.install(Packages(requirement_files=("requirements.txt",)))
            seen.append(await python(sandbox, LOOK))
            async with sandbox.candidate() as workspace:
                script = "for p in /env /env/bin /env/lib/python*/site-packages; do echo x > $p/evil.pth && echo written; done"
                ended = await workspace.run(Command(("sh", "-c", script), 20.0))
                assert ended.stdout == b""
    assert seen[0] == seen[1]
    assert seen[0].endswith("True")


@pytest.mark.long
async def test_a_strict_umask_of_the_worker_hides_nothing_from_the_code_and_does_not_reach_it(
    index: Index, tmp_path: Path
) -> None:
    index.add_wheel("answering")
    before = os.umask(0o077)
    try:
        async with make("local", tmp_path / "data", index.access).open("strict") as sandbox:
            await sandbox.unpack(tarball({"requirements.txt": b"answering\n"}))
            await sandbox.install(Packages(requirement_files=("requirements.txt",)))
            tool = await sandbox.provide("tool.sh", b"umask")
            shown = await sandbox.base.run(Command(("sh", "-c", f"cat /etc/hosts >&2; sh {tool}"), 20.0))
            assert shown.stdout.strip() == b"0022", shown.stderr
            assert (await python(sandbox, LOOK)).endswith("True")
    finally:
        os.umask(before)
    assert list(tmp_path.glob("data/**/environments/*")), "it was made where no other user reads"


@pytest.mark.long
async def test_what_is_a_repositorys_own_is_never_shared(index: Index, tmp_path: Path) -> None:
    index.add_wheel("answering")
    index.add_source("sourceful", tmp_path / "executed")
    sandboxes = make("local", tmp_path, index.access)
    pyproject = PYPROJECT.replace("@NAME@", "mine").replace("@STATIC@", '"answering"').encode()
    backend = index.backend("mine", tmp_path / "executed", "Requires-Dist: answering\\n")
    # Building it also spoils what it can reach of its own environment.
    spoil = b"\nimport glob\nfor f in glob.glob('/env/lib/python*/site-packages/answering.py'):\n"
    spoil += b"    os.unlink(f); open(f, 'w').write('answer = 666')\n"
    async with sandboxes.open("own") as sandbox:
        await sandbox.unpack(tarball({"pyproject.toml": pyproject, "backend.py": backend + spoil, "src/mine.py": b"value = 1"}))
        await sandbox.install(Packages(projects=(".",)))
        assert await python(sandbox, "import answering, mine; print(answering.answer, mine.value)") == "666 1"
    async with sandboxes.open("other") as sandbox:
        await sandbox.unpack(tarball({"a": b""}))
        await sandbox.install(Packages(requirements=("answering",)))
        program = "import answering, importlib.util; print(answering.answer, importlib.util.find_spec('mine'))"
        assert await python(sandbox, program) == "42 None"
        await sandbox.install(Packages(requirements=("sourceful",)))
    kept = [path.name for path in (tmp_path / "packages/environments").rglob("*.py")]
    assert "answering.py" in kept
    assert not {"mine.py", "mine.pth", "sourceful.py"} & set(kept)


@pytest.mark.long
async def test_hashes_that_a_repository_asks_for_are_checked(index: Index, tmp_path: Path) -> None:
    index.add_wheel("answering")
    wheel = next((index.folder / "simple/answering").glob("*.whl"))
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()
    sandboxes = make("local", tmp_path, index.access)
    async with sandboxes.open("hashes") as sandbox:
        await sandbox.unpack(
            tarball({n: f"answering==1.0 --hash=sha256:{h}\n".encode() for n, h in (("r.txt", right), ("w.txt", "0" * 64))})
        )
        await sandbox.install(Packages(requirement_files=("r.txt",)))
        assert await python(sandbox, "import answering; print(answering.answer)") == "42"
        with pytest.raises(InstallFailed) as failed:
            await sandbox.install(Packages(requirement_files=("w.txt",)))
        assert "hash" in failed.value.output.lower()


@pytest.mark.parametrize("kind", long_but(["local", "process"], "local"))
@pytest.mark.long
async def test_a_candidate_can_have_an_environment_of_its_own(kind: str, index: Index, tmp_path: Path) -> None:
    """A change adds a dependency to the manifest: what it brings is seen in that candidate and nowhere else."""
    index.add_wheel("answering")
    index.add_wheel("asking", "question = 6 * 9")
    look = "import importlib.util as u; print([bool(u.find_spec(n)) for n in ('answering', 'asking')])"
    async with make(kind, tmp_path, index.access).open("own") as sandbox:
        await sandbox.unpack(tarball({"requirements.txt": b"answering\n"}))
        packages = Packages(requirement_files=("requirements.txt",))
        await sandbox.install(packages)
        async with sandbox.candidate() as one, sandbox.candidate() as other:
            await one.write("requirements.txt", b"answering\nasking\n")
            installed = await one.install(packages)
            assert installed.python
            for workspace, found in ((one, b"[True, True]\n"), (other, b"[True, False]\n")):
                for argv in ((workspace.python, "-c", look), ("python", "-c", look)):
                    assert (await workspace.run(Command(argv, 30.0))).stdout == found
        assert await python(sandbox, look) == "[True, False]"
        async with sandbox.candidate() as workspace:
            await workspace.write("requirements.txt", b"no-such-thing==1.0\n")
            with pytest.raises(InstallFailed, match="no-such-thing"):
                await workspace.install(packages)
            assert (await workspace.run(Command((workspace.python, "-c", look), 30.0))).stdout == b"[True, False]\n"


@pytest.mark.parametrize("kind", ["local", "process"])
async def test_a_candidates_own_project_is_built_from_its_own_files(kind: str, index: Index, tmp_path: Path) -> None:
    index.add_wheel("answering")
    backend = index.backend("mine", tmp_path / "executed", "Requires-Dist: answering\\n")
    files = {"backend.py": backend, "src/mine_module.py": b"value = 1\n"}
    before, after = (PYPROJECT.replace("@NAME@", "mine").replace("@STATIC@", static).encode() for static in ("", '"answering"'))
    program = "import answering, mine_module; print(answering.answer, mine_module.value)"
    async with make(kind, tmp_path, index.access).open("project") as sandbox:
        await sandbox.unpack(tarball({**files, "pyproject.toml": before}))
        await sandbox.install(Packages())
        async with sandbox.candidate() as workspace:
            await workspace.write("pyproject.toml", after)
            await workspace.write("src/mine_module.py", b"value = 2\n")
            await workspace.install(Packages(projects=(".",)))
            assert (await workspace.run(Command((workspace.python, "-c", program), 30.0))).stdout == b"42 2\n"
        assert "answering" in await python(sandbox, "import answering")
        assert sorted(entry.path for entry in await sandbox.base.files()) == [
            "backend.py",
            "pyproject.toml",
            "src/mine_module.py",
        ]
    assert not list((tmp_path / "open").iterdir())


async def test_where_no_overlay_can_be_had_the_shared_layer_is_copied(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "LAYER", stage.LAYER.replace("-t overlay", "-t no-such-filesystem"))
    index.add_wheel("answering")
    pyproject = PYPROJECT.replace("@NAME@", "mine").replace("@STATIC@", '"answering"').encode()
    backend = index.backend("mine", tmp_path / "executed")
    async with make("local", tmp_path, index.access).open("copied") as sandbox:
        await sandbox.unpack(tarball({"pyproject.toml": pyproject, "backend.py": backend, "src/mine_module.py": b""}))
        await sandbox.install(Packages(projects=(".",)))
        assert await python(sandbox, "import answering, mine_module; print(answering.answer)") == "42"


@pytest.mark.optional(reason="needs the package index")
@pytest.mark.long
async def test_projects_of_the_usual_build_backends_and_pytest_from_the_configured_index(tmp_path: Path) -> None:
    access = await configured()
    host, port = next(iter(access.hosts)).split(":")
    try:
        await asyncio.to_thread(lambda: socket.create_connection((host, int(port)), 5).close())
    except OSError:
        pytest.skip(f"the package index is out of reach ({host})")
    files = {
        "pyproject.toml": b"[project]\nname='one'\nversion='1'\n[dependency-groups]\ntest=['pytest']\n",
        "src/one/__init__.py": b"value = 1\n",
        "two/pyproject.toml": b"[build-system]\nrequires=['hatchling']\nbuild-backend='hatchling.build'\n"
        b"[project]\nname='two'\nversion='1'\n",
        "two/two/__init__.py": b"value = 2\n",
        "test_it.py": b"import one, two\ndef test_it(): assert one.value + two.value == 3\n",
    }
    async with make("local", tmp_path, access).open("usual") as sandbox:
        await sandbox.unpack(tarball(files))
        installed = await sandbox.install(Packages(groups=("test",), projects=(".", "two")))
        assert set(installed.built) == {"one", "two"}
        async with sandbox.candidate() as workspace:
            ended = await workspace.run(Command((workspace.python, "-m", "pytest", "-q", "test_it.py"), 60.0))
            assert b"1 passed" in ended.stdout
