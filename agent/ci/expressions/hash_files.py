"""`hashFiles`: whether its patterns match any file, by the rules of `actions/glob`, and a stand-in for the digest.

Workflows put the digest into cache keys, but ask in `if:` whether it is empty. So no file is read: with a match the result is
`DIGEST`, else "". Patterns are hostile: their regular expressions use atomic groups, which do not backtrack.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence

from agent.ci.expressions.values import ExpressionError, Unknown, quoted

DIGEST = "0" * 64  # in the place of the SHA-256 digest of the files
LENGTH_LIMIT = 20_000  # characters of all patterns of one call
SECONDS = 20.0  # for all calls; an answer that takes longer stays unknown
_FOLLOW = "--follow-symbolic-links"
_ITEM = re.compile(
    r"(?P<any>\*+)|(?P<one>\?)|\[(?P<negated>[!^]?+)(?P<set>(?:\\.|[^\]\\])++)\]|\\(?P<escaped>.)|(?P<plain>.)", re.DOTALL
)
_MEMBER = re.compile(r"(\\.|.)(?:-(\\.|.))?", re.DOTALL)


class MatchedFiles:
    """`hashFiles` for the files of one workspace: `paths` relative to its root, the absolute path `workspace`."""

    def __init__(self, paths: Iterable[str], workspace: str) -> None:
        self._paths, self._workspace = tuple(paths), workspace
        self._known: dict[tuple[str, ...], str | Unknown] = {}
        self._seconds = SECONDS

    def __call__(self, patterns: Sequence[str], /) -> str | Unknown:
        """May take `SECONDS`: not for the event loop."""
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
    """Whether any of `paths` matches; each pattern may hold several lines, and the last line that matches a path decides.

    Raises `ExpressionError` for a pattern that GitHub refuses or that is too long, `TimeoutError` after `until` (of
    `time.monotonic()`).
    """
    if sum(map(len, patterns)) > LENGTH_LIMIT:
        raise ExpressionError(f"hashFiles is given patterns of more than {LENGTH_LIMIT} characters")
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
    """What the beginning of a path must match, and whether the line includes; None where it cannot match in the workspace."""
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
        raise ExpressionError(f"hashFiles is given the pattern {quoted(line)}, which is empty or has a '.' or '..' inside")
    # "**" stands for any number of folders. The first place where the names after it match is as good as any later one.
    first, *rest = _runs(names)
    source = first + "".join(f"(?>(?:[^/]++/)*?{run})" for run in rest if run)
    return re.compile(source + ("[^/]" if bare.endswith("/") else "")), included


def _runs(names: Sequence[str]) -> list[str]:
    """The expressions of the names before, between and after each "**"."""
    runs = [""]
    for name in names:
        if name == "**":
            runs.append("")
        else:
            runs[-1] += _name(name)
    return runs


def _name(name: str) -> str:
    """The expression of one name of a path, with the slash behind it."""
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
