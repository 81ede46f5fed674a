"""Follows `pipx run …`, which is a tool in an environment of its own, as `uvx` is."""

from __future__ import annotations

from collections.abc import Sequence

from agent.ci.runners import uv
from agent.ci.runners.context import Again, Place, Result
from agent.ci.runners.manifest import split_options

_VALUED = ("--spec", "--with", "--python", "--fetch-python", "--index-url", "-i", "--pip-args", "--backend")


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "pipx"."""
    _, rest = split_options(list(words[1:]), ())
    if rest[:1] != ["run"]:
        return None
    options, command = split_options(rest[1:], _VALUED)
    same = {"--spec": "--from", "--with": "--with"}
    given = [text for name, theirs in same.items() for value in options.get(name, []) for text in (theirs, value)]
    return uv.follow(["uvx", *given, *command], place, again)
