"""Lets cargo write a missing Cargo.lock: in the sandbox, with access to the index and nothing else.

cargo may execute what the repository's `.cargo/config.toml` and `rust-toolchain.toml` name, so it is as hostile as a build.
The lock stays in the repository's folder, as in CI.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from sandbox.base import DeadlinePassed
from sandbox.install.backend import CERTIFICATES, InstallBackend
from sandbox.install.package_index import certificates_here, host_of, proxied
from sandbox.install.sources import crates
from sandbox.install.sources.fetch import SourcesUnavailable

_SCRIPT = 'cd "$0" && CARGO_HOME=$(mktemp -d) exec cargo "$@"'


async def write_if_missing(folder: str, backend: InstallBackend, python: str, index: str) -> tuple[str, ...]:
    """Returns a note if a lock was written. Raises `SourcesUnavailable`, `SandboxError`.

    `python`, a path in the sandbox, runs the forwarder.
    """
    path = posixpath.normpath(posixpath.join(folder, crates.LOCK))
    try:
        await backend.read(path)
        return ()
    except FileNotFoundError:
        pass
    except ValueError:  # a link, which is refused where it is read
        return ()
    address = f"sparse+{index.removeprefix('sparse+').rstrip('/')}/"
    options = ("--config", 'source.crates-io.replace-with="configured"', "--config", f"source.configured.registry={address!r}")
    argv = ("/bin/sh", "-c", _SCRIPT, folder or ".", "generate-lockfile", *options)
    env: Mapping[str, str] = {}
    if (certificates := certificates_here()) is not None:
        env = {"CARGO_HTTP_CAINFO": await backend.show(certificates, CERTIFICATES)}
    async with proxied(backend, frozenset((host_of(address.removeprefix("sparse+")),)), python, argv) as command:
        try:
            ended = await backend.run_installer(command, env)
        except DeadlinePassed as late:
            raise SourcesUnavailable(
                f"cargo took longer than {late.seconds:.0f} s to write {path}", crates.way(index)
            ) from late
    if ended.exit_code:
        said = ended.stderr.decode(errors="replace").strip()
        last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "no reason given")
        why = f"{path} is missing, and cargo could not write it with {index}: {last[:200]}"
        raise SourcesUnavailable(why, crates.way(index))
    return (f"{path} is missing, so cargo chose today's newest versions",)
