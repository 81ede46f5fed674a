"""The same attacks in every kind of sandbox: what is for strangers' code holds, what is not is seen to hold nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.base import Sandboxes
from sandbox.e2b.sandboxes import E2BSandboxes
from sandbox.install import packages
from sandbox.install.package_index import IndexAccess
from sandbox.jail.workspace import JailInstallBackend
from sandbox.proof.findings import ATTACKS, DECISIVE, Finding
from sandbox.proof.prove import HostAssets, prove
from tests.sandbox.conftest import ENGINES, engine_of, make
from tests.sandbox.contract import backends

INSTALLING = " (install step)"


async def proven(sandboxes: Sandboxes, folder: Path) -> dict[str, Finding]:
    secret = folder / "secret"
    secret.write_text("s3cr3t")
    found = {each.name: each async for each in prove(sandboxes, HostAssets((folder,), (secret,)))}
    assert {name.removesuffix(INSTALLING) for name in found} == ATTACKS.keys()
    assert any(name.endswith(INSTALLING) for name in found) == sandboxes.isolation.untrusted
    return found


def wrong(found: dict[str, Finding]) -> dict[str, str]:
    return {name: each.seen for name, each in found.items() if each.status == "failed"}


def is_readable(path: str) -> bool:
    try:
        Path(path).read_bytes()
    except PermissionError:
        return False
    return True


@pytest.mark.parametrize("kind", ENGINES)
async def test_containers_hold(kind: str, tmp_path: Path) -> None:
    found = await proven(make(kind, tmp_path, address=engine_of(kind)), tmp_path)
    print({name: each.seen for name, each in found.items() if each.status != "ok"})
    assert wrong(found) == {}


@pytest.mark.long
async def test_a_machine_at_e2b_holds(tmp_path: Path) -> None:
    async with backends.e2b(tmp_path) as backend:
        assert isinstance(backend.sandboxes, E2BSandboxes)
        found = await proven(backend.sandboxes, tmp_path)
    assert wrong(found) == {}


async def test_a_plain_process_is_seen_to_hold_nothing(tmp_path: Path) -> None:
    found = await proven(make("process", tmp_path), tmp_path)
    # Its environment is clean, so that part fails only on a machine that shows the environment of process 1.
    assert {each.part for each in found.values() if each.is_decisive} | {"environment"} == DECISIVE
    assert found["first environment"].is_decisive == is_readable("/proc/1/environ")
    for name in ("files of the worker", "loopback of the machine", "abstract socket", "other processes", "another sandbox"):
        assert found[name].status == "failed", name
    assert not list(tmp_path.glob(".canary*")), "and it did no harm"


class AllHosts(frozenset[str]):
    def __contains__(self, _: object) -> bool:
        return True


@pytest.mark.long
@pytest.mark.parametrize("hole", ["proxy", "caches"])
async def test_a_hole_in_the_install_step_alone_is_named(hole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = AllHosts() if hole == "proxy" else frozenset()
    sandboxes = make("local", tmp_path, IndexAccess((), hosts))
    (tmp_path / "packages" / "wheels").mkdir(parents=True)
    if hole == "caches":
        show = JailInstallBackend.show

        async def show_all(self: JailInstallBackend, source: Path, inside: str) -> str:
            return await show(self, tmp_path / "packages" / "wheels" if inside == packages.WHEELS else source, inside)

        monkeypatch.setattr(JailInstallBackend, "show", show_all)
    found = {each.name: each async for each in prove(sandboxes, HostAssets(sandboxes=tmp_path))}
    name = "proxy" if hole == "proxy" else "files of the worker"
    assert [found[name].status, found[name + INSTALLING].status] == ["ok", "failed"], found[name + INSTALLING].seen
