"""Every sandbox there is, as the contract's tests need it: how it is opened here, in another process, and what it left behind.

A new one is added to `BACKENDS`, and is done when the contract holds.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.base import Sandboxes
from sandbox.e2b.plan import Account
from sandbox.e2b.sandboxes import E2BSandboxes
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from tests.sandbox import engines
from tests.sandbox.conftest import engine_of, make
from tests.standins.e2b import E2B


@dataclass(frozen=True)
class Backend:
    """`elsewhere` is an expression that makes the same `Sandboxes` in another process, with what it has to import before.

    `left` lists what is there of sandboxes that are open, or were not cleaned up.
    """

    sandboxes: Sandboxes
    elsewhere: tuple[str, str]
    left: Callable[[], list[str]]


def groups() -> list[str]:
    """Control groups of open sandboxes whose label begins with `leaves`."""
    walk = os.walk("/sys/fs/cgroup")  # unlike `glob`, it bears that other tests' groups go meanwhile
    return [folder for folder, _, _ in walk if Path(folder).name.startswith("selfheal-leaves-")]


def folders_in(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*/")]


@asynccontextmanager
async def here(kind: str, folder: Path) -> AsyncIterator[Backend]:
    imports = "from tests.sandbox.conftest import make"
    yield Backend(
        make(kind, folder),
        (imports, f"make({kind!r}, Path({str(folder)!r}))"),
        lambda: folders_in(folder / "open") + groups(),
    )


@asynccontextmanager
async def engine(kind: str, folder: Path) -> AsyncIterator[Backend]:
    address = engine_of(kind)
    imports = "from tests.sandbox.conftest import make"
    yield Backend(
        make(kind, folder, address=address),
        (imports, f"make({kind!r}, Path({str(folder)!r}), address={address!r})"),
        lambda: folders_in(folder / "open") + engines.left_in(str(address), folder / "open"),
    )


@asynccontextmanager
async def e2b(folder: Path) -> AsyncIterator[Backend]:
    need_machines()
    async with E2B.serve() as stand_in:
        stand_in.machines.environment["PIP_NO_INDEX"] = "1"
        account = stand_in.account
        again = f"Account({account.api_key!r}, per_second=100.0, api_url={stand_in.url!r}, sandbox_url={stand_in.url!r})"
        yield Backend(
            e2b_sandboxes(folder, account),
            (
                "from tests.sandbox.contract.backends import Account, e2b_sandboxes",
                f"e2b_sandboxes(Path({str(folder)!r}), {again})",
            ),
            lambda: folders_in(folder / "open") + list(stand_in.machines.all) + groups(),
        )


def e2b_sandboxes(folder: Path, account: Account, index: IndexAccess | None = None) -> E2BSandboxes:
    return E2BSandboxes(folder / "open", PackageStore(folder / "packages", index or IndexAccess((), frozenset())), account)


def need_machines() -> None:
    if os.geteuid() != 0:
        pytest.skip("the machines of the local E2B need root")


BACKENDS: dict[str, Callable[[Path], AbstractAsyncContextManager[Backend]]] = {
    "local": lambda folder: here("local", folder),
    "process": lambda folder: here("process", folder),
    "docker": lambda folder: engine("docker", folder),
    "podman": lambda folder: engine("podman", folder),
    "e2b": e2b,
}


def running(mark: str) -> list[str]:
    """Processes of this machine one of whose arguments is `mark`; those of a local E2B's machines are among them."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                argv = Path(entry.path, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark.encode() in argv:
                found.append(entry.name)
    return found


async def gone(mark: str) -> bool:
    """Whether nothing with `mark` runs any more: a killed process may be seen for a moment."""
    for _ in range(100):
        if not running(mark):
            return True
        await asyncio.sleep(0.02)
    return False
