"""With nothing but a key: the vendor's public template, and what it lacks is installed at the machine's start."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.base import Command, SandboxUnavailable
from sandbox.e2b.plan import Timeouts
from sandbox.e2b.public_template import LACKING, TEMPLATE
from sandbox.install.package_index import IndexAccess, configured
from tests.sandbox.contract.backends import e2b_sandboxes
from tests.standins.e2b import E2B

pytestmark = [
    pytest.mark.optional(reason="the machines of the local E2B need root"),
    pytest.mark.asyncio(loop_scope="module"),
]
CREATE = "POST /v2/sandboxes"


@pytest.mark.long
async def test_until_our_template_is_built_the_public_one_is_prepared(e2b: E2B, tmp_path: Path) -> None:
    e2b.machines.templates = (TEMPLATE,)
    account = replace(e2b.account, timeouts=Timeouts(call=5.0, create=5.0, line=10.0))
    sandboxes = e2b_sandboxes(tmp_path, account, await configured())
    async with sandboxes.open("first") as sandbox:
        assert e2b.machine.template == TEMPLATE
        assert e2b.machine.rules == {"allow_internet_access": False}
        assert LACKING in sandbox.isolation.shortcomings
        async with sandbox.candidate() as workspace:
            said = await workspace.run(Command((workspace.python, "-c", "print(6 * 7)"), 30.0))
            assert said.stdout.strip() == b"42"
    async with sandboxes.open("second") as sandbox:
        assert LACKING in sandbox.isolation.shortcomings
    assert e2b.requests.count(CREATE) == 3, "the own template is asked for once"


async def test_what_cannot_be_installed_is_named(e2b: E2B, tmp_path: Path) -> None:
    e2b.machines.templates = (TEMPLATE,)
    e2b.machines.lacks = (str(shutil.which("git")),)
    with pytest.raises(SandboxUnavailable, match=r"cannot install git.*deploy\.e2b\.build"):
        async with e2b_sandboxes(tmp_path, e2b.account, IndexAccess((), frozenset())).open("second"):
            pass
    assert not e2b.machines.all
