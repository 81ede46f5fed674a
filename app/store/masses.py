"""Rows that come in masses, at the driver's own price: what SQLAlchemy works out for each value of each row is worked out once.
The columns' types say how values are stored, as everywhere. Knows no table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Dialect, Table, insert


class _Parameter(NamedTuple):
    name: str
    default: Any  # a plain value, for rows without that name
    convert: Callable[[Any], Any] | None  # to what the driver takes


def insert_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, at least one, that all have the same names. Raises what SQLAlchemy does, `IntegrityError` above all.

    SQLAlchemy's own `insert` took as long as the database itself: each of a delivery's 43 values went through its type alone.
    """
    sql, parameters = _statement(table, tuple(rows[0]), connection.dialect)
    columns = [_stored([row.get(name, default) for row in rows], convert) for name, default, convert in parameters]
    connection.exec_driver_sql(sql, list(zip(*columns, strict=True)))


@lru_cache(maxsize=32)
def _statement(table: Table, names: tuple[str, ...], dialect: Dialect) -> tuple[str, list[_Parameter]]:
    # The order is the table's, which SQLAlchemy keeps to.
    columns = [column for column in table.columns if column.name in names or column.default is not None]
    parameters = [
        _Parameter(
            column.name,
            getattr(column.default, "arg", None),
            column.type.dialect_impl(dialect).bind_processor(dialect),
        )
        for column in columns
    ]
    return str(insert(table).compile(dialect=dialect, column_keys=[column.name for column in columns])), parameters


def _stored(values: list[Any], convert: Callable[[Any], Any] | None) -> list[Any]:
    """As the driver takes them. Most are the same in every row, so each different one is converted once."""
    if convert is None:
        return values
    stored = {value: convert(value) for value in set(values)}
    return [stored[value] for value in values]
