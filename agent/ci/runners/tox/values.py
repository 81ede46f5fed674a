"""The small languages inside tox's values: generative names, factor conditions, brace substitution.

Follows tox 4 (`tox/config/loader`); tests compare it with recorded answers (`tests/agent/ci/runners/tox/tox_recorded.json`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

from agent.ci.runners.context import Unfollowed

NAMES_LIMIT = 2000  # environments of one list
_LATEST = (11, 15)  # the minor versions that an open range of tox 4 stands for
_DEPTH = 100
_SIZE = 64 * 1024
_BRACES = re.compile(r"((?:\{[^{}]+\})+)|,")
_GROUP = re.compile(r"\{([^{}]+)\}")
_TRIED = 20 * NAMES_LIMIT  # combinations of one line, many of which may give the same name
_FACTOR = re.compile(r"!?[\w.][\w.-]*|")
_RANGE = re.compile(r"(?<![\w.-])(?:(\d+)-(\d+)|(\d+)-)(?=[,}])|(?<=[{,])-(\d+)(?=[,}])")
# Literal braces are kept as characters that no file contains.
_HIDE = str.maketrans("{}:[]", "\ue000\ue001\ue002\ue003\ue004")
_SHOW = str.maketrans("\ue000\ue001\ue002\ue003\ue004", "{}:[]")


def names(text: str) -> list[str]:
    """`py{39,310}-a, lint` → ["py39-a", "py310-a", "lint"]. Raises `Unfollowed`."""
    found: dict[str, None] = {}
    for line in text.split("\n"):
        for name in _generate(line.strip()):
            if name:
                found[name] = None
            if len(found) > NAMES_LIMIT:
                raise Unfollowed("its list of environments is too long")
    return list(found)


def _generate(text: str) -> Iterator[str]:
    text = _RANGE.sub(_numbers, text)
    if len(text) > _SIZE:
        raise Unfollowed("its list of environments is too long")
    count = 0
    for is_name, group in itertools.groupby(_BRACES.split(text), key=bool):
        if not is_name:
            continue
        parts = _GROUP.split("".join(part for part in group if part).strip())
        for variant in itertools.product(*([item.strip() for item in part.split(",")] for part in parts)):
            count += 1
            if count > _TRIED:
                raise Unfollowed("its list of environments is too long")
            name = "".join(variant)
            if not all(_FACTOR.fullmatch(factor) for factor in name.split("-")):
                raise Unfollowed(f"{name[:60]!r} is not a valid environment name")
            yield name


def _numbers(match: re.Match[str]) -> str:
    first = int(match[1] or match[3] or _LATEST[0])
    last = int(match[2] or match[4] or _LATEST[1])
    if abs(last - first) > NAMES_LIMIT:
        raise Unfollowed("its list of environments is too long")
    step = 1 if first <= last else -1
    return ",".join(str(number) for number in range(first, last + step, step))


def without_comment(line: str) -> str:
    """The line up to its comment, which begins at a `#` that is not escaped with a backslash."""
    found = re.search(r"(?<!\\)#", line)
    return line if found is None else line[: found.start()].rstrip()


def conditional(value: str, env: str) -> str | None:
    """The lines of a value that apply to an environment, without comments; None if it has lines but none applies."""
    factors = {*env.split("-"), "linux"}
    kept: list[str] = []
    continues = skipped = False  # whether the last line that was kept, or left out, ends in a backslash
    stripped = "\n".join(without_comment(line).replace("\\#", "#") for line in value.split("\n") if not line.startswith("#"))
    for line in stripped.split("\n"):
        marker = re.search(r":(?=\s|$)", line)
        groups: list[list[str]] | None = None
        if marker is not None:
            try:
                groups = [name.split("-") for name in itertools.islice(_generate(line[: marker.start()].strip()), NAMES_LIMIT)]
            except Unfollowed:
                groups = None  # the colon belongs to the value
        is_kept = continues or not skipped or line.endswith("\\")
        if groups is not None:
            is_kept = any(all((factor.lstrip("!") in factors) != factor.startswith("!") for factor in one) for one in groups)
            line = line[marker.end() :].strip() if is_kept and marker else line
        if is_kept:
            kept.append(line)
            continues = line.endswith("\\") if line else continues
        skipped = not is_kept and line.endswith("\\")
    text = "\n".join(kept)
    if not text.strip() and stripped.strip():
        return None
    return text.replace("\\\n", "")


def substitute(text: str, value: Callable[[str], str | None]) -> str:
    """Replace `{…}` from the inside out by `value` of the inside; None leaves it as it is.

    Raises `Unfollowed` if this does not end.
    """
    text = re.sub(r"\\([{}:\[\]])", lambda match: match[1].translate(_HIDE), text)
    text = text.replace("{}", "{:}") if "{}" in text else text
    for _ in range(_DEPTH):
        changed = re.sub(r"\{([^{}]*)\}", lambda match: _one(match, value), text)
        if len(changed) > _SIZE:
            raise Unfollowed("a value grows without limit")
        if changed == text:
            return changed.translate(_SHOW)
        text = changed
    raise Unfollowed("its substitutions are nested too deeply")


def _one(match: re.Match[str], value: Callable[[str], str | None]) -> str:
    found = value(match[1])
    if found is not None and match[0] in found:
        raise Unfollowed(f"its substitutions are circular: {match[0][:80]}")
    return match[0].translate(_HIDE) if found is None else found


def literal(text: str) -> str:
    """Text that is not substituted again."""
    return text.translate(_HIDE)
