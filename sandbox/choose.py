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
    kind: Kind, folder: Path, *, trusted: bool = False, index_hosts: Sequence[str] = (), wheels: Path | None = None
) -> Sandboxes:
    """`folder` holds sandboxes while they are open; `wheels` (default: below it) keeps downloads between attempts.

    `trusted`: somebody vouches for the code of every repository. `index_hosts`: what an install step may reach ("host" or
    "host:port"; default: as the package client is configured). Raises `SandboxUnavailable`.
    """
    if kind == "process" and not trusted:
        raise SandboxUnavailable(
            "the `process` sandbox isolates nothing: say that the code of every repository is trusted, or use `local`"
        )
    shop = Shop(wheels or folder / "wheels", await index_access.configured(index_hosts))
    if kind == "process":
        from sandbox.process import ProcessSandboxes

        return ProcessSandboxes(folder / "open", shop)
    from sandbox.local import LocalSandboxes

    return LocalSandboxes(folder / "open", shop)
