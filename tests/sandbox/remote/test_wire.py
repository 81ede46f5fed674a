"""What goes over comes back as it was, and what is no message is refused."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict

import pytest

from sandbox.base import (
    Command,
    Completed,
    DeadlinePassed,
    Entry,
    Installed,
    InstallFailed,
    LimitExceeded,
    Limits,
    Packages,
    SandboxLost,
    SandboxUnavailable,
    UnsafeArchive,
)
from sandbox.remote import wire

EVERY_FIELD = Command(("a", "b\n"), 1.5, "sub", {"A": "1"}, b"\x00in", 77, ("database",))


def through(message: bytes) -> tuple[wire.Head, tuple[bytes, ...]]:
    return wire.unpack(message)


def test_values_go_over_whole() -> None:
    assert all(getattr(EVERY_FIELD, field.name) != field.default for field in dataclasses.fields(Command)), (
        "try the new one too"
    )
    head, blobs = through(wire.pack({"command": wire.command_to(EVERY_FIELD)}, EVERY_FIELD.stdin))
    assert wire.command_from(head["command"], blobs[0]) == EVERY_FIELD
    ended = Completed(-9, b"\xff\n", b"\x00", 0.5, truncated=True, out_of_memory=True)
    assert wire.completed_from(*through(wire.completed_to(ended))) == ended
    packages = Packages(("a>1",), ("r.txt",), ("c.txt",), ("dev",), (".[test]",), "3.12")
    assert wire.packages_from(through(wire.pack(asdict(packages)))[0]) == packages
    assert Limits(**through(wire.pack(asdict(Limits(memory=7))))[0]) == Limits(memory=7)
    installed = Installed("3.12.1", 2.0, ("a",), "said", ("note", "other"))
    assert wire.installed_from(through(wire.pack(asdict(installed)))[0]) == installed
    entries = (Entry("ü/a", 3, executable=True), Entry("b", 0, link=True))
    assert wire.entries_from(wire.entries_to(entries)) == entries


@pytest.mark.parametrize(
    "error",
    [
        DeadlinePassed(2.0, b"out", b"err"),
        LimitExceeded("disk", 12),
        UnsafeArchive("why"),
        InstallFailed("why", "said"),
        SandboxUnavailable("why"),
        SandboxLost("why"),
        FileNotFoundError("a.txt"),
        ValueError("not a path"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failures_go_over_as_they_are(error: Exception) -> None:
    again = wire.error_from(*through(wire.error_to(error)))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"{}",
        b"{}\n",
        b"[]\n",
        b"garbage\n",
        b'{"blobs": [3]}\nab',
        b'{"blobs": [-1]}\n',
        b'{"blobs": ["x"]}\n',
        b"\xff\n",
        b"[" * 200_000 + b"\n",
    ],
    ids=lambda message: repr(message[:20]),
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of JSON, of UTF-8 and of ours
        wire.unpack(message)


@pytest.mark.parametrize("head", [{"error": "os.system"}, {"error": "limit", "which": "all"}, {"error": ["deadline"]}])
def test_an_error_that_is_none_of_ours_is_a_lost_machine(head: wire.Head) -> None:
    assert isinstance(wire.error_from(head, ()), SandboxLost)
