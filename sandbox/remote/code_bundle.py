"""Packs this package into an archive that runs on another machine."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEFT_HERE = ("e2b", "docker")  # used on this side only; the machine lacks their libraries


@cache
def sandbox_bundle() -> bytes:
    """A zip of `sandbox`, read as package resources so that it works from an installed wheel."""
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
