"""Packs `agent/guest` into one file that any Python can run: `python guest.zip SUBCOMMAND`.

The output is reproducible for one version of Python. Each source is stored with its bytecode, so a Python of that version does
not compile it in every run. Other versions ignore the bytecode (`zipimport` compares the magic number).
"""

from __future__ import annotations

import importlib.util
import io
import marshal
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

PACKAGE = "selfheal_guest"
_MAIN = f"import sys\n\nfrom {PACKAGE}.__main__ import main\n\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_VERSION = 2  # of marshal; the output of newer versions depends on reference counts, so it varies
_UNCHECKED = (0b01).to_bytes(4, "little")  # PEP 552: hash-based, not checked against the source


@cache
def guest_bundle() -> bytes:
    """The zipapp as bytes. Its sources are read as package resources, so it also works from an installed wheel."""
    sources = dict(_files(resources.files("agent.guest"), PACKAGE))
    sources["__main__.py"] = _MAIN.encode()
    packed = io.BytesIO()
    # Stored, not compressed: an interpreter built without zlib can read it too.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(sources):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), sources[name])
            if name.endswith(".py"):
                archive.writestr(zipfile.ZipInfo(f"{name}c", _EPOCH), _compiled(name, sources[name]))
    return packed.getvalue()


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.name.endswith((".py", ".cjs", ".mjs")):
            yield f"{path}/{entry.name}", entry.read_bytes()
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _files(entry, f"{path}/{entry.name}")


def _compiled(name: str, source: bytes) -> bytes:
    # No real path: the guest's frames are not the repository's, and coverage does not measure them.
    code = compile(source, f"<{name}>", "exec", dont_inherit=True, optimize=0)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + marshal.dumps(code, _VERSION)
