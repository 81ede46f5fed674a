"""Selects and opens the sandbox backend that the settings name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sandbox import folders
from sandbox.base import Sandboxes, SandboxUnavailable
from sandbox.e2b.plan import Account
from sandbox.install.download import DownloadPolicy
from sandbox.install.package_index import LazyIndexAccess
from sandbox.install.packages import PackageStore
from sandbox.install.python.interpreters import ManagedPythons
from sandbox.install.sources.upstreams import NOTHING, Upstreams

_OPEN = "open"
Kind = Literal["auto", "local", "process", "docker", "e2b"]


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """Options of `docker`: the default image, the engine's address, and patterns of the images that a workflow may name."""

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
    containers: ContainerOptions = ContainerOptions(),
    python_downloads: bool = True,
    downloads: DownloadPolicy = DownloadPolicy(),
    upstreams: Upstreams = NOTHING,
) -> Sandboxes:
    """The sandboxes of `kind`. `folder` holds open sandboxes and the caches. Raises `SandboxUnavailable`.

    `trusted`: the operator vouches for the code of every repository. `index_hosts`: what an install step may reach ("host" or
    "host:port"; default: from the package client's configuration). `e2b`: the account, if any; `auto` then selects it.
    `python_downloads`: whether to download a Python that this machine lacks. `downloads`: bounds of all downloads.
    `upstreams`: where crates and Go modules come from.
    """
    pythons = ManagedPythons(folder / "packages/pythons", python_downloads, downloads)
    store = PackageStore(folder / "packages", LazyIndexAccess(index_hosts, downloads.strategy), pythons, downloads, upstreams)
    sandboxes = await _of_kind(kind, folder, store, e2b, containers)
    if not (trusted or sandboxes.isolation.untrusted):
        raise SandboxUnavailable(
            f"the `{sandboxes.isolation.name}` sandbox cannot isolate untrusted code on this machine: declare the "
            "code of every repository trusted, or use `local`"
        )
    # Clean up after killed workers now, because this worker may never open a sandbox.
    await asyncio.to_thread(folders.sweep, folder / _OPEN)
    await asyncio.to_thread(store.clear)
    return sandboxes


async def _of_kind(
    kind: Kind, folder: Path, store: PackageStore, e2b: Account | None, containers: ContainerOptions
) -> Sandboxes:
    if kind == "e2b" or (kind == "auto" and e2b is not None):
        if e2b is None:
            raise SandboxUnavailable("the `e2b` sandbox needs an E2B API key")
        from sandbox.e2b.sandboxes import E2BSandboxes

        return E2BSandboxes(folder / "e2b", store, e2b)
    if kind == "process":
        from sandbox.process import ProcessSandboxes

        return ProcessSandboxes(folder / _OPEN, store)
    if kind == "docker":
        from sandbox import docker

        policy = docker.ImagePolicy(containers.image, containers.allowed)
        return await docker.connect(folder / _OPEN, store, policy, containers.address)
    from sandbox.local import LocalSandboxes

    return LocalSandboxes(folder / _OPEN, store)
