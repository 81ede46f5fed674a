"""`hashFiles`: which files its patterns match, in which order, and the digest of them all (actions/glob, internal-hash-files).

Knows paths and digests, not where files come from. The patterns are hostile: matching takes no backtracking, and is bounded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from agent.ci.expressions.bounds import Meter
from agent.ci.expressions.errors import ExpressionError, quoted

_WORK_LIMIT = 8_000_000  # characters and segments that are compared
_FOLLOW = "--follow-symbolic-links"
_DEEP = "**"


def hash_files(patterns: Sequence[str], files: Mapping[str, bytes], workspace: str) -> str:
    """`digest` of those contents of `files`, by path in the workspace, that match.

    Raises `ExpressionError`.
    """
    return digest(hashlib.sha256(files[path]).digest() for path in matching(patterns, files, workspace))


def digest(digests: Iterable[bytes]) -> str:
    """What `hashFiles` returns for files of these SHA-256 digests (32 bytes each) in this order; "" for none."""
    joined = b"".join(digests)
    return hashlib.sha256(joined).hexdigest() if joined else ""


def matching(patterns: Sequence[str], paths: Iterable[str], workspace: str) -> list[str]:
    """Those of `paths` (of files, relative to the workspace, with `/`) that match, in the order in which they are hashed.

    `patterns` as `hashFiles` is given them: each may hold several lines. `workspace` is the absolute path that patterns may
    begin with. Raises `ExpressionError` for a pattern that GitHub refuses, and for too many of them.
    """
    meter = Meter(_WORK_LIMIT)
    wanted = _read(patterns, workspace)
    roots = [pattern.root for pattern in wanted if not pattern.excluding]
    # A root beneath another one is searched as part of it.
    roots = [root for root in roots if not any(root[: len(o)] == o for o in roots if len(o) < len(root))]
    found: list[tuple[int, list[bytes], str]] = []
    for path in paths:
        segments = path.split("/")
        chosen = False
        for pattern in wanted:
            if pattern.covers(segments, meter):
                chosen = not pattern.excluding
        if chosen:
            first = next(at for at, root in enumerate(roots) if tuple(segments[: len(root)]) == root)
            # Folders are walked depth first, and what a folder holds in the order of its bytes.
            found.append((first, [segment.encode(errors="surrogateescape") for segment in segments], path))
    return [path for _, _, path in sorted(found)]


@dataclass(frozen=True, slots=True)
class _One:
    """A character: one of `ranges`, or with `negated` none of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    @property
    def literal(self) -> str:
        """The character, where it is but one; else ""."""
        only = self.ranges[0] if len(self.ranges) == 1 and not self.negated else ("", "-")
        return only[0] if only[0] == only[1] else ""

    def allows(self, character: str) -> bool:
        for first, last in self.ranges:
            if first <= character <= last:
                return not self.negated
        return self.negated


_ANY: Final = None  # `*`, or `**` among segments: any number of what stands here
_EVERY = _One((), negated=True)


@dataclass(frozen=True, slots=True)
class _Segment:
    """The pattern of one name in a path."""

    items: tuple[_One | None, ...]
    literal: str | None  # the name, where there is but one

    def allows(self, name: str, meter: Meter) -> bool:
        return name == self.literal if self.literal is not None else _matches(self.items, name, _One.allows, meter)


@dataclass(frozen=True, slots=True)
class _Pattern:
    segments: tuple[_Segment | None, ...]
    excluding: bool
    folder: bool  # it ends in a slash: what it names itself must be a folder

    @property
    def root(self) -> tuple[str, ...]:
        """The segments before the first with a wildcard."""
        literal: list[str] = []
        for segment in self.segments:
            if segment is _ANY or segment.literal is None:
                break
            literal.append(segment.literal)
        return tuple(literal)

    def covers(self, path: Sequence[str], meter: Meter) -> bool:
        """Whether it matches the file, or a folder above it."""

        def same(segment: _Segment, name: str) -> bool:
            return segment.allows(name, meter)

        beneath = (*self.segments, _Segment((_ANY,), None), _ANY)
        return (not self.folder and _matches(self.segments, path, same, meter)) or _matches(beneath, path, same, meter)


def _read(patterns: Sequence[str], workspace: str) -> list[_Pattern]:
    lines = [line.strip() for pattern in patterns for line in pattern.split("\n")]
    if lines and lines[0].startswith("--"):
        if lines[0].lower() != _FOLLOW:
            raise ExpressionError(f"hashFiles has no option {quoted(lines[0])}, only {_FOLLOW}")
        del lines[0]
    read = (_pattern(line, workspace.rstrip("/")) for line in lines if line and not line.startswith("#"))
    return [pattern for pattern in read if pattern is not None]


def _pattern(line: str, workspace: str) -> _Pattern | None:
    """None where it can match nothing in the workspace."""
    bare, excluding = line, False
    while bare.startswith("!"):
        bare, excluding = bare[1:].strip(), not excluding
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
    return _Pattern(tuple(_ANY if name == _DEEP else _segment(name) for name in names), excluding, bare.endswith("/"))


def _segment(name: str) -> _Segment:
    items: list[_One | None] = []
    at = 0
    while at < len(name):
        character = name[at]
        at += 1
        if character == "*":
            if not items or items[-1] is not _ANY:
                items.append(_ANY)
        elif character == "?":
            items.append(_EVERY)
        elif character == "[" and (bracket := _bracket(name, at)) is not None:
            item, at = bracket
            items.append(item)
        else:
            if character == "\\" and at < len(name):
                character = name[at]
                at += 1
            items.append(_One(((character, character),)))
    literal = [item.literal for item in items if isinstance(item, _One) and item.literal]
    return _Segment(tuple(items), "".join(literal) if len(literal) == len(items) else None)


def _bracket(name: str, at: int) -> tuple[_One, int] | None:
    """The set that opens before `at`, and where it ends; None when it is empty or not closed."""
    negated = name[at : at + 1] in ("!", "^")
    at += negated
    ranges: list[tuple[str, str]] = []
    while at < len(name) and name[at] != "]":
        first, at = _escaped(name, at)
        last = first
        if name[at : at + 1] == "-" and name[at + 1 : at + 2] not in ("", "]"):
            last, at = _escaped(name, at + 1)
        ranges.append((first, last))
    return (_One(tuple(ranges), negated), at + 1) if ranges and at < len(name) else None


def _escaped(name: str, at: int) -> tuple[str, int]:
    return (name[at + 1], at + 2) if name[at] == "\\" and at + 1 < len(name) else (name[at], at + 1)


_P = TypeVar("_P")
_T = TypeVar("_T")


def _matches(pattern: tuple[_P | None, ...], items: Sequence[_T], same: Callable[[_P, _T], bool], meter: Meter) -> bool:
    """Whether `items` are what `pattern` tells, `_ANY` standing for any number of them.

    Only the last `_ANY` ever takes more: so no pattern costs more than its length times that of the items.
    """
    at = here = steps = 0
    star, resume = -1, 0
    while here < len(items):
        steps += 1
        wanted = pattern[at] if at < len(pattern) else _ANY
        if wanted is not _ANY and same(wanted, items[here]):
            at, here = at + 1, here + 1
        elif wanted is _ANY and at < len(pattern):
            star, resume = at, here
            at += 1
        elif star >= 0:
            resume += 1
            at, here = star + 1, resume
        else:
            break
    meter.spend(steps + 1)
    return here == len(items) and all(rest is _ANY for rest in pattern[at:])
