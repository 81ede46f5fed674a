"""Where GitHub's own descriptions lie: beside the project, or where `SELFHEAL_TEST_DATA` says."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def find(name: str) -> Path | None:
    """A data file, or None where this machine lacks it."""
    folders = [ROOT.parent / "shared" / "data", Path(os.environ.get("SELFHEAL_TEST_DATA", "/nonexistent"))]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def load(path: Path) -> Any:
    with gzip.open(path) as file:
        return json.load(file)
