"""The worker's pip, which downloads wheels outside the sandbox, from one index or from several.

pip merges its indexes and takes the highest version of any. Whoever registers the name of a private project on another index
could so replace it (dependency confusion). So with several indexes, uv resolves first: its strategy `first-index` takes a
project only from the first index that has it, in pip's order. pip then downloads exactly the files that uv found, by their
hashes. Without uv, only the first index is used.

The interpreter that will run the code runs pip, so that markers and tags are its own. An interpreter that is too old for this
pip is resolved for by uv as well, and the worker's own interpreter downloads for it.
"""

from __future__ import annotations

import asyncio
import html
import importlib.util
import os
import posixpath
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from packaging.specifiers import SpecifierSet

from sandbox.base import InstallFailed
from sandbox.host.launch import ProcessResult
from sandbox.install.download import Download, IndexStrategy
from sandbox.install.python import interpreters
from sandbox.install.python.interpreters import Interpreter, client_environment
from sandbox.install.python.pip_configuration import indexes_of, read_settings
from sandbox.install.python.requirements import RequirementLines

# pip's settings that uv needs too, as uv's variables. A list is separated by spaces, but that of find-links by commas.
_UV_VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "constraint": "UV_CONSTRAINT",
    "find-links": "UV_FIND_LINKS",
    "keyring-provider": "UV_KEYRING_PROVIDER",
    "proxy": "ALL_PROXY",
    "retries": "UV_HTTP_RETRIES",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
_UV_KEYRINGS = ("disabled", "subprocess")  # those of pip's providers that uv has
_HASHES = frozenset(("sha256", "sha384", "sha512"))  # that pip accepts
_UV_OPTIONS = (
    *("--quiet", "--no-header", "--no-progress", "--only-binary", ":all:"),
    *("--generate-hashes", "--format", "pylock.toml"),
)


def pip_folder() -> Path:
    """The folder of the worker's pip. Raises `InstallFailed` without one."""
    found = importlib.util.find_spec("pip")
    if found is None or found.origin is None:
        raise InstallFailed("pip is missing in the worker's environment; install it there: python -m ensurepip")
    return Path(found.origin).parent


@dataclass(frozen=True, slots=True)
class PipClient:
    """pip, run by `interpreter`. `scratch` is a folder for temporary files, which `download` measures too."""

    interpreter: Interpreter
    download: Download
    scratch: Path
    strategy: IndexStrategy

    async def settings(self) -> dict[str, str] | None:
        """pip's settings as the operator configured them; None if this interpreter cannot run pip."""
        return await read_settings(self._pip, client_environment(os.environ), ("download",))

    async def fetch(self, lines: RequirementLines, settings: Mapping[str, str], into: Path) -> bool:
        """Download wheels for one set of requirements; returns whether all were found. Raises `DownloadRefused`."""
        requirements = await self._write("requirements.txt", lines.requirements)
        constraints = await self._write("constraints.txt", lines.constraints)
        asked = ("--requirement", requirements, "--constraint", constraints)
        indexes = indexes_of(settings)
        if self._runs_pip and (self.strategy == "best" or len(indexes) < 2):
            return await self._download(asked, {}, into)
        if (uv := interpreters.uv_binary()) is None:
            return self._runs_pip and await self._download(asked, _first_index_only(settings), into)
        lock = self.scratch / "pylock.toml"
        lock.unlink(missing_ok=True)  # uv would prefer the versions in it
        strategy = "first-index" if self.strategy == "first" else "unsafe-best-match"
        resolving = (*_UV_OPTIONS, "--index-strategy", strategy, "--output-file", str(lock), "--python", self.interpreter.path)
        variables = _uv_variables(settings, indexes) | {"UV_CACHE_DIR": str(self.scratch / "uv")}
        # uv's option `--constraint` would replace the operator's constraints.
        variables["UV_CONSTRAINT"] = " ".join((constraints, *variables.get("UV_CONSTRAINT", "").split()))
        if (await self._run((str(uv), "pip", "compile", *resolving, requirements), variables)).returncode:
            return False
        pins, links = _pinned(tomllib.loads(await asyncio.to_thread(lock.read_text)), indexes)
        page, pinned = await self._write("links.html", links), await self._write("pinned.txt", pins)
        python = () if self._runs_pip else ("--python-version", ".".join(map(str, self.interpreter.minor)))
        exactly = (*python, "--no-index", "--find-links", page, "--no-deps", "--require-hashes", "--requirement", pinned)
        return await self._download(exactly, {}, into)

    async def _download(self, asked: Sequence[str], env: Mapping[str, str], into: Path) -> bool:
        options = ("--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--only-binary", ":all:")
        return (await self._run((*self._pip, "download", *options, "--dest", str(into), *asked), env)).returncode == 0

    async def _run(self, argv: Sequence[str], env: Mapping[str, str]) -> ProcessResult:
        return await self.download.run(argv, {**client_environment(os.environ), "TMPDIR": str(self.scratch), **env})

    async def _write(self, name: str, lines: Sequence[str]) -> str:
        path = self.scratch / name
        await asyncio.to_thread(path.write_text, "".join(f"{line}\n" for line in lines))
        return str(path)

    @property
    def _runs_pip(self) -> bool:
        """Whether the interpreter is new enough for the worker's pip."""
        return SpecifierSet(metadata.metadata("pip")["Requires-Python"] or "").contains(self.interpreter.version)

    @property
    def _pip(self) -> tuple[str, ...]:
        python = self.interpreter.path if self._runs_pip else interpreters.own().path
        return (python, "-I", str(pip_folder() / "__pip-runner__.py"))


