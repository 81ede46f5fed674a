"""Fills in `{{ name }}`, as just and go-task write variables. Knows neither's file."""

from __future__ import annotations

import re
from collections.abc import Mapping


class Unfilled(ValueError):
    """A value that is not known, or an expression that is not read; the message is a clause."""


def filled(text: str, variables: Mapping[str, str], name: str = r"(\w+)") -> str:
    """`name` is how a variable is written, its own name the group. Raises `Unfilled`."""

    def fill(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise Unfilled(f"the value of `{match[0][:60]}` is not known")
        return variables[match[1]]

    done = re.sub(r"\{\{\s*" + name + r"\s*\}\}", fill, text)
    if (at := done.find("{{")) >= 0 and (end := done.find("}}", at)) >= 0:
        raise Unfilled(f"the expression `{done[at : end + 2][:60]}` is not read")
    return done
