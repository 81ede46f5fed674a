"""What a folder's `package.json` and lock say, read as data: what npm is to be shown, and what it may not be asked for.

Everything comes from the registry. A dependency from elsewhere (git, another host, a path outside of the workspaces) is named
and refused: nobody vouches for where it comes from, and fetching it may run code.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from sandbox.base import InstallFailed

MANIFEST = "package.json"
LOCKS = ("npm-shrinkwrap.json", "package-lock.json")
OTHER_LOCKS = ("yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb")
TABLES = ("dependencies", "devDependencies", "optionalDependencies")
SCRIPTS_TOLD = 5  # packages whose install scripts are named
Read = Callable[[str], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Project:
    """`files` are the only ones that npm sees: manifests and the lock, by their path in the folder."""

    files: Mapping[str, str]
    locked: bool
    notes: tuple[str, ...] = ()


async def read(folder: str, files: Read) -> Project:
    """`files` reads one file of the repository. Raises `InstallFailed` for what cannot be read or is refused."""
    prefix = "" if folder in ("", ".") else folder.strip("/") + "/"
    where = prefix + MANIFEST
    text = await _text(where, files)
    if text is None:
        raise InstallFailed(f"{where} is not there")
    found = {MANIFEST: text}
    notes: list[str] = []
    _refuse(where, [manifest := _object(where, text)])
    for name in LOCKS:
        if (lock := await _text(prefix + name, files)) is not None:
            found[name] = lock
            packages = _object(prefix + name, lock).get("packages")
            if not isinstance(packages, dict):
                raise InstallFailed(f"{prefix}{name} is of a form before npm 7; write it anew with a newer npm")
            notes += _judge_lock(prefix + name, packages)
            for member in (path for path in packages if path and "node_modules" not in path.split("/")):
                await _add_member(found, member, prefix, files)
            return Project(found, True, tuple(notes))
    if manifest.get("workspaces"):
        notes.append(f"{where} has workspaces but no lock of npm: only its own dependencies are installed")
        found[MANIFEST] = json.dumps({key: value for key, value in manifest.items() if key != "workspaces"})
    for name in OTHER_LOCKS:
        if await _text(prefix + name, files) is not None:
            notes.append(f"{prefix}{name} is approximated: npm installs what {where} asks for")
    return Project(found, False, tuple(notes))


async def _add_member(found: dict[str, str], member: str, prefix: str, files: Read) -> None:
    if member.startswith("/") or ".." in member.split("/"):
        raise InstallFailed(f"the lock names a package outside of its folder: {member[:100]!r}")
    where = f"{prefix}{member}/{MANIFEST}"
    if (text := await _text(where, files)) is None:
        raise InstallFailed(f"the lock names a workspace that is not there: {where[:200]}")
    _refuse(where, [_object(where, text)])
    found[f"{member}/{MANIFEST}"] = text


def _judge_lock(where: str, packages: Mapping[str, object]) -> Iterator[str]:
    scripts: list[str] = []
    hosts: dict[str, str] = {}
    for path, entry in packages.items():
        if not isinstance(entry, dict):
            raise InstallFailed(f"{where} is no lock of npm: {path[:100]!r} is no object")
        _refuse(where, [entry])
        resolved = entry.get("resolved")
        if isinstance(resolved, str) and not entry.get("link"):
            parts = urlsplit(resolved)
            if parts.scheme not in ("http", "https"):
                raise InstallFailed(f"{where} has {path[:100]!r} from {resolved[:100]!r}, which is not the registry")
            hosts.setdefault(parts.netloc, path)
        if entry.get("hasInstallScript"):
            scripts.append(path.rpartition("node_modules/")[2])
    if len(hosts) > 1:
        raise InstallFailed(f"{where} takes packages from several hosts: {', '.join(sorted(hosts)[:4])}")
    if scripts:
        named = ", ".join(sorted(set(scripts))[:SCRIPTS_TOLD])
        yield f"install scripts of packages are not run: {named}"


def _refuse(where: str, tables: list[Mapping[str, object]]) -> None:
    """Raises `InstallFailed` for a dependency that is neither a version, a tag, an alias of one, nor a workspace."""
    for table in tables:
        for key in TABLES:
            wanted = table.get(key)
            for name, spec in wanted.items() if isinstance(wanted, dict) else ():
                text = str(spec)
                is_plain = ":" not in text and "/" not in text
                if not is_plain and not text.startswith(("npm:", "workspace:")):
                    raise InstallFailed(f"{where} wants `{name[:80]}` from {text[:100]!r}, which is not the registry")


def _object(where: str, text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InstallFailed(f"{where} is no valid JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise InstallFailed(f"{where} holds no object")
    return value


async def _text(path: str, files: Read) -> str | None:
    try:
        return (await files(path)).decode("utf-8-sig", "replace")
    except (FileNotFoundError, ValueError):
        return None
