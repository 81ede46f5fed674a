"""A container engine, Docker or Podman, over its own API: what it is, and the few calls that sandboxes are made of.

Every call has a deadline, and every failure of it is a `SandboxLost` with what the engine said. The archive calls are made
here and not through the client library, which reads a whole answer into memory: these are streams, and hostile code may have
made what they carry. Knows nothing of workspaces.
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
_NOT_A_FILE = _FOLDER | _LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19  # its ModeType


@dataclass(frozen=True, slots=True)
class Facts:
    """What an engine says of itself."""

    name: str  # "Docker 20.10.24", "Podman 4.3.1"
    podman: bool
    rootless: bool
    filters: bool  # system calls
    bounds_memory: bool
    bounds_processes: bool
    processors: int

    @property
    def missing(self) -> tuple[str, ...]:
        """What it cannot bound or filter here, in words."""
        lacks = {
            "memory is not bounded: the engine has no control group for it": not self.bounds_memory,
            "processes are not bounded: the engine has no control group for them": not self.bounds_processes,
            "system calls are not filtered: the engine has no seccomp": not self.filters,
        }
        return tuple(text for text, is_so in lacks.items() if is_so)


@dataclass(frozen=True, slots=True)
class Status:
    """What a path in a container is: a folder, a link, a regular file, or none of them (a pipe, a socket, a device)."""

    size: int
    mode: int  # permission bits
    folder: bool
    link: bool
    regular: bool


def address(given: str | None = None) -> str:
    """Where the engine listens: as given, as its clients are told, or the first socket that we may use; rootless ones first.

    Raises `SandboxUnavailable`.
    """
    if named := given or os.environ.get("DOCKER_HOST"):
        return named
    mine = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    places = (f"{mine}/docker.sock", f"{mine}/podman/podman.sock", "~/.docker/run/docker.sock")
    for place in (*places, "/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"):
        path = Path(place).expanduser()
        with suppress(OSError):
            if path.is_socket() and os.access(path, os.R_OK | os.W_OK):
                return f"unix://{path}"
    raise SandboxUnavailable(
        "no container engine listens on a socket that may be used; start one "
        "(for Podman: systemctl --user start podman.socket), or name its address in DOCKER_HOST"
    )


class Engine:
    """An open connection to an engine."""

    def __init__(self, client: aiodocker.Docker) -> None:
        self._client = client

    async def facts(self) -> Facts:
        with told("tell what it is"):
            async with asyncio.timeout(CALL_SECONDS):
                info, version = await self._client.system.info(), await self._client.version()
        podman = any(part.get("Name") == "Podman Engine" for part in version.get("Components") or ())
        options = " ".join(info.get("SecurityOptions") or ())
        return Facts(
            f"{'Podman' if podman else 'Docker'} {info.get('ServerVersion', '')}".strip(),
            podman,
            "rootless" in options,
            "seccomp" in options,
            bool(info.get("MemoryLimit")),
            bool(info.get("PidsLimit")),
            int(info.get("NCPU") or 1),
        )

    async def image(self, name: str) -> Mapping[str, Any]:
        """What the engine says of an image, pulled where it does not have it. Raises `SandboxUnavailable`."""
        with _had(name):
            async with asyncio.timeout(PULL_SECONDS):
                try:
                    return dict(await self._client.images.inspect(name))
                except aiodocker.DockerError as error:
                    if error.status != 404:
                        raise
                    await self._client.images.pull(name)
                    return dict(await self._client.images.inspect(name))

    async def pulled(self, name: str) -> str:
        """The id of what a registry has under this full name, whatever the engine has. Raises `SandboxUnavailable`."""
        with _had(name):
            async with asyncio.timeout(PULL_SECONDS):
                await self._client.images.pull(name)
                return str((await self._client.images.inspect(name))["Id"])

    async def create(self, config: Mapping[str, Any]) -> DockerContainer:
        with told("make a container"):
            async with asyncio.timeout(CALL_SECONDS):
                return await self._client.containers.create(dict(config))

    async def start(self, container: DockerContainer) -> None:
        with told("start a container"):
            async with asyncio.timeout(CALL_SECONDS):
                await container.start()

    async def state(self, container: DockerContainer) -> Mapping[str, Any]:
        with told("tell how a container is"):
            async with asyncio.timeout(CALL_SECONDS):
                return dict((await container.show())["State"])

    async def kill(self, container: DockerContainer) -> None:
        """All its processes, at once; one that has ended is no error."""
        with suppress(SandboxLost), told("kill a container"):
            async with asyncio.timeout(CALL_SECONDS):
                await container.kill(signal="SIGKILL")

    async def drop(self, container: DockerContainer) -> None:
        """Kill and remove it; one that is gone is no error. What cannot be removed now is the sweeper's."""
        with suppress(SandboxLost), told("remove a container"):
            async with asyncio.timeout(CALL_SECONDS):
                await container.delete(force=True, v=True)

    async def volume(self, labels: Mapping[str, str], options: Mapping[str, str] | None = None) -> str:
        """A fresh volume's name. `options` are those of the local driver."""
        with told("make a volume"):
            async with asyncio.timeout(CALL_SECONDS):
                wanted = {"Labels": dict(labels), "DriverOpts": dict(options or {})}
                made = await self._client.volumes.create(wanted)  # type: ignore[no-untyped-call]
        return str(made.name)

    async def drop_volume(self, name: str) -> None:
        """One that is gone, or still in use, is no error."""
        with suppress(SandboxLost), told("remove a volume"):
            async with asyncio.timeout(CALL_SECONDS):
                volume = await self._client.volumes.get(name)  # type: ignore[no-untyped-call]
                await volume.delete()

    async def labelled(self, label: str) -> tuple[tuple[DockerContainer, Mapping[str, str]], ...]:
        """Every container with `label` ("name=value"), running or not, with all its labels."""
        with told("list its containers"):
            async with asyncio.timeout(CALL_SECONDS):
                found = await self._client.containers.list(all=1, filters=json.dumps({"label": [label]}))
        return tuple((container, container["Labels"] or {}) for container in found)

    async def labelled_volumes(self, label: str) -> tuple[tuple[str, Mapping[str, str]], ...]:
        with told("list its volumes"):
            async with asyncio.timeout(CALL_SECONDS):
                found = await self._client.volumes.list(filters={"label": [label]})  # type: ignore[no-untyped-call]
        return tuple((volume["Name"], volume.get("Labels") or {}) for volume in found["Volumes"] or ())

    async def status(self, container: DockerContainer, path: str) -> Status | None:
        """What `path` is, not following its last name; None when there is nothing."""
        with told("look at a path"):
            async with (
                asyncio.timeout(CALL_SECONDS),
                self._client.session.head(self._archive(container), params={"path": path}) as reply,
            ):
                told_of = reply.headers.get("X-Docker-Container-Path-Stat")
                if told_of is None and reply.status == 404:
                    return None
                if told_of is None:  # a link that leads nowhere is both: not found, and told (by Podman)
                    self._check(reply.status, "")
                what = json.loads(base64.b64decode(told_of or ""))
        mode = int(what["mode"])
        link, folder = bool(mode & _LINK), bool(mode & _FOLDER)
        return Status(int(what["size"]), mode & 0o777, folder, link, not mode & _NOT_A_FILE)

    @asynccontextmanager
    async def fetch(self, container: DockerContainer, path: str) -> AsyncIterator[aiohttp.StreamReader]:
        """A tar of what is at `path`. Raises `FileNotFoundError`."""
        with told("read files"):
            async with (
                asyncio.timeout(COPY_SECONDS),
                self._client.session.get(self._archive(container), params={"path": path}) as reply,
            ):
                if reply.status == 404:
                    raise FileNotFoundError(path)
                self._check(reply.status, "" if reply.ok else await reply.text())
                yield reply.content

    async def put(self, container: DockerContainer, path: str, tar: IO[bytes] | bytes) -> None:
        """Unpack `tar`, which we made ourselves, in the folder `path`; the engine does it, confined to the container."""
        params = {"path": path, "noOverwriteDirNonDir": "true"}
        headers = {"Content-Type": "application/x-tar"}
        with told("write files"):
            async with (
                asyncio.timeout(COPY_SECONDS),
                self._client.session.put(self._archive(container), params=params, data=tar, headers=headers) as reply,
            ):
                self._check(reply.status, await reply.text())

    def _archive(self, container: DockerContainer) -> str:
        return f"{self._client.docker_host}/{self._client.api_version}/containers/{container.id}/archive"

    def _check(self, status: int, said: str) -> None:
        if status >= 400:
            with suppress(ValueError, TypeError, KeyError):
                said = json.loads(said)["message"]
            raise aiodocker.DockerError(status, said[:500])


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Engine]:
    """Raises `SandboxUnavailable` for an address that is none."""
    try:
        client = aiodocker.Docker(url=url, timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0))
    except (ValueError, AssertionError) as error:
        raise SandboxUnavailable(f"{url!r} is not the address of a container engine (unix:///path, tcp://host:port)") from error
    async with client:
        yield Engine(client)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turns what the engine or the way to it does wrong into `SandboxLost`."""
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
def _had(image: str) -> Iterator[None]:
    try:
        yield
    except (aiodocker.DockerError, aiohttp.ClientError, OSError, TimeoutError) as error:
        said = error.message if isinstance(error, aiodocker.DockerError) else str(error) or "no answer in time"
        raise SandboxUnavailable(f"the image {image!r} cannot be had: {said[:300]}") from error
