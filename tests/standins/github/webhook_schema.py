"""The judge of the deliveries that the stand-in emits: the public JSON schema of GitHub's webhook payloads."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jsonschema_rs

from tests import data
from tests.standins.github.state import Json


def judge() -> Callable[[str, Json], list[str]] | None:
    """A function from event and payload to what is wrong with it, or None where the schema cannot be found."""
    try:
        return _load().judge
    except data.DataMissing:
        return None


@functools.cache
def _load() -> Schema:
    return Schema(data.load(data.WEBHOOK_SCHEMA))


class Schema:
    def __init__(self, document: Json) -> None:
        self._document = document
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def judge(self, event: str, payload: Json) -> list[str]:
        name = f"{event}${payload.get('action', 'event')}"
        if name not in self._document["definitions"]:
            return [f"{name} is not described"]
        if name not in self._validators:
            # Draft 7 ignores what stands beside a $ref, so the definition is reached through allOf.
            wrapped = {
                "$schema": self._document["$schema"],
                "definitions": self._document["definitions"],
                "allOf": [{"$ref": f"#/definitions/{name}"}],
            }
            self._validators[name] = jsonschema_rs.validator_for(wrapped, validate_formats=True)
        wrong = self._validators[name].iter_errors(payload)
        return [f"{'/'.join(map(str, e.instance_path))}: {e.message[-200:]}" for e in wrong][:8]