def _first_index_only(settings: Mapping[str, str]) -> dict[str, str]:
    """Variables that replace pip's configuration by itself without further indexes."""
    kept = {name: value for name, value in settings.items() if name != "extra-index-url"}
    variables = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in kept.items()}
    # pip ignores an empty variable, so nothing is there to hide the option in a file but hiding the files.
    return variables | {"PIP_EXTRA_INDEX_URL": "", "PIP_CONFIG_FILE": os.devnull}


def _uv_variables(settings: Mapping[str, str], indexes: Sequence[str]) -> dict[str, str]:
    """pip's configuration for uv. As variables, since URLs may have passwords, and everyone sees a process's arguments."""
    found = {variable: " ".join(settings[name].split()) for name, variable in _UV_VARIABLES.items() if name in settings}
    if "UV_FIND_LINKS" in found:
        found["UV_FIND_LINKS"] = found["UV_FIND_LINKS"].replace(" ", ",")
    if found.get("UV_KEYRING_PROVIDER", "disabled") not in _UV_KEYRINGS:
        del found["UV_KEYRING_PROVIDER"]
    # uv asks its default index last.
    *first, last = indexes
    return found | {
        "UV_INDEX": " ".join(first),
        "UV_DEFAULT_INDEX": last,
        "UV_NO_CONFIG": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }


def _pinned(lock: Mapping[str, Any], indexes: Sequence[str]) -> tuple[list[str], list[str]]:
    """The requirements of a `pylock.toml` with their hashes, and its wheels as a page of links for pip."""
    pins, links = [], []
    for package in lock.get("packages", ()):
        pin = f"{package['name']}=={package['version']}"
        for wheel in package.get("wheels", ()):
            for algorithm in _HASHES.intersection(wheel["hashes"]):
                digest = wheel["hashes"][algorithm]
                pin += f" --hash={algorithm}:{digest}"
                url = f"{_with_password(wheel['url'], indexes)}#{algorithm}={digest}"
                links.append(f'<a href="{html.escape(url)}">{html.escape(posixpath.basename(urlsplit(url).path))}</a>')
        pins.append(pin)  # without a hash, pip refuses it
    return pins, links


def _with_password(url: str, indexes: Sequence[str]) -> str:
    """`url` with the name and password of the index on the same server: uv leaves them out."""
    parts = urlsplit(url)
    for index in map(urlsplit, indexes):
        user, at, host = index.netloc.rpartition("@")
        if at and (index.scheme, host) == (parts.scheme, parts.netloc):
            return parts._replace(netloc=f"{user}@{host}").geturl()
    return url
