"""What other packages add by entry points (docs/extending.md): found and loaded, with errors that name the package."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

METRICS, BENCHMARKS, PROVIDERS = "selfheal.metrics", "selfheal.benchmarks", "selfheal.providers"


class BrokenExtension(Exception):
    """An extension cannot be used. The message names its distribution and the reason."""


def installed(group: str) -> dict[str, tuple[EntryPoint, Any]]:
    """What the entry points of a group name, by their names. Raises `BrokenExtension`."""
    found: dict[str, tuple[EntryPoint, Any]] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        if point.name in found:
            raise broken(point, f"{found[point.name][0].name!r} is there twice; uninstall all but one")
        try:
            found[point.name] = (point, point.load())
        except Exception as error:  # importing an extension can raise anything
            raise broken(point, f"{type(error).__name__}: {error}") from error
    return found


def broken(point: EntryPoint, why: str) -> BrokenExtension:
    """The error that names the extension's distribution."""
    owner = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"
    return BrokenExtension(
        f"the extension {point.name!r} ({point.group}) of {owner} cannot be used: {why}; fix or uninstall {owner}"
    )
