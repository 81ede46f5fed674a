"""Whether another package index could replace the projects of the first one."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.doctor import checks
from app.settings import load
from sandbox.install.python.pip_configuration import public_index

OWN, MORE = "https://own.invalid/simple", "https://more.invalid/simple"


@pytest.mark.parametrize(
    ("first", "others", "strategy", "status", "said"),
    [
        (OWN, "", "first", "ok", f"packages come from {OWN}"),
        (OWN, MORE, "first", "ok", f"the first that has it: {OWN}, {MORE}"),
        (OWN, MORE, "best", "warning", "whichever has its highest version"),
        ("", OWN, "first", "warning", f"not from {OWN}"),
        (public_index(), OWN, "first", "warning", "anyone can publish"),
        ("https://u:secret@own.invalid/simple", MORE, "first", "warning", f"neither {OWN}, which needs a password"),
        (OWN, "https://u:secret@more.invalid/simple", "first", "ok", "the first that has it"),
    ],
)
async def test_the_order_of_package_indexes_is_checked(
    first: str, others: str, strategy: str, status: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", first)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", others)
    settings = load(data_dir=tmp_path, package_index_strategy=strategy, sandbox="process")
    check = await anext(checks.check_sandbox(settings))
    assert (check.name, check.status) == ("package indexes", status)
    assert said in check.seen
    assert bool(check.fix) == (status == "warning")
    assert "secret" not in check.seen
