"""The install step for Node: `node_modules` of a folder, from the registry alone and without running any package's scripts.

npm works in the sandbox, in a place that sees nothing of the repository but manifests and their lock; its way out leads to the
registry and nowhere else. What it makes is sealed and kept for whoever asks for the same (`environments`), and copied into the
repository's folder, where its code may write it like everything else there.
"""

from __future__ import annotations

import asyncio
import hashlib
import platform
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sandbox.base import Completed, DeadlinePassed, InstallFailed
from sandbox.install import environments, forwarder, manifests, npm_registry, shelf
from sandbox.install.index_proxy import IndexProxy
from sandbox.install.manifests import Project
from sandbox.install.npm_registry import Registry
from sandbox.install.placing import ASKED, CERTIFICATES, SOCKET, WAY, Place

FORM = 1  # raise it when the same manifests would become something else
FRESH_SECONDS = 86_400.0  # how long an answer without a lock counts as today's
PROJECT, MADE = "project", "/made"
# A lock that does not fit its manifest is what `npm ci` refuses; CI would too, but its cache of modules may hide that.
_MAKE = """
cp -R "$1/project/." "$2/" && cd "$2" || exit 1
locked=$3; shift 3
cache=$(mktemp -d)
set -- "$@" --cache "$cache" --userconfig "$cache/none" --globalconfig "$cache/nothing"
if [ "$locked" = locked ]; then npm ci "$@" || npm install "$@"
else npm install "$@" --no-package-lock; fi
ended=$?
rm -rf "$cache"
exit $ended
"""
_OPTIONS = (
    "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--include=dev",
    "--no-save", "--git=/bin/false",
)  # fmt: skip
_COPY = """
to=$(cd "$2" && pwd) && cd "$1" || exit 1
find . -name node_modules -type d -prune | while read -r one; do
    rm -rf "$to/$one" && mkdir -p "$to/${one%node_modules}" && cp -a --reflink=auto "$one" "$to/$one" || exit 1
done
"""


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
        project = await manifests.read(folder, place.read)
        notes += project.notes
        if any(manifests.MANIFEST in name for name in project.files):
            await _install(folder, Recipe(registry, project), place, cache, python)
    return tuple(notes)


async def _install(folder: str, recipe: Recipe, place: Place, cache: Path, python: str) -> None:
    said: list[Completed] = []
    if place.sharing is None:  # code could write what others use too
        with tempfile.TemporaryDirectory() as made:
            await asyncio.to_thread(recipe.write, Path(made))
            (tree := Path(made) / environments.TREE).mkdir()
            if not await _make(place, recipe, python, said, Path(made), made, str(tree)):
                raise _failed(said)
            await _copy(tree, folder, place)
        return
    start = partial(_make, place, recipe, python, said)
    fresh = None if recipe.project.locked else time.time() - FRESH_SECONDS
    held = await environments.prepared(cache, recipe, lambda made: start(made, ASKED, place.env), since=fresh)
    if held is None:
        raise _failed(said)
    try:
        await _copy(held.folder / environments.TREE, folder, place)
    finally:
        await asyncio.shield(asyncio.to_thread(shelf.put_back, held))


async def _make(place: Place, recipe: Recipe, python: str, said: list[Completed], folder: Path, asked: str, tree: str) -> bool:
    """Run npm on the recipe's files, which are at `asked` as seen inside; what it says is added to `said`."""
    registry = recipe.registry
    locked = "locked" if recipe.project.locked else "free"
    argv = ["/bin/sh", "-c", _MAKE, "sh", asked, tree, locked, *_OPTIONS, f"--registry={registry.url}"]
    env = {}
    if registry.certificates is not None:
        env["NODE_EXTRA_CA_CERTS"] = await place.see(registry.certificates, CERTIFICATES)
    run = place.install_command if place.sharing is None else partial(place.sharing.prepare, folder)
    async with AsyncExitStack() as open_:
        if place.way_out is not None:
            await open_.enter_async_context(IndexProxy(registry.hosts).serve(place.way_out / SOCKET))
            way = await place.see(place.way_out, WAY)
            through = await place.see(Path(forwarder.__file__), "/installer/forwarder.py")
            argv = [python, "-I", through, f"{way}/{SOCKET}", *argv]
        try:
            said.append(await run(argv, env))
        except DeadlinePassed as late:
            raise InstallFailed(f"npm took longer than {late.seconds:.0f} s", _text(late.stdout, late.stderr)) from late
    return said[-1].exit_code == 0


async def _copy(tree: Path, folder: str, place: Place) -> None:
    source = await place.see(tree, MADE)
    ended = await place.install_command(["/bin/sh", "-c", _COPY, "sh", source, folder or "."], {})
    if ended.exit_code:
        raise InstallFailed("the packages that npm installed cannot be copied", _text(ended.stdout, ended.stderr))


def _failed(said: Sequence[Completed]) -> InstallFailed:
    text = _text(said[-1].stdout, said[-1].stderr) if said else ""
    lines = [line.removeprefix("npm error").strip() for line in text.splitlines() if line.startswith("npm error")]
    telling = next((line for line in lines if line and not line.startswith("code ")), "npm did not say why")
    return InstallFailed(f"npm could not install the dependencies: {telling[:300]}", text)


def _text(*parts: bytes) -> str:
    return b"".join(parts).decode(errors="replace")
