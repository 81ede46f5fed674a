"""Decides which images may run, and finds out what Selfheal must know about an image before it runs commands in it.

The operator names the default image, which may exist only in the engine. Any other name comes from a repository and may be
hostile: unless the operator allows it, neither a registry nor the engine is asked for it. An allowed image is always pulled
from its registry, because the engine's own image of that name may be a different one.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from sandbox.base import SandboxError, SandboxLost, SandboxUnavailable
from sandbox.containers.files import WORK
from sandbox.containers.resources import EngineResources
from sandbox.host.job import Job, environment
from sandbox.install.backend import PROXY_FOLDER

TOOLS, BASE, SEEN = "/tools", "/base", "/seen"
ENVIRONMENTS, ENV = "/env", "/env/python"  # the volume, and the virtual environment in it
ASK_SECONDS = 30.0
MOST_VOLUMES = 16
_OURS = (WORK, ENVIRONMENTS, SEEN, TOOLS, BASE, PROXY_FOLDER, "/tmp", "/proc", "/sys", "/dev")  # noqa: S108 - inside the container
_WHO = """
for name in python3 python; do
    "$name" -I -c 'import json, sys; print(json.dumps([sys.executable, ".".join(map(str, sys.version_info[:3]))]))' && exit
done 2>/dev/null
echo null
"""
_REFERENCE = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?/)?"  # a registry
    r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image and what its commands find in it."""

    name: str
    path: str  # its own PATH
    python: str | None  # path of its interpreter
    version: str  # of the interpreter, "3.12.4"

    def environment(self, *, prepared: bool) -> dict[str, str]:
        """All environment variables of a command; `prepared` puts installed packages first on its PATH."""
        mine = environment("/tmp", f"{ENV}/bin")  # noqa: S108 - inside the container
        path = self.path or "/usr/local/bin:/usr/bin:/bin"
        # The user id has no passwd entry, so the name comes from the environment.
        return mine | {"PATH": f"{ENV}/bin:{path}" if prepared else path, "USER": "sandbox", "LOGNAME": "sandbox"}


def checked(image: str) -> str:
    """Return `image`. Raises `SandboxUnavailable` if it is not an image name."""
    if not is_reference(image):
        raise SandboxUnavailable(f"{image[:200]!r} is not the name of an image (name:tag, registry/name@sha256:…)")
    return image


def is_reference(image: str) -> bool:
    """Whether `image` is a reference by the grammar of the OCI distribution specification."""
    return len(image) <= 500 and _REFERENCE.fullmatch(image) is not None


def full_name(image: str) -> str:
    """Expand a short name: `python` → `docker.io/library/python:latest`."""
    registry, slash, rest = image.partition("/")
    if not slash or not ("." in registry or ":" in registry or registry == "localhost"):
        registry, rest = "docker.io", image
    if registry in ("docker.io", "index.docker.io"):
        registry, rest = "docker.io", rest if "/" in rest else f"library/{rest}"
    return f"{registry}/{rest}" if re.search(r"[:@*][^/]*$", rest) else f"{registry}/{rest}:latest"


def is_allowed(image: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches the image's name. `*` matches anything but a slash; short names are expanded first."""
    name = full_name(image)
    return any(
        re.fullmatch("[^/]*".join(map(re.escape, full_name(pattern).split("*"))), name) is not None for pattern in patterns
    )


def volumes_of(name: str, config: Mapping[str, object]) -> tuple[str, ...]:
    """The volumes that an image declares: folders without a size limit on the engine's disk. Raises `SandboxUnavailable`."""
    declared = config.get("Volumes") or {}
    paths = declared if isinstance(declared, Mapping) else ()
    volumes = sorted({posixpath.normpath("/" + str(path).lstrip("/")) for path in paths})
    for volume in map(PurePosixPath, volumes):
        if any(volume.is_relative_to(ours) or PurePosixPath(ours).is_relative_to(volume) for ours in _OURS):
            raise SandboxUnavailable(
                f"the image {name!r} declares a volume over one of the sandbox's own folders: {str(volume)[:100]!r}"
            )
    if len(volumes) > MOST_VOLUMES:
        raise SandboxUnavailable(f"the image {name!r} declares {len(volumes)} volumes; the limit is {MOST_VOLUMES}")
    return tuple(volumes)


async def inspect(resources: EngineResources, name: str, config: Mapping[str, object]) -> Image:
    """Run the image once to find its Python. Raises `SandboxUnavailable` if not even a shell runs in it."""
    listed = config.get("Env") or ()
    variables = dict(str(one).partition("=")[::2] for one in listed) if isinstance(listed, (list, tuple)) else {}
    bare = Image(name, variables.get("PATH", ""), None, "")
    try:
        result = await resources.run(Job(("/bin/sh", "-c", _WHO), (), bare.environment(prepared=False), "/", ASK_SECONDS))
        found = json.loads(result.stdout.decode(errors="replace").strip().splitlines()[-1])
        return bare if found is None else replace(bare, python=str(found[0]), version=str(found[1]))
    except (SandboxError, ValueError, IndexError, TypeError) as error:
        why = error.reason if isinstance(error, SandboxLost) else "it needs a /bin/sh"
        raise SandboxUnavailable(f"cannot run commands in the image {name!r}: {why}") from error
