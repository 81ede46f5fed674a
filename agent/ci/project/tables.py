"""Values of parsed files (TOML, YAML, JSON) in the expected shape; a value of any other shape counts as empty."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

Table = Mapping[str, object]


def read_toml(text: str) -> Table | None:
    """The parsed TOML, or None if the text is not valid."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):  # a plain ValueError for a number with thousands of digits
        return None


def as_table(value: object) -> Table:
    return value if isinstance(value, dict) else {}


def table_at(content: Table, *keys: str) -> Table:
    """The table below nested keys."""
    for key in keys:
        content = as_table(content.get(key))
    return content


def tables(value: object) -> list[Table]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def variables(value: object) -> dict[str, str]:
    """A table of plain values as environment variables."""
    return {str(key): str(item) for key, item in as_table(value).items() if isinstance(item, str | int | float)}
