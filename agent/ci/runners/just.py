"""Follows just: `just RECIPE arguments` of a justfile, with parameters, needed recipes and plain variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.ci.runners.braces import Unfilled, filled
from agent.ci.runners.context import TEXT_LIMIT, Again, Place, Result, Steps, Unfollowed

_FILES = ("justfile", "Justfile", ".justfile")
_NESTED = 20
_HEAD = re.compile(r"^@?([A-Za-z_][\w-]*)((?:\s+[*+$]?\w+(?:=(?:'[^']*'|\"[^\"]*\"|\w+))?)*)\s*:(?!=)(.*)$")


class JustError(ValueError):
    """What cannot be followed; the message is a clause."""


@dataclass
class _Recipe:
    parameters: list[tuple[str, str | None]]  # with a leading * or +, and the default
    needs: list[list[str]]
    lines: list[str] = field(default_factory=list)


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "just"."""
    text = next((text for name in _FILES if (text := place.text(name))), "")
    if not text:
        return Unfollowed(f"there is no justfile in {place.cwd}")
    try:
        variables, recipes, exported = _read(text, place)
        given = [word for word in words[1:] if not word.startswith("-")] if len(words) > 1 else []
        for word in list(given):
            if found := re.match(r"^(\w+)=(.*)$", word):
                variables[found[1]] = found[2]
                given.remove(word)
        name = given[0] if given else next(iter(recipes), "")
        rest = list(words[words.index(name) + 1 :]) if name in words else []
        lines = _lines(recipes, [name, *rest], variables, (), place.steps)
    except (JustError, Unfilled, RecursionError) as wrong:
        return Unfollowed(str(wrong) or "its recipes are nested too deeply")
    return again("\n".join(lines), place.with_env({key: variables[key] for key in exported if key in variables}))


def _read(text: str, place: Place) -> tuple[dict[str, str], dict[str, _Recipe], list[str]]:
    variables: dict[str, str] = {}
    recipes: dict[str, _Recipe] = {}
    exported: list[str] = []
    current: _Recipe | None = None
    for line in text.replace("\\\n", " ").split("\n"):
        if line[:1] in (" ", "\t") and line.strip():
            if current is not None:
                current.lines.append(line.strip())
            continue
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "[", "set ", "alias ", "import ", "mod ")):
            continue
        if (found := re.match(r"^(export\s+)?(\w+)\s*:=\s*(.*)$", stripped)) is not None:
            if (value := _value(found[3], variables, place)) is not None:
                variables[found[2]] = value
            if found[1]:
                exported.append(found[2])
        elif (head := _HEAD.match(stripped)) is not None:
            parameters = [_parameter(part) for part in re.findall(r"[*+$]?\w+(?:=(?:'[^']*'|\"[^\"]*\"|\w+))?", head[2])]
            needs = re.findall(r"\(([^)]*)\)|([\w-]+)", re.sub(r"&&|#.*", " ", head[3]))
            current = recipes[head[1]] = _Recipe(parameters, [_plain(one or other) for one, other in needs])
    return variables, recipes, exported


def _parameter(text: str) -> tuple[str, str | None]:
    name, equals, default = text.lstrip("$").partition("=")
    return name, default.strip("'\"") if equals else None


def _plain(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _value(text: str, variables: Mapping[str, str], place: Place) -> str | None:
    """A text, a variable, `env_var_or_default`, or several joined by `+`; None for what only running it tells."""
    parts: list[str] = []
    for part in text.split("+"):
        part = part.strip()
        if (found := re.fullmatch(r"'([^']*)'|\"([^\"\\]*)\"", part)) is not None:
            parts.append(found[1] or found[2] or "")
        elif part in variables:
            parts.append(variables[part])
        elif (
            found := re.fullmatch(r"env(?:_var_or_default)?\(\s*['\"](\w+)['\"]\s*,\s*['\"]([^'\"]*)['\"]\s*\)", part)
        ) is not None:
            parts.append(place.env.get(found[1], found[2]))
        else:
            return None
    joined = "".join(parts)
    if len(joined) > TEXT_LIMIT:
        raise JustError("a variable of it grows without end")
    return joined


def _lines(
    recipes: Mapping[str, _Recipe], call: list[str], variables: Mapping[str, str], above: tuple[str, ...], steps: Steps
) -> list[str]:
    name, *arguments = call or [""]
    steps.take()
    if name in above or len(above) > _NESTED:
        raise JustError(f"its recipe {name[:60]} needs itself")
    recipe = recipes.get(name)
    if recipe is None:
        raise JustError(f"it has no recipe {name[:60]}")
    own = dict(variables)
    for parameter, default in recipe.parameters:
        if parameter[0] in "*+":
            own[parameter[1:]] = " ".join(arguments) or default or ""
            arguments = []
        elif arguments:
            own[parameter] = arguments.pop(0)
        elif default is not None:
            own[parameter] = default
        else:
            raise JustError(f"its recipe {name[:60]} lacks the argument {parameter[:40]}")
    lines: list[str] = []
    for need in recipe.needs:
        lines += _lines(recipes, [own.get(word, word) for word in need], own, (*above, name), steps)
    if recipe.lines and recipe.lines[0].startswith("#!"):
        if not re.search(r"\b(?:ba|da)?sh\b", recipe.lines[0]):
            raise JustError(f"its recipe {name[:60]} is a program of its own")
        return [*lines, "(\n" + "\n".join(filled(line, own) for line in recipe.lines[1:]) + "\n)"]
    for line in recipe.lines:
        careless = re.match(r"^@?-", line) is not None
        text = filled(line.lstrip("@-"), own).strip()
        # Each line is a shell of its own.
        text = f"(\n{text}\n)" if re.match(r"cd\b|export\b|set\b", text) and "&&" not in text else text
        lines.append(f"{text} || true" if careless else text)
        if sum(map(len, lines)) > TEXT_LIMIT:
            raise JustError("what it runs is too long")
    # Arguments that are left over are further recipes.
    return [*lines, *(_lines(recipes, arguments, variables, above, steps) if arguments and not above else [])]
