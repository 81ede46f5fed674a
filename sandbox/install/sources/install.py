"""The install step for crates and Go modules: fetched outside the sandbox, mounted read-only for all of its commands."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import Path

from sandbox.base import InstallFailed, Packages
from sandbox.install.backend import InstallBackend
from sandbox.install.sources import crates, go_modules, lock
from sandbox.install.sources.fetch import Budget
from sandbox.install.sources.upstreams import Upstreams, unfetched


async def install(
    packages: Packages,
    backend: InstallBackend,
    caches: Path,
    python: str,
    upstreams: Upstreams,
    budget: Budget,
) -> tuple[str, ...]:
    """Provide what the locks in the packages' folders name; returns notes. Raises `InstallFailed`, `SandboxError`.

    `python`, a path in the sandbox, runs the forwarder.
    """
    notes: list[str] = []
    if packages.crates and backend.keep is not None and upstreams.crates:
        for folder in packages.crates:
            notes += await lock.write_if_missing(folder, backend, python, upstreams.crates)
        found = [crates.read_lock(text) for text in await _texts(backend, packages.crates, crates.LOCK)]
        named = tuple(sorted({crate for each in found for crate in each}))
        entry = await crates.provide(named, upstreams.crates, caches / "crates", budget)
        await backend.keep(entry, crates.INSIDE, crates.environment(crates.INSIDE))
    elif packages.crates:
        notes.append(unfetched(crates.LOCK, "SELFHEAL_CRATES_INDEX"))
    if packages.go_modules and backend.keep is not None and upstreams.go:
        modules = [go_modules.read_lock(text) for text in await _texts(backend, packages.go_modules, go_modules.LOCK)]
        needed = tuple(sorted({module for each in modules for module in each}))
        entry = await go_modules.provide(needed, upstreams.go, caches / "go-modules", budget)
        await backend.keep(entry, go_modules.INSIDE, go_modules.environment(go_modules.INSIDE))
    elif packages.go_modules:
        notes.append(unfetched(go_modules.LOCK, "SELFHEAL_GO_PROXY"))
    has_network = backend.keep is None and backend.proxy_folder is None
    return () if has_network else tuple(notes)


async def _texts(backend: InstallBackend, folders: Sequence[str], name: str) -> list[str]:
    texts = []
    for folder in folders:
        path = posixpath.normpath(posixpath.join(folder, name))
        try:
            texts.append((await backend.read(path)).decode("utf-8", "replace"))
        except FileNotFoundError as error:
            raise InstallFailed(f"{path} does not exist") from error
        except ValueError as error:
            raise InstallFailed(f"{path} is a link, or no file") from error
    return texts
