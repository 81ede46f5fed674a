"""Packs the attacks into the one file that is sent into a sandbox."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib import resources

PACKAGE = "selfheal_proof"  # its name inside, which no module of a repository has
_EPOCH = (1980, 1, 1, 0, 0, 0)
_START = "from selfheal_proof import __main__\n\n__main__.main()\n"


@cache
def attacks_bundle() -> bytes:
    """A zipapp, read through the package's own resources so that an installed wheel has them too."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:  # stored: it is unpacked once, and small
        archive.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), _START)
        for entry in sorted(resources.files("sandbox.proof").joinpath("attacks").iterdir(), key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                archive.writestr(zipfile.ZipInfo(f"{PACKAGE}/{entry.name}", _EPOCH), entry.read_bytes())
    return packed.getvalue()
