"""The API of a container engine, Docker or Podman.

Every call has a deadline, and every failure is a `SandboxLost` with the engine's message. The archive calls bypass the client
library, which reads whole responses into memory; their content may come from hostile code, so it is streamed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import aiodocker
import aiohttp
from aiodocker.containers import DockerContainer

from sandbox.base import SandboxLost, SandboxUnavailable

CALL_SECONDS = 60.0
COPY_SECONDS = 300.0
PULL_SECONDS = 900.0
_FOLDER, _LINK = 1 << 31, 1 << 27  # the bits of Go's io/fs.FileMode
_NOT_A_FILE = _FOLDER | _LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19  # io/fs.ModeType


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine reports about itself."""

    name: str  # "Docker 20.10.24", "Podman 4.3.1"
    podman: bool
    rootless: bool
    filters: bool  # whether it filters system calls
    bounds_memory: bool
    bounds_processes: bool
    processors: int

    @property
    def missing(self) -> tuple[str, ...]:
        """What the engine cannot limit or filter here, as sentences for people."""
        lacks = {
            "memory is not limited: the engine has no control group for it": not self.bounds_memory,
            "the number of processes is not limited: the engine has no control group for it": not self.bounds_processes,
            "system calls are not filtered: the engine has no seccomp": not self.filters,
        }
        return tuple(text for text, is_so in lacks.items() if is_so)


@dataclass(frozen=True, slots=True)
class Status:
    """What a path in a container is. A pipe, socket or device is neither a folder, a link nor a regular file."""

    size: int
    mode: int  # permission bits
    folder: bool
    link: bool
    regular: bool


def address(given: str | None = None) -> str:
    """The engine's address: `given`, else DOCKER_HOST, else the first accessible socket, rootless ones first.

    Raises `SandboxUnavailable`.
    """
    if named := given or os.environ.get("DOCKER_HOST"):
        return named
    mine = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    paths = (f"{mine}/docker.sock", f"{mine}/podman/podman.sock", "~/.docker/run/docker.sock")
    for candidate in (*paths, "/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"):
        path = Path(candidate).expanduser()
        with suppress(OSError):
            if path.is_socket() and os.access(path, os.R_OK | os.W_OK):
                return f"unix://{path}"
    raise SandboxUnavailable(
        "no container engine found on an accessible socket; start one "
        "(for Podman: systemctl --user start podman.socket) or set DOCKER_HOST"
    )


