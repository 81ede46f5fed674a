"""Which sandbox a worker uses: plain values in, a `Sandboxes` or a clear refusal out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from sandbox.base import Sandboxes, SandboxUnavailable
from sandbox.install import index_access
from sandbox.install.packages import Shop

Kind = Literal["auto", "local", "process"]


async def open_sandboxes(
    kind: Kind, folder: Path, *, trusted: bool = False, index_hosts: Sequence[str] = (), packages: Path | None = None
) -> Sandboxes:
    """`folder` holds sandboxes while they are open; `packages` (default: below it) what is downloaded and prepared for later.

    `trusted`: somebody vouches for the code of every repository. `index_hosts`: what an install step may reach ("host" or
    "host:port"; default: as the package client is configured). Raises `SandboxUnavailable`.
    """
    shop = Shop(packages or folder / "packages", await index_access.configured(index_hosts))
    sandboxes = _of_kind(kind, folder / "open", shop)
    if not (trusted or sandboxes.isolation.untrusted):
        raise SandboxUnavailable(
            f"the `{sandboxes.isolation.name}` sandbox isolates nothing: say that the code of every repository is trusted, "
            "or use `local`"
        )
    return sandboxes


def _of_kind(kind: Kind, folder: Path, shop: Shop) -> Sandboxes:
    if kind == "process":
        from sandbox.process import ProcessSandboxes

        return ProcessSandboxes(folder, shop)
    from sandbox.local import LocalSandboxes

    return LocalSandboxes(folder, shop)
