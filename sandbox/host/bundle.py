"""Packs one of Selfheal's packages into a zip that runs elsewhere. Reads resources, so an installed wheel works too."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

_EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def bundle(package: str, inside: str, start: str = "", left_here: tuple[str, ...] = ()) -> bytes:
    """A zip of `package` under the name `inside`, without the subpackages `left_here`; `start` makes it a zipapp."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        if start:
            archive.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), start)
        _add(archive, resources.files(package), inside, left_here)
    return packed.getvalue()


def _add(archive: zipfile.ZipFile, folder: Traversable, path: str, left_here: tuple[str, ...]) -> None:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name not in (*left_here, "__pycache__"):
            _add(archive, entry, f"{path}/{entry.name}", left_here)
        elif entry.name.endswith(".py"):
            archive.writestr(zipfile.ZipInfo(f"{path}/{entry.name}", _EPOCH), entry.read_bytes(), zipfile.ZIP_DEFLATED)
