"""Reads a folder's `package.json` and lock file as data, to decide what npm sees and what is refused.

Everything comes from the registry. A dependency from elsewhere (git, another host, a path outside the workspaces) is refused by
name: its origin is untrusted, and fetching it may run code. The amount of data is limited.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from sandbox.base import MIB, InstallFailed
from sandbox.host.tree import parts_of
from sandbox.install.package_index import host_of

MANIFEST = "package.json"
LOCKS = ("npm-shrinkwrap.json", "package-lock.json")
OTHER_LOCKS = ("yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb")
TABLES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
MEMBERS, TEXT = 1000, 16 * MIB  # limits: workspaces of one lock, and characters of all files that npm sees
SCRIPTS_TOLD = 5  # packages named in the note about install scripts
Read = Callable[[str], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Project:
    """`files` are all files that npm sees (manifests and lock), by their path in the folder."""

    files: Mapping[str, str]
    locked: bool
    notes: tuple[str, ...] = ()


async def read(folder: str, files: Read, hosts: frozenset[str]) -> Project:
    """`files` reads one file of the repository; `hosts` ("name:port") are the hosts that a lock may name as the registry.

    Raises `InstallFailed` if a file is unreadable or refused.
    """
    prefix = "" if folder in ("", ".") else folder.strip("/") + "/"
    where = prefix + MANIFEST
    text = await _text(where, files)
    if text is None:
        raise InstallFailed(f"{where} does not exist")
    found = {MANIFEST: text}
    notes: list[str] = []
    _refuse(where, manifest := _object(where, text))
    for name in LOCKS:
        if (lock := await _text(prefix + name, files)) is not None:
            found[name] = lock
            packages = _object(prefix + name, lock).get("packages")
            if not isinstance(packages, dict):
                raise InstallFailed(f"{prefix}{name} has the format from before npm 7; regenerate it with a newer npm")
            notes += _check_lock(prefix + name, packages, hosts)
            await _add_members(found, prefix, packages, files)
            return Project(found, True, tuple(notes))
    if manifest.get("workspaces"):
        notes.append(f"{where} has workspaces but no npm lock file, so only its own dependencies are installed")
        found[MANIFEST] = json.dumps({key: value for key, value in manifest.items() if key != "workspaces"})
    for name in OTHER_LOCKS:
        if await _text(prefix + name, files) is not None:
            notes.append(f"{prefix}{name} is ignored: npm installs what {where} requires")
    return Project(found, False, tuple(notes))


async def _add_members(found: dict[str, str], prefix: str, packages: Mapping[str, object], files: Read) -> None:
    """Add each workspace that the lock names, once."""
    members = dict.fromkeys(_member(path) for path in packages if path and "node_modules" not in path.split("/"))
    if len(members) > MEMBERS:
        raise InstallFailed(f"the lock names {len(members)} workspaces; the limit is {MEMBERS}")
    left = TEXT - sum(map(len, found.values()))
    for member in members:
        where = f"{prefix}{member}/{MANIFEST}"
        if (text := await _text(where, files)) is None:
            raise InstallFailed(f"the lock names a missing workspace: {where[:200]}")
        if (left := left - len(text)) < 0:
            raise InstallFailed(f"the manifests and the lock in {prefix or './'} are together larger than {TEXT // MIB} MiB")
        _refuse(where, _object(where, text))
        found[f"{member}/{MANIFEST}"] = text


def _member(path: str) -> str:
    try:
        return "/".join(parts_of(path))
    except ValueError as error:
        raise InstallFailed(f"the lock names a package outside its folder: {path[:100]!r}") from error


def _check_lock(where: str, packages: Mapping[str, object], hosts: frozenset[str]) -> Iterator[str]:
    scripts: list[str] = []
    for path, entry in packages.items():
        if not isinstance(entry, dict):
            raise InstallFailed(f"{where} is not a valid npm lock: {path[:100]!r} is not an object")
        _refuse(where, entry)
        resolved = entry.get("resolved")
        if isinstance(resolved, str) and not entry.get("link") and not _is_at(resolved, hosts):
            raise InstallFailed(f"{where} takes {path[:100]!r} from {resolved[:100]!r}, which is not the registry")
        if entry.get("hasInstallScript"):
            scripts.append(path.rpartition("node_modules/")[2])
    if scripts:
        named = ", ".join(sorted(set(scripts))[:SCRIPTS_TOLD])
        yield f"the install scripts of these packages are not run: {named}"


def _is_at(url: str, hosts: frozenset[str]) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https") and host_of(url) in hosts
    except ValueError:  # not a URL
        return False


def _refuse(where: str, table: Mapping[str, object]) -> None:
    """Raises `InstallFailed` for a dependency that is not a version, a tag, an alias of one, or a workspace."""
    for name, spec in _dependencies(table):
        if not _is_from_registry(spec):
            raise InstallFailed(f"{where} requires `{name[:80]}` from {spec[:100]!r}, which is not the registry")


def _dependencies(table: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Everything a manifest requires by name; `overrides` may nest to any depth."""
    for key in TABLES:
        named = table.get(key)
        yield from ((name, str(spec)) for name, spec in named.items()) if isinstance(named, dict) else ()
    waiting = [table.get("overrides")]
    while waiting:
        below = waiting.pop()
        for name, spec in below.items() if isinstance(below, dict) else ():
            if isinstance(spec, dict):
                waiting.append(spec)
            else:
                yield name, str(spec)


def _is_from_registry(spec: str) -> bool:
    if spec.startswith(("npm:", "workspace:")) or (spec.startswith("$") and ":" not in spec):  # `$name`: a dependency's spec
        return True
    is_path = spec.startswith(".") or spec.endswith((".tgz", ".tar.gz", ".tar"))
    return not is_path and ":" not in spec and "/" not in spec


def _object(where: str, text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InstallFailed(f"{where} is not valid JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise InstallFailed(f"{where} does not contain a JSON object")
    return value


async def _text(path: str, files: Read) -> str | None:
    try:
        return (await files(path)).decode("utf-8-sig", "replace")
    except (FileNotFoundError, ValueError):
        return None
