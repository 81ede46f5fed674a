"""Packs `agent/guest` into one file that any Python runs: `python guest.pyz SUBCOMMAND`.

Knows the folder and the format, not what is inside. The same files give the same bytes in one version of Python: beside each
source lies what that version makes of it, so that a Python of the same version need not compile it in every run; others pass
it over (`zipimport` compares the magic number) and read the source.
"""

from __future__ import annotations

import importlib.util
import io
import marshal
import zipfile
from functools import cache
from importlib import resources

PACKAGE = "selfheal_guest"
_MAIN = f"import sys\n\nfrom {PACKAGE}.__main__ import main\n\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_VERSION = 2  # of marshal: newer ones write shared objects by how many references there are just now
_UNCHECKED = (0b01).to_bytes(4, "little")  # PEP 552: named by the source's hash, which nobody need compare


@cache
def guest_bundle() -> bytes:
    """The zipapp's bytes, read through the package's own resources so that an installed wheel has them too."""
    sources = {
        f"{PACKAGE}/{entry.name}": entry.read_bytes()
        for entry in resources.files("agent.guest").iterdir()
        if entry.name.endswith((".py", ".cjs", ".mjs"))
    }
    sources["__main__.py"] = _MAIN.encode()
    packed = io.BytesIO()
    # Stored, not compressed: an interpreter built without zlib reads it too.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(sources):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), sources[name])
            if name.endswith(".py"):
                archive.writestr(zipfile.ZipInfo(f"{name}c", _EPOCH), _compiled(name, sources[name]))
    return packed.getvalue()


def _compiled(name: str, source: bytes) -> bytes:
    # An absolute name, so that no frame of the guest is taken for one of the repository.
    code = compile(source, f"/{name}", "exec", dont_inherit=True, optimize=0)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + marshal.dumps(code, _VERSION)
