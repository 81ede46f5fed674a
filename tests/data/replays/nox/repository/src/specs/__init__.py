"""Which versions a specifier takes."""

import os
import sys

from packaging.specifiers import SpecifierSet
from packaging.version import Version


def newest(specifier: str, versions: list) -> str:
    """The newest version that the specifier takes, "" where there is none."""
    taken = sorted(SpecifierSet(specifier).filter(versions))
    return str(taken[-1]) if taken else ""


def is_release(version: str) -> bool:
    level = os.environ.get("SPECS_LEVEL", "any")
    return level == "any" or Version(version).is_prerelease
