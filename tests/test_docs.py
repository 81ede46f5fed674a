"""The documentation names files that exist, and the architecture page is true where that can be checked."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.story.service import free_port

ROOT = Path(__file__).resolve().parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
PAGES = [
    path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/*.md")) if path.name != "CHANGELOG.md"
]
PRODUCT = ("agent", "app", "sandbox", "webhooks")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_module_names_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
    names = re.findall(r"`((?:agent|app|sandbox|webhooks)/[\w./*-]+)`", text)
    assert [name for name in names if not list(ROOT.glob(name.rstrip("/")))] == []


def test_the_architecture_page_can_be_read_in_five_minutes() -> None:
    assert max(map(len, ARCHITECTURE.splitlines())) <= 160
    assert len(ARCHITECTURE.split()) < 2_000
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.long
def test_imports_inside_functions_stand_on_the_architecture_page() -> None:
    listed = set(re.findall(r"`([a-z]+/[\w/.]+)`", ARCHITECTURE.partition("## Imports inside functions")[2]))
    files = subprocess.check_output(["git", "ls-files", *PRODUCT], cwd=ROOT, text=True).splitlines()
    found = {path for path in files if path.endswith(".py") and _imports_late(ROOT / path)}
    assert {path for path in found if not any(path == name or path.startswith(f"{name}/") for name in listed)} == set()
    assert {name for name in listed if not any(path == name or path.startswith(f"{name}/") for path in found)} == set()


@pytest.mark.long
def test_the_commands_about_http_in_the_guide_work_as_they_stand(tmp_path: Path) -> None:
    section = (ROOT / "docs/guide.md").read_text().partition("### Over HTTP")[2].partition("\n## ")[0]
    serve, curl = re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    ports = {"SELFHEAL_PORT": str(free_port()), "SELFHEAL_PAGES_PORT": str(free_port())}  # this machine may use the defaults
    new = {"HOME": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin", **ports}
    with subprocess.Popen(["sh", "-c", f"exec env {serve}"], cwd=tmp_path, env=new, stderr=subprocess.PIPE) as service:
        try:
            assert service.stderr is not None
            while b"pages listening" not in (said := service.stderr.readline()):
                assert said, "it ended"
            asked = curl.replace(":8001", f":{ports['SELFHEAL_PAGES_PORT']}")
            answered = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, timeout=200, check=False)
        finally:
            service.terminate()
            service.wait(60)
    assert '"status": "solved"' in answered.stdout, answered


def _imports_late(path: Path) -> bool:
    tree = ast.parse(path.read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(isinstance(inner, ast.Import | ast.ImportFrom) for function in functions for inner in ast.walk(function))
