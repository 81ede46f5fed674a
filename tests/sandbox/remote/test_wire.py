"""A request reaches the other side as it was."""

from __future__ import annotations

import dataclasses
import json

from sandbox.base import Command, Limits, Packages
from sandbox.remote import wire

EVERY_FIELD = Command(("a", "b\n"), 1.5, "sub", {"A": "1"}, b"\x00in", 77, ("database",))


def test_requests_go_over_whole() -> None:
    # `heard` is a function of this side.
    unset = {field.name for field in dataclasses.fields(Command) if getattr(EVERY_FIELD, field.name) == field.default}
    assert unset == {"heard"}, "try the new one too"
    packages = Packages(("a>1",), ("r.txt",), ("c.txt",), ("dev",), (".[test]",), ("web",), "3.12")
    request = {"command": EVERY_FIELD, "packages": packages, "content": b"\xff", "path": "ü", "executable": None}
    message = wire.encode(request)
    assert message.isascii()
    assert "\n" not in message
    assert wire.arguments_of(json.loads(message)) == request
    assert Limits(**json.loads(wire.encode(Limits(memory=7)))) == Limits(memory=7)


def test_an_unknown_failure_goes_over_as_lost() -> None:
    assert wire.failure(RecursionError("too deep")) == {"error": "lost", "reason": "RecursionError: too deep"}
