"""The documentation names files that exist, and the architecture page is true where that can be checked."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

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


def _imports_late(path: Path) -> bool:
    tree = ast.parse(path.read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(isinstance(inner, ast.Import | ast.ImportFrom) for function in functions for inner in ast.walk(function))
