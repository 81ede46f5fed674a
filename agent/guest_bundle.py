"""Packs `agent/guest` into one file that any Python runs: `python guest.pyz SUBCOMMAND`.

Knows the folder and the format, not what is inside. The same files give the same bytes.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib import resources

PACKAGE = "selfheal_guest"
_MAIN = f"import sys\n\nfrom {PACKAGE}.__main__ import main\n\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def guest_bundle() -> bytes:
    """The zipapp's bytes, read through the package's own resources so that an installed wheel has them too."""
    sources = {
        f"{PACKAGE}/{entry.name}": entry.read_bytes()
        for entry in resources.files("agent.guest").iterdir()
        if entry.name.endswith(".py")
    }
    sources["__main__.py"] = _MAIN.encode()
    packed = io.BytesIO()
    # Stored, not compressed: an interpreter built without zlib reads it too.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(sources):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), sources[name])
    return packed.getvalue()
