"""What an expression can see: its contexts, the status of the job, and the files for `hashFiles`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from agent.ci.expressions.values import Unknown, Value

Status: TypeAlias = Literal["success", "failure", "cancelled"]


class Files(Protocol):
    """What `hashFiles` returns for `patterns`: "" where no file matches (`hash_files.MatchedFiles`)."""

    def __call__(self, patterns: Sequence[str], /) -> str | Unknown: ...


def no_files(patterns: Sequence[str], /) -> Unknown:
    return Unknown("hashFiles")


@dataclass(frozen=True, slots=True)
class Scope:
    """`contexts` by name: only these can be used; names and keys are case-insensitive.

    A context, or any part of one, can be `Unknown`. Whole numbers can be `int`.
    """

    contexts: Mapping[str, Value]
    status: Status = "success"
    files: Files = no_files
