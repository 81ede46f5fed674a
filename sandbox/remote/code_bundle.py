"""Packs this package into one archive, to be unpacked and run in another machine: both sides are of one version."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEFT_HERE = ("e2b", "docker")  # rooms of this side, which a machine needs no libraries for


@cache
def sandbox_bundle() -> bytes:
    """A zip of `sandbox`, read through its own resources so that an installed wheel has them too."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, resources.files("sandbox"), "sandbox")
    return packed.getvalue()


def _add(archive: zipfile.ZipFile, folder: Traversable, path: str) -> None:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            if entry.name not in _LEFT_HERE and entry.name != "__pycache__":
                _add(archive, entry, f"{path}/{entry.name}")
        elif entry.name.endswith(".py"):
            archive.writestr(zipfile.ZipInfo(f"{path}/{entry.name}", _EPOCH), entry.read_bytes(), zipfile.ZIP_DEFLATED)
