"""What the Dockerfile's own commands make, without an engine: installed by them, started as it starts, checked as it checks.

Left out is what only an engine or root on a machine of its own can do: the base image, Debian's packages, the user. The locked
packages are those that this environment has, as fetching them takes minutes; the nightly workflow builds the whole image.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.story.service import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # the first one waits for the installation
ROOT = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 600
LOCKED = " -r requirements.lock"


class Dockerfile:
    """The instructions of both stages, lines joined."""

    def __init__(self) -> None:
        text = (ROOT / "Dockerfile").read_text()
        lines = [line for line in re.sub(r"\\\n", " ", text).splitlines() if line and not line.startswith("#")]
        starts = [number for number, line in enumerate(lines) if line.startswith("FROM ")]
        self.build = [line.split(None, 1) for line in lines[starts[0] : starts[1]]]
        self.final = dict(line.split(None, 1) for line in lines[starts[1] :])

    def environment(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in shlex.split(self.final["ENV"]))

    def health(self) -> list[str]:
        command: list[str] = json.loads(self.final["HEALTHCHECK"].partition(" CMD ")[2])
        return command


def link_locked(site: Path) -> None:
    """Show the packages that requirements.lock names, and no others of this environment, in a `site-packages`."""
    for name in re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE):
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # it is for another platform
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():  # a namespace of several, or pip
                (site / top).symlink_to(str(found.locate_file(top)))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the build stage's instructions were done, its root standing for the image's."""
    root = tmp_path_factory.mktemp("image")
    places = {path: str(root / path[1:]) for path in ("/opt/selfheal", "/opt/build", "/wheel", "/src")}
    for place in places.values():
        Path(place).mkdir(parents=True)
    # Nothing of the environment that runs the tests; what says where packages come from is the machine's.
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "http", "HTTP"))}
    # Bytecode of a hundred packages takes longer than all the rest, and only what is loaded is asked for below.
    kept["PIP_NO_COMPILE"] = "1"
    environment = {**kept, "PATH": f"{Path(sys.executable).resolve().parent}:/usr/bin:/bin", "HOME": str(root)}
    for instruction, rest in Dockerfile().build:
        if instruction == "COPY":
            *sources, target = rest.split()
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, root / "src" / target, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, root / "src" / target)
        elif instruction == "RUN":
            script = rest
            for path, place in places.items():
                script = script.replace(path, place)
            if is_locked := LOCKED in script:
                script = " && ".join(command for command in script.split(" && ") if LOCKED not in command)
            done = subprocess.run(
                ["sh", "-e", "-c", script],
                cwd=root / "src",
                env=environment,
                capture_output=True,
                text=True,
                timeout=BUILD_SECONDS,
            )
            assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
            if is_locked:
                (site,) = (root / "opt/selfheal/lib").glob("python3.*/site-packages")
                link_locked(site)
    yield root
    shutil.rmtree(root, ignore_errors=True)


def started(image: Path, data: Path) -> dict[str, str]:
    """The final stage's environment, its places moved."""
    told = Dockerfile().environment()
    return {
        **told,
        "PATH": f"{image}/opt/selfheal/bin:/usr/bin:/bin",
        "HOME": str(data),
        "SELFHEAL_DATA_DIR": str(data),
        "SELFHEAL_HOST": "127.0.0.1",
    }


def test_the_image_holds_the_program_and_no_more_than_it_needs(image: Path, tmp_path: Path) -> None:
    program = image / "opt/selfheal/bin" / json.loads(Dockerfile().final["ENTRYPOINT"])[0]
    told = subprocess.run([program, "version"], env=started(image, tmp_path), capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("selfheal ")
    listed = subprocess.run(
        [image / "opt/selfheal/bin/python", "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, timeout=60
    ).stdout.lower()
    assert "selfheal==" in listed
    assert not [name for name in ("pytest==", "mypy==", "playwright==", "ruff==") if name in listed]


async def test_the_image_s_command_answers_the_image_s_health_check(image: Path, tmp_path: Path) -> None:
    file = Dockerfile()
    port, pages = free_port(), free_port()
    environment = {
        **started(image, tmp_path / "data"),
        "SELFHEAL_PORT": str(port),
        "SELFHEAL_PAGES_PORT": str(pages),
        "SELFHEAL_GITHUB_WEBHOOK_SECRET": "a-secret",
    }
    argv = [*json.loads(file.final["ENTRYPOINT"]), *json.loads(file.final["CMD"])]
    check = [word.replace(":8000", f":{port}") for word in file.health()]
    check[0] = str(image / "opt/selfheal/bin" / check[0])
    web = await asyncio.create_subprocess_exec(
        str(image / "opt/selfheal/bin" / argv[0]), *argv[1:], env=environment, cwd=tmp_path
    )
    try:
        for _ in range(300):
            probe = await asyncio.create_subprocess_exec(*check, env=environment, stderr=asyncio.subprocess.DEVNULL)
            if await asyncio.wait_for(probe.wait(), 30) == 0:
                break
            assert web.returncode is None
            await asyncio.sleep(0.1)
        else:
            pytest.fail("the health check never succeeded")
    finally:
        web.terminate()
        await asyncio.wait_for(web.wait(), 30)
    probe = await asyncio.create_subprocess_exec(*check, env=environment, stderr=asyncio.subprocess.DEVNULL)
    assert await asyncio.wait_for(probe.wait(), 30) != 0, "nothing runs any more, and the check says so"
