"""Which sandbox a worker uses: plain values in, a `Sandboxes` or a clear refusal out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sandbox import folders
from sandbox.base import Sandboxes, SandboxUnavailable
from sandbox.e2b.plan import Account
from sandbox.install.index.access import Unasked
from sandbox.install.packages import Shop
from sandbox.install.python.managed import Managed

_OPEN = "open"
Kind = Literal["auto", "local", "process", "docker", "e2b"]


@dataclass(frozen=True, slots=True)
class Containers:
    """For `docker`: the image that code runs in, and the engine's address (default: where its clients look for it).

    `allowed` are patterns of the images that a workflow may name instead (`sandbox.containers.images.is_allowed`).
    """

    image: str = "python:3.12"
    address: str | None = None
    allowed: tuple[str, ...] = ()


async def open_sandboxes(
    kind: Kind,
    folder: Path,
    *,
    trusted: bool = False,
    index_hosts: Sequence[str] = (),
    e2b: Account | None = None,
    containers: Containers = Containers(),
    python_downloads: bool = True,
) -> Sandboxes:
    """`folder` holds sandboxes while they are open, and what is downloaded and prepared for later.

    `trusted`: somebody vouches for the code of every repository. `index_hosts`: what an install step may reach ("host" or
    "host:port"; default: as the package client is configured). `e2b`: the account, where there is one; `auto` then means it.
    `python_downloads`: whether a Python that this machine lacks is downloaded.
    Raises `SandboxUnavailable`.
    """
    pythons = Managed(folder / "packages/pythons", python_downloads)
    shop = Shop(folder / "packages", Unasked(index_hosts), pythons)
    sandboxes = await _of_kind(kind, folder, shop, e2b, containers)
    if not (trusted or sandboxes.isolation.untrusted):
        raise SandboxUnavailable(
            f"the `{sandboxes.isolation.name}` sandbox does not hold untrusted code here: say that the code of every "
            "repository is trusted, or use `local`"
        )
    # A worker that was killed is replaced by one that may never open any.
    await asyncio.to_thread(folders.sweep, folder / _OPEN)
    await asyncio.to_thread(shop.clear)
    return sandboxes


async def _of_kind(kind: Kind, folder: Path, shop: Shop, e2b: Account | None, containers: Containers) -> Sandboxes:
    if kind == "e2b" or (kind == "auto" and e2b is not None):
        if e2b is None:
            raise SandboxUnavailable("the `e2b` sandbox needs a key of E2B")
        from sandbox.e2b.sandboxes import E2BSandboxes

        return E2BSandboxes(folder / "e2b", shop, e2b)
    if kind == "process":
        from sandbox.process import ProcessSandboxes

        return ProcessSandboxes(folder / _OPEN, shop)
    if kind == "docker":
        from sandbox import docker

        choice = docker.Choice(containers.image, containers.allowed)
        return await docker.reach(folder / _OPEN, shop, choice, containers.address)
    from sandbox.local import LocalSandboxes

    return LocalSandboxes(folder / _OPEN, shop)
