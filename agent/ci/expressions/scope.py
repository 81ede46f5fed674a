"""What an expression can see: its contexts, how the job went so far, and the files that `hashFiles` is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from agent.ci.expressions.values import Unknown, Value

Status: TypeAlias = Literal["success", "failure", "cancelled"]


class Files(Protocol):
    """The digest of the files that match `patterns` (`hashing.hash_files` makes it), "" where none does."""

    def __call__(self, patterns: Sequence[str], /) -> str | Unknown: ...


def no_files(patterns: Sequence[str], /) -> Unknown:
    return Unknown("hashFiles")


@dataclass(frozen=True, slots=True)
class Scope:
    """`contexts` by name: only these may be named, and names and keys are met without regard to case.

    A whole context, or any part of one, may be `Unknown`. Whole numbers may be given as `int`.
    """

    contexts: Mapping[str, Value]
    status: Status = "success"
    files: Files = no_files
