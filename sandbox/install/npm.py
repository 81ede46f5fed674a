"""The install step for Node: `node_modules` of a folder, from the registry alone and without running any package's scripts.

npm works in the sandbox, in a place that sees nothing of the repository but manifests and their lock; its way out leads to the
registry and nowhere else. What it makes is copied into the repository's folder, where its code may write it like everything
else there; where it is the whole of what the lock says, it is sealed and kept for whoever asks for the same (`environments`).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sandbox.base import Completed, DeadlinePassed, InstallFailed
from sandbox.install import shelf
from sandbox.install.index import forwarder
from sandbox.install.index.proxy import IndexProxy
from sandbox.install.node import manifests
from sandbox.install.node import registry as npm_registry
from sandbox.install.node import scripts as npm_scripts
from sandbox.install.node.manifests import Project
from sandbox.install.node.registry import Registry
from sandbox.install.node.scripts import Made
from sandbox.install.placing import ASKED, CERTIFICATES, SOCKET, WAY, Place
from sandbox.install.python import environments

Start = Callable[[Sequence[str], Mapping[str, str]], Awaitable[Completed]]
FORM = 2  # raise it when the same manifests would become something else
FRESH_SECONDS = 86_400.0  # how long an answer without a lock counts as today's
PROJECT, SHOWN = "project", "/made"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that `node_modules` follow from."""

    registry: Registry
    project: Project

    @property
    def key(self) -> str:
        here = (FORM, platform.machine(), self.registry.node, self.registry.npm, self.registry.url)
        return hashlib.sha256(repr((here, sorted(self.project.files.items()))).encode()).hexdigest()[:32]

    def write(self, folder: Path) -> None:
        for name, text in self.project.files.items():
            path = folder / PROJECT / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


async def install(folders: Sequence[str], place: Place, cache: Path, python: str) -> tuple[str, ...]:
    """Fill each folder's `node_modules`; returns notes for people. Raises `InstallFailed`, `SandboxError`.

    `python` runs the forwarder, as seen inside; `cache` keeps what was made.
    """
    registry = await asyncio.to_thread(npm_registry.configured)
    notes: list[str] = []
    for folder in folders:
        project = await manifests.read(folder, place.read, registry.named)
        notes += project.notes
        if any(manifests.MANIFEST in name for name in project.files):
            notes += await _install(folder, Recipe(registry, project), place, cache, python)
    return tuple(notes)


async def _install(folder: str, recipe: Recipe, place: Place, cache: Path, python: str) -> tuple[str, ...]:
    kitchen = Kitchen(place, recipe, python)
    if (sharing := place.sharing) is None:  # code could write what others use too
        with tempfile.TemporaryDirectory() as made:
            await asyncio.to_thread(os.chmod, made, 0o755)
            await asyncio.to_thread(recipe.write, Path(made))
            if not await kitchen.run(
                place.install_command, npm_scripts.ALONE, await place.see(Path(made), ASKED), folder or "."
            ):
                raise kitchen.failed()
        return kitchen.notes

    async def make(made: Path) -> bool:
        return await kitchen.run(partial(sharing.prepare, made), npm_scripts.MAKE, ASKED, place.env)

    since = None if recipe.project.locked else time.time() - FRESH_SECONDS
    held = await environments.prepared(cache, recipe, make, since=since, lasts=lambda: kitchen.made.whole)
    if held is None:
        raise kitchen.failed()
    try:
        await _copy(held.folder / environments.TREE, folder, place)
    finally:
        await asyncio.shield(asyncio.to_thread(shelf.put_back, held))
    return kitchen.notes


class Kitchen:
    """Has npm make a recipe; keeps what it said last."""

    def __init__(self, place: Place, recipe: Recipe, python: str) -> None:
        self._place, self._recipe, self._python = place, recipe, python
        self._said: Completed | None = None
        self.made = Made()

    async def run(self, start: Start, script: str, asked: str, target: str) -> bool:
        """`script` gets the recipe's files, which are at `asked` as seen inside, and where to. Raises `InstallFailed`."""
        registry, place = self._recipe.registry, self._place
        locked = "locked" if self._recipe.project.locked else "free"
        argv = ["/bin/sh", "-c", script, "sh", asked, target, locked, *npm_scripts.OPTIONS, f"--registry={registry.url}"]
        env = {}
        if registry.certificates is not None:
            env["NODE_EXTRA_CA_CERTS"] = await place.see(registry.certificates, CERTIFICATES)
        async with AsyncExitStack() as opened:
            if place.way_out is not None:
                await opened.enter_async_context(IndexProxy(registry.hosts).serve(place.way_out / SOCKET))
                way = await place.see(place.way_out, WAY)
                through = await place.see(Path(forwarder.__file__), "/installer/forwarder.py")
                argv = [self._python, "-I", through, f"{way}/{SOCKET}", *argv]
            try:
                self._said = await start(argv, env)
            except DeadlinePassed as late:
                raise InstallFailed(f"npm took longer than {late.seconds:.0f} s", _text(late.stdout, late.stderr)) from late
        self.made = npm_scripts.told(self._said.stdout.decode(errors="replace"))
        return self._said.exit_code == 0

    @property
    def notes(self) -> tuple[str, ...]:
        """How what was made now differs from what was asked for; nothing where what is kept, and so whole, was taken."""
        return () if self._said is None or self._said.exit_code else self.made.notes

    def failed(self) -> InstallFailed:
        text = "" if self._said is None else _text(self._said.stdout, self._said.stderr)
        lines = [line.removeprefix("npm error").strip() for line in text.splitlines() if line.startswith("npm error")]
        telling = next((line for line in lines if line and not line.startswith("code ")), "npm did not say why")
        return InstallFailed(f"npm could not install the dependencies: {telling[:300]}", text)


async def _copy(tree: Path, folder: str, place: Place) -> None:
    source = await place.see(tree, SHOWN)
    ended = await place.install_command(["/bin/sh", "-c", npm_scripts.COPY, "sh", source, folder or "."], {})
    if ended.exit_code:
        raise InstallFailed("the packages that npm installed cannot be copied", _text(ended.stdout, ended.stderr))


def _text(*parts: bytes) -> str:
    return b"".join(parts).decode(errors="replace")