class Engine:
    """An open connection to an engine."""

    def __init__(self, client: aiodocker.Docker) -> None:
        self._client = client

    async def info(self) -> EngineInfo:
        async with _call("describe itself"):
            info, version = await self._client.system.info(), await self._client.version()
        podman = any(part.get("Name") == "Podman Engine" for part in version.get("Components") or ())
        options = " ".join(info.get("SecurityOptions") or ())
        return EngineInfo(
            f"{'Podman' if podman else 'Docker'} {info.get('ServerVersion', '')}".strip(),
            podman,
            "rootless" in options,
            "seccomp" in options,
            bool(info.get("MemoryLimit")),
            bool(info.get("PidsLimit")),
            int(info.get("NCPU") or 1),
        )

    async def image(self, name: str) -> Mapping[str, Any]:
        """An image's metadata; pulls the image if the engine lacks it. Raises `SandboxUnavailable`."""
        with image_errors(name):
            async with asyncio.timeout(PULL_SECONDS):
                try:
                    return dict(await self._client.images.inspect(name))
                except aiodocker.DockerError as error:
                    if error.status != 404:
                        raise
                    await self._client.images.pull(name)
                    return dict(await self._client.images.inspect(name))

    async def pulled(self, name: str) -> str:
        """Pull the image of this full name even if the engine has one; returns its id. Raises `SandboxUnavailable`."""
        with image_errors(name):
            async with asyncio.timeout(PULL_SECONDS):
                await self._client.images.pull(name)
                return str((await self._client.images.inspect(name))["Id"])

    async def create(self, config: Mapping[str, Any]) -> DockerContainer:
        async with _call("create a container"):
            return await self._client.containers.create(dict(config))

    async def start(self, container: DockerContainer) -> None:
        async with _call("start a container"):
            await container.start()

    async def state(self, container: DockerContainer) -> Mapping[str, Any]:
        async with _call("report a container's state"):
            return dict((await container.show())["State"])

    async def kill(self, container: DockerContainer) -> None:
        """Kill all processes of the container; no error if it has ended."""
        with suppress(SandboxLost):
            async with _call("kill a container"):
                await container.kill(signal="SIGKILL")

    async def drop(self, container: DockerContainer) -> None:
        """Kill and remove the container; no error if it is gone. The sweeper removes what this call cannot remove."""
        with suppress(SandboxLost):
            async with _call("remove a container"):
                await container.delete(force=True, v=True)

    async def volume(self, labels: Mapping[str, str], options: Mapping[str, str] | None = None) -> str:
        """Create a volume; returns its name. `options` are those of the local driver."""
        async with _call("create a volume"):
            wanted = {"Labels": dict(labels), "DriverOpts": dict(options or {})}
            made = await self._client.volumes.create(wanted)  # type: ignore[no-untyped-call]
        return str(made.name)

    async def drop_volume(self, name: str) -> None:
        """Remove a volume; no error if it is gone or still in use."""
        with suppress(SandboxLost):
            async with _call("remove a volume"):
                volume = await self._client.volumes.get(name)  # type: ignore[no-untyped-call]
                await volume.delete()

    async def labelled(self, label: str) -> tuple[tuple[DockerContainer, Mapping[str, str]], ...]:
        """Every container with `label` ("name=value"), running or not, with all its labels."""
        async with _call("list its containers"):
            found = await self._client.containers.list(all=1, filters=json.dumps({"label": [label]}))
        return tuple((container, container["Labels"] or {}) for container in found)

    async def labelled_volumes(self, label: str) -> tuple[tuple[str, Mapping[str, str]], ...]:
        async with _call("list its volumes"):
            found = await self._client.volumes.list(filters={"label": [label]})  # type: ignore[no-untyped-call]
        return tuple((volume["Name"], volume.get("Labels") or {}) for volume in found["Volumes"] or ())

    async def status(self, container: DockerContainer, path: str) -> Status | None:
        """The status of `path`, without following a final symlink; None if it does not exist."""
        async with _call("inspect a path"), self._client.session.head(self._archive(container), params={"path": path}) as reply:
            header = reply.headers.get("X-Docker-Container-Path-Stat")
            if header is None and reply.status == 404:
                return None
            if header is None:  # Podman answers 404 with the header for a dangling link
                self._check(reply.status, "")
            what = json.loads(base64.b64decode(header or ""))
        mode = int(what["mode"])
        link, folder = bool(mode & _LINK), bool(mode & _FOLDER)
        return Status(int(what["size"]), mode & 0o777, folder, link, not mode & _NOT_A_FILE)

    @asynccontextmanager
    async def fetch(self, container: DockerContainer, path: str) -> AsyncIterator[aiohttp.StreamReader]:
        """Stream a tar of `path`. Raises `FileNotFoundError`."""
        async with (
            _call("read files", COPY_SECONDS),
            self._client.session.get(self._archive(container), params={"path": path}) as reply,
        ):
            if reply.status == 404:
                raise FileNotFoundError(path)
            self._check(reply.status, "" if reply.ok else await reply.text())
            yield reply.content

    async def put(self, container: DockerContainer, path: str, tar: IO[bytes] | bytes) -> None:
        """Let the engine unpack `tar`, which Selfheal made, into the container's folder `path`."""
        params = {"path": path, "noOverwriteDirNonDir": "true"}
        headers = {"Content-Type": "application/x-tar"}
        async with (
            _call("write files", COPY_SECONDS),
            self._client.session.put(self._archive(container), params=params, data=tar, headers=headers) as reply,
        ):
            self._check(reply.status, await reply.text())

    def _archive(self, container: DockerContainer) -> str:
        return f"{self._client.docker_host}/{self._client.api_version}/containers/{container.id}/archive"

    def _check(self, status: int, detail: str) -> None:
        if status >= 400:
            with suppress(ValueError, TypeError, KeyError):
                detail = json.loads(detail)["message"]
            raise aiodocker.DockerError(status, detail[:500])


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Engine]:
    """Connect to the engine at `url`. Raises `SandboxUnavailable` for an invalid address."""
    try:
        client = aiodocker.Docker(url=url, timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0))
    except (ValueError, AssertionError) as error:
        raise SandboxUnavailable(f"{url!r} is not a valid engine address (unix:///path or tcp://host:port)") from error
    async with client:
        yield Engine(client)


@asynccontextmanager
async def _call(what: str, seconds: float = CALL_SECONDS) -> AsyncIterator[None]:
    with engine_errors(what):
        async with asyncio.timeout(seconds):
            yield


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn failures of the engine or the connection into `SandboxLost`."""
    try:
        yield
    except aiodocker.DockerError as error:
        raise SandboxLost(f"the container engine cannot {what}: {error.message[:300]}") from error
    except FileNotFoundError:
        raise
    except TimeoutError as error:
        raise SandboxLost(f"the container engine did not {what} in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise SandboxLost(f"the container engine cannot be reached to {what}: {error}") from error


@contextmanager
def image_errors(image: str) -> Iterator[None]:
    try:
        yield
    except (aiodocker.DockerError, aiohttp.ClientError, OSError, TimeoutError) as error:
        detail = error.message if isinstance(error, aiodocker.DockerError) else str(error) or "it took too long"
        raise SandboxUnavailable(f"the image {image!r} cannot be pulled: {detail[:300]}") from error
