"""Values of parsed files (TOML, YAML, JSON) in the shape that is asked for; any other counts as empty. Knows no file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Table = Mapping[str, object]


def as_table(value: object) -> Table:
    return value if isinstance(value, dict) else {}


def strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def group_members(groups: Table, names: Iterable[str]) -> list[str]:
    """The requirements of dependency groups (PEP 735), with those of the groups that they include."""
    found: list[str] = []
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        members = groups.get(name)
        for member in members if isinstance(members, list) else []:
            if isinstance(member, str):
                found.append(member)
            elif isinstance(member, dict):
                waiting.append(str(member.get("include-group")))
    return found
