"""The example of `docs/extending` is installed for real and takes part in a repair; a broken one is told at the start."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
SHOP = """\
def reduced(price, percent):
    # return price - price * percent / 100
    # print("reduced", price); return price - price * percent / 100
    return price - price * percent
"""
TESTS = """\
from shop import reduced

def test_reduced():
    assert reduced(200, 10) == 180

def test_not_reduced():
    assert reduced(200, 0) == 200
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the example, with its metadata."""
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "extending"  # building writes beside the source
    shutil.copytree(ROOT / "docs" / "extending", source)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(folder), str(source)], check=True, timeout=120, stdin=subprocess.DEVNULL)
    return folder


def fix(folder: Path, site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    environment |= {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{site}",
        "SELFHEAL_MODEL": "none",
        "XDG_CACHE_HOME": str(folder.parent / "cache"),
    }
    return subprocess.run(
        [sys.executable, "-m", "app", "fix", str(folder), *options],
        capture_output=True, text=True, timeout=120, env=environment, cwd=folder.parent,
    )  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    (folder / "test_shop.py").write_text(TESTS)
    return folder


@pytest.mark.long
def test_the_example_proposes_and_has_a_say(checkout: Path, site: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap (apt-get install bubblewrap)")
    done = fix(checkout, site, "--json", "--test", "python -m pytest -q")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "+    return price - price * percent / 100" in told["diff"]
    assert "print(" not in "".join(line for line in told["diff"].splitlines() if line.startswith("+"))
    assert "old-code" in done.stdout
    assert "no-print objects: it adds a call of `print`" in done.stdout


def write_extension(site: Path, name: str, group: str, body: str) -> None:
    metadata = site / f"{name}-2.1.dist-info"
    metadata.mkdir(parents=True)
    (site / f"{name}.py").write_text(body)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {name}:make\n")


RUNG = """
class make:
    rung = {rung!r}
    before = {before!r}
    def can_help(self, situation): ...
    async def propose(self, situation): ...
"""
OPINION = """
from agent.state import Opinion
async def step(state, work): ...
def make():
    return Opinion('prove', step)
"""


@pytest.mark.parametrize(
    ("group", "body", "why"),
    [
        pytest.param("selfheal.rungs", "import no_such_module_at_all\n", "ModuleNotFoundError", marks=pytest.mark.long),
        ("selfheal.rungs", "def make():\n    raise RuntimeError('out of ideas')\n", "out of ideas"),
        pytest.param("selfheal.rungs", "def make():\n    return 7\n", "its `rung` is not a name", marks=pytest.mark.long),
        pytest.param(
            "selfheal.rungs", RUNG.format(rung="patterns", before=""), "is the name of a built-in rung", marks=pytest.mark.long
        ),
        pytest.param(
            "selfheal.rungs", RUNG.format(rung="modelling", before=""), "is the name of a built-in rung", marks=pytest.mark.long
        ),
        pytest.param(
            "selfheal.rungs",
            RUNG.format(rung="mine", before="lunch"),
            "its `before` must be one of tools, history, patterns, model",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "selfheal.rungs",
            RUNG.format(rung="mine", before="").replace("async ", ""),
            "it is not a Proposer",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "selfheal.nodes", "def make():\n    return 7\n", "it is not an `agent.state.Opinion`", marks=pytest.mark.long
        ),
        ("selfheal.nodes", OPINION, "not be a built-in step's"),
    ],
)
def test_a_broken_extension_is_named_before_anything_is_healed(checkout: Path, group: str, body: str, why: str) -> None:
    site = checkout.parent / "site"
    write_extension(site, "mine", group, body)
    done = fix(checkout, site)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("selfheal: ")]
    assert "mine 2.1" in line
    assert why in line
    assert "Traceback" not in done.stderr
