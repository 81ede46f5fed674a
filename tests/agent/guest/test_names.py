"""What the guest finds out about names, asked the way the rung asks: as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.checks.guest_bundle import guest_bundle


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    path = tmp_path / "guest.zip"
    path.write_bytes(guest_bundle())
    return path


def names(guest: Path, root: Path, *wanted: str, modules: tuple[str, ...] = (), **uses: list[str]) -> dict[str, Any]:
    request = {"root": str(root), "names": wanted, "modules": modules, "uses": uses}
    command = [sys.executable, str(guest), "names"]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=True, timeout=60)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.long
def test_a_repository_is_read_and_never_imported(guest: Path, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    for path, text in {
        "src/pkg/__init__.py": "raise SystemExit('imported')\n",
        "src/pkg/deep/__init__.py": "from ..other import helper as h\n",
        "src/pkg/other.py": "import numpy as np\n\ndef helper(): ...\nVALUE: int = 1\n",
        "space/part.py": "class helper: ...\n",
        "bad.py": "def (:\nhelper\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    found = names(guest, root, "helper", "h", "np", "VALUE")
    assert found["imports"] == {"h": [[1, "from pkg.other import helper as h"]], "np": [[1, "import numpy as np"]]}
    assert found["defined"]["helper"] == [["space.part", "space/part.py"], ["pkg.other", "src/pkg/other.py"]]
    assert found["defined"]["VALUE"] == [["pkg.other", "src/pkg/other.py"]]
    assert found["paths"]["pkg.deep"] == "src/pkg/deep/__init__.py"


@pytest.mark.long
def test_what_the_standard_library_offers_is_seen_in_its_modules(guest: Path, tmp_path: Path) -> None:
    found = names(guest, tmp_path, "Mapping", "datetime", "urljoin", "json", "nothing_of_this_name", datetime=["now"])
    assert found["standard"]["Mapping"][:2] == ["collections.abc", "typing"]
    assert found["standard"]["datetime"] == ["datetime"]
    assert found["standard"]["urljoin"] == ["urllib.parse"]
    assert found["standard"]["json"] == found["standard"]["nothing_of_this_name"] == []
    assert (found["modules"]["json"], found["modules"]["nothing_of_this_name"]) == ("standard", "")
    assert names(guest, tmp_path, "datetime", datetime=["timedelta"])["standard"]["datetime"] == []


def test_what_is_installed_is_searched_without_importing_it(guest: Path, tmp_path: Path) -> None:
    found = names(guest, tmp_path, "CliRunner", "importer", modules=("typer", "yaml", "xml.dom.minidom", "pytest.no"))
    assert "typer.testing" not in found["installed"]["CliRunner"], "what is made for tests is not offered to products"
    assert found["distributions"]["yaml"] == ["PyYAML"]
    assert found["modules"] | {"xml.dom.minidom": "standard", "typer": "installed", "pytest.no": ""} == found["modules"]


def test_digests_tell_what_changed(guest: Path, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("x")
    (root / "a ü.py").write_text("1")
    (root / "link.py").symlink_to(root / "a ü.py")

    def look() -> dict[str, str]:
        done = subprocess.run([sys.executable, str(guest), "digests", str(root)], capture_output=True, text=True, check=True)
        return {json.loads(line.split(" ", 1)[1]): line.split(" ", 1)[0] for line in done.stdout.splitlines()}

    before = look()
    assert list(before) == ["a ü.py"]
    (root / "a ü.py").write_text("2")
    assert look() != before
