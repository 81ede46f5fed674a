"""Fetches the modules that a go.sum names from a module proxy, and lays them out as the proxy's own files.

Go is not needed for that. In the sandbox, `go` finds the modules through `GOPROXY`, a folder.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from sandbox.base import MIB, InstallFailed
from sandbox.install.folder_cache import CacheEntry
from sandbox.install.sources import fetch
from sandbox.install.sources.fetch import Asked, Budget, SourcesUnavailable

LOCK, FORM = "go.sum", 1
INSIDE = "/fetched/go"
MOD_LIMIT = 16 * MIB  # bytes of a go.mod; Go's own limit
_DIRECTORY = 16 * MIB  # bytes of a zip's directory, which fills many times its size in memory
_LINE = re.compile(
    r"(?P<path>[\w.~/-]{1,300}) (?P<version>v[\w.+-]{1,200}?)(?P<mod>/go\.mod)? h1:(?P<digest>[A-Za-z0-9+/]{43}=)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, order=True)
class Module:
    """One version. `mod` is the digest of its go.mod, `zip` of its content; "" for what the build does not need."""

    path: str
    version: str
    mod: str
    zip: str


def environment(inside: str) -> Mapping[str, str]:
    """The variables with which `go` finds the modules at the path `inside`."""
    return {"GOPROXY": f"file://{inside}", "GOSUMDB": "off", "GOTOOLCHAIN": "local"}


def read_lock(text: str) -> tuple[Module, ...]:
    """Raises `InstallFailed` for a line that names no module."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        read = _LINE.fullmatch(line.strip())
        if read is None or ".." in read["path"].split("/") or read["path"].startswith("/"):
            raise InstallFailed(f"{LOCK} has a line that names no module: {line[:100]!r}")
        found.setdefault((read["path"], read["version"]), {})["mod" if read["mod"] else "zip"] = read["digest"]
    if len(found) > fetch.FILES:
        raise InstallFailed(f"{LOCK} names {len(found)} modules; the limit is {fetch.FILES}")
    return tuple(Module(*name, digests.get("mod", ""), digests.get("zip", "")) for name, digests in sorted(found.items()))


async def provide(modules: tuple[Module, ...], proxy: str, cache: Path, budget: Budget) -> CacheEntry:
    """A locked folder with the modules. Raises `InstallFailed`."""

    async def make(folder: Path) -> None:
        asked = [each for module in modules for each in _asked(module, proxy.rstrip("/"), folder)]
        try:
            await budget.fetch(asked, "the Go modules")
        except (httpx.HTTPError, OSError) as error:
            why = f"the modules that {LOCK} names could not be fetched from {proxy}: {fetch.in_words(error)}"
            raise SourcesUnavailable(why, _way(proxy)) from error
        for module in modules:
            version = _escaped(module.version)
            info = folder / _escaped(module.path) / "@v" / f"{version}.info"
            info.parent.mkdir(parents=True, exist_ok=True)
            info.write_text(json.dumps({"Version": module.version}))
            with (info.parent / "list").open("a") as names:
                names.write(f"{module.version}\n")

    return await fetch.kept(cache, fetch.key_of(FORM, proxy, modules), make, budget.cache)


def _way(proxy: str) -> str:
    return (
        f"Let this machine reach {proxy}, name another module proxy with `SELFHEAL_GO_PROXY`, or commit the modules "
        "(`go mod vendor`), then try again."
    )


def _asked(module: Module, proxy: str, folder: Path) -> list[Asked]:
    place = f"{_escaped(module.path)}/@v/{_escaped(module.version)}"
    mod = Asked(
        f"{proxy}/{place}.mod", folder / f"{place}.mod", lambda path: module.mod in ("", _digest_of_mod(path)), MOD_LIMIT
    )
    content = Asked(f"{proxy}/{place}.zip", folder / f"{place}.zip", lambda path: _digest_of_zip(path) == module.zip)
    return [mod, content] if module.zip else [mod]


def _escaped(text: str) -> str:
    """As in the proxy's addresses: an upper case letter is "!" and the lower case one."""
    return re.sub(r"[A-Z]", lambda letter: f"!{letter[0].lower()}", text)


def _digest_of_mod(path: Path) -> str:
    return _h1({"go.mod": hashlib.sha256(path.read_bytes()).hexdigest()})


class _Zip(io.FileIO):
    """A file of which `zipfile` cannot read more than `_DIRECTORY` bytes at once. It reads the directory as a whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _DIRECTORY:
            raise ValueError("the directory is too large")
        return super().read(size)


def _digest_of_zip(path: Path) -> str:
    """The digest of a module's files; "" for a file that is no zip, or too large a one."""
    try:
        with _Zip(path) as file, zipfile.ZipFile(file) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > fetch.FILE_LIMIT:
                return ""
            digests = {}
            for name in archive.namelist():
                with archive.open(name) as content:
                    digests[name] = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
            return _h1(digests)
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError):
        return ""


def _h1(digests: Mapping[str, str]) -> str:
    """Go's `h1:` digest of files by their names."""
    lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
    return base64.b64encode(hashlib.sha256(lines.encode()).digest()).decode()
