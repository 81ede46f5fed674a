"""`hashFiles`: whether its patterns match any file by the rules of `actions/glob`, with a placeholder for the digest.

Workflows use the digest in cache keys, but an `if:` only asks whether it is empty. So no file is read: the result is `DIGEST`
if a file matches, else "". Patterns are hostile: their regular expressions use atomic groups, which do not backtrack.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence

from agent.ci.expressions.values import ExpressionError, Unknown, quoted

DIGEST = "0" * 64  # instead of the SHA-256 digest of the files
LENGTH_LIMIT = 20_000  # characters of all patterns of one call
SECONDS = 20.0  # for all calls; an answer that takes longer stays unknown
_FOLLOW = "--follow-symbolic-links"
_ITEM = re.compile(
    r"(?P<any>\*+)|(?P<one>\?)|\[(?P<negated>[!^]?+)(?P<set>(?:\\.|[^\]\\])++)\]|\\(?P<escaped>.)|(?P<plain>.)", re.DOTALL
)
_MEMBER = re.compile(r"(\\.|.)(?:-(\\.|.))?", re.DOTALL)


class MatchedFiles:
    """`hashFiles` for one workspace: `paths` are relative to its root, and `workspace` is its absolute path."""

    def __init__(self, paths: Iterable[str], workspace: str) -> None:
        self._paths, self._workspace = tuple(paths), workspace
        self._known: dict[tuple[str, ...], str | Unknown] = {}
        self._seconds = SECONDS

    def __call__(self, patterns: Sequence[str], /) -> str | Unknown:
        """Can take up to `SECONDS`, so do not call it on the event loop."""
        key = tuple(patterns)
        if key not in self._known:
            started = time.monotonic()
            self._known[key] = self._answer(key, started + self._seconds)
            self._seconds -= time.monotonic() - started
        return self._known[key]

    def _answer(self, patterns: Sequence[str], until: float) -> str | Unknown:
        try:
            return DIGEST if matches(patterns, self._paths, self._workspace, until) else ""
        except ExpressionError as error:
            return Unknown(str(error))
        except TimeoutError:
            return Unknown("hashFiles")


def matches(patterns: Sequence[str], paths: Iterable[str], workspace: str, until: float = float("inf")) -> bool:
    """Whether any of `paths` matches. A pattern can have several lines; the last line that matches a path decides.

    Raises `ExpressionError` for a pattern that GitHub refuses or that is too long, `TimeoutError` after `until` (of
    `time.monotonic()`).
    """
    if sum(map(len, patterns)) > LENGTH_LIMIT:
        raise ExpressionError(f"the patterns of hashFiles have more than {LENGTH_LIMIT} characters")
    lines = [line.strip() for pattern in patterns for line in pattern.split("\n")]
    if lines and lines[0].startswith("--"):
        if lines[0].lower() != _FOLLOW:
            raise ExpressionError(f"hashFiles has no option {quoted(lines[0])}, only {_FOLLOW}")
        del lines[0]
    read = (_pattern(line, workspace.rstrip("/")) for line in lines if line and not line.startswith("#"))
    wanted = [pattern for pattern in read if pattern is not None]
    for path in paths if wanted else ():
        if time.monotonic() > until:
            raise TimeoutError
        # The last pattern that matches decides; one that matches a folder matches all that is in it.
        if next((included for expression, included in reversed(wanted) if expression.match(f"{path}/")), False):
            return True
    return False


def _pattern(line: str, workspace: str) -> tuple[re.Pattern[str], bool] | None:
    """An expression for the start of a path, and whether the line includes it; None if nothing in the workspace can match."""
    bare, included = line, True
    while bare.startswith("!"):
        bare, included = bare[1:].strip(), not included
    if bare.startswith("/"):
        if not f"{bare}/".startswith(f"{workspace}/"):
            return None
        bare = bare[len(workspace) :]
    elif bare == "~" or bare.startswith("~/"):
        return None
    names = [name for name in bare.split("/") if name]
    if bare.startswith(".") and names and names[0] == ".":
        del names[0]
    if not bare or "." in names or ".." in names:
        raise ExpressionError(f"the hashFiles pattern {quoted(line)} is empty or contains a '.' or '..' segment")
    # "**" stands for any number of folders. The first match of the names after it is as good as any later one.
    first, *rest = _runs(names)
    source = first + "".join(f"(?>(?:[^/]++/)*?{run})" for run in rest if run)
    return re.compile(source + ("[^/]" if bare.endswith("/") else "")), included


def _runs(names: Sequence[str]) -> list[str]:
    """The regular expressions for the names before, between and after each "**"."""
    runs = [""]
    for name in names:
        if name == "**":
            runs.append("")
        else:
            runs[-1] += _name(name)
    return runs


def _name(name: str) -> str:
    """The regular expression for one segment of a path, including the slash after it."""
    parts = [""]  # between the stars
    for item in _ITEM.finditer(name):
        if item["any"]:
            parts.append("")
        elif item["one"]:
            parts[-1] += "[^/]"
        elif item["set"]:
            parts[-1] += _set(item["set"], bool(item["negated"]))
        else:
            parts[-1] += re.escape(item["escaped"] or item["plain"])
    if len(parts) == 1:
        return parts[0] + "/"
    return parts[0] + "".join(f"(?>[^/]*?{part})" for part in parts[1:-1] if part) + f"[^/]*{parts[-1]}/"


def _set(members: str, negated: bool) -> str:
    ranges = ""
    for member in _MEMBER.finditer(members):
        first, last = member[1][-1], (member[2] or member[1])[-1]
        ranges += f"{re.escape(first)}-{re.escape(last)}" if first <= last else ""
    if negated:
        return f"[^/{ranges}]"
    return f"(?!/)[{ranges}]" if ranges else "(?!)"
