"""Values of parsed files (TOML, YAML, JSON) in the shape that is asked for; any other counts as empty. Knows no file."""

from __future__ import annotations

from collections.abc import Mapping

Table = Mapping[str, object]


def as_table(value: object) -> Table:
    return value if isinstance(value, dict) else {}


def strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
