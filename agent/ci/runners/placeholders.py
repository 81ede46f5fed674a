"""Fills in `{{ name }}`, as just and go-task write variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent.ci.runners.context import Unfollowed


def fill(text: str, variables: Mapping[str, str], name: str = r"(\w+)") -> str:
    """`name` is how a variable is written, its own name the group. Raises `Unfollowed`."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise Unfollowed(f"the value of `{match[0][:60]}` is not known")
        return variables[match[1]]

    filled = re.sub(r"\{\{\s*" + name + r"\s*\}\}", value, text)
    if (at := filled.find("{{")) >= 0 and (end := filled.find("}}", at)) >= 0:
        raise Unfollowed(f"the expression `{filled[at : end + 2][:60]}` is not supported")
    return filled
