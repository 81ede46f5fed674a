"""Follows `make TARGET`: make itself says in the sandbox what it would run (`make -n`), and which variables it exports.

A recursive call of make is a line like any other, and is followed in the same way.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from agent.ci.project.commands import RUNNER_FILES
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed
from agent.ci.runners.options import separate_options
from agent.ci.runners.subshells import grouped, isolated, joined
from agent.guest.text import one_line

_VALUED = ("-C", "--directory", "-f", "--file", "--makefile", "-I", "-o", "-W", "-l")
_AGAIN = ": recursive-make"  # replaces `$(MAKE)`, which make runs even with `-n`
_OF_MAKE = ("MAKE", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MAKE_TERMERR", "MAKE_TERMOUT", "MFLAGS", "SHLVL", "_")
_LINES = 3000
_CARELESS = 300


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    options, plain = separate_options(words[1:], _VALUED)
    for folder in options.values("-C", "--directory"):
        context = context.moved(folder)
    files = options.values("-f", "--file", "--makefile")
    name = next((name for name in files or RUNNER_FILES["make"] if context.has(name)), None)
    if name is None:
        raise Unfollowed(f"there is no {' or '.join(files or ['Makefile'])} in {context.cwd}")
    recipes, exported = _ask(files, plain, context)
    recipes = _without_announcements(recipes, context.text(name))
    inside = context.with_env({name: value for name, value in exported.items() if "\n" not in value})
    careless = [[""]] if options.has("-i", "--ignore-errors") else _careless(context.text(name))
    followed: list[Followed] = []
    for line in recipes:
        text = " ".join(line.replace("\\\n", " ").split())
        followed.append(_line(line, any(_fits(text, parts) for parts in careless), inside, again))
    return joined(followed, inside, ())


def _ask(files: list[str], plain: list[str], context: ShellContext) -> tuple[list[str], dict[str, str]]:
    """The lines of the recipes, and the variables that they get. Raises `Unfollowed`."""
    assigned = [word for word in plain if re.match(r"[\w.-]+[:?]?=", word)]
    targets = [word for word in plain if word not in assigned]
    shared = [*(f"-f{file}" for file in files), *assigned]
    exports = shlex.join(["make", "-s", *shared, "--eval", ".exports: ; @printf '\\1'; env -0", ".exports"])
    wanted = shlex.join(["make", "-n", "--no-print-directory", f"MAKE={_AGAIN}", *shared, *targets])
    answer = context.ask(("bash", "-c", f"env -0; printf '\\0'; {exports} || exit; printf '\\0'; {wanted}"))
    before, _, rest = answer.text.partition("\0\0")
    after, _, text = rest.partition("\0\0")
    if answer.exit_code != 0:
        said = (answer.errors.strip() or "an error").splitlines()[-1]
        raise Unfollowed(f"make says: {one_line(re.sub(r'^make: [*]+ ', '', said), 200)}")
    printed, _, after = after.partition("\1")  # the output of `$(info …)` comes before both
    lines = re.split(r"(?<!\\)\n", text.removeprefix(printed).replace(_AGAIN, "make"))
    lines = [line for line in lines if line.strip() and not re.match(r"#|make(?:\[\d+\])?: ", line)]
    if len(lines) > _LINES:
        raise Unfollowed("its recipes are too long")
    known = _variables(before)
    env = {name: value for name, value in _variables(after).items() if known.get(name) != value and name not in _OF_MAKE}
    return lines, env


def _variables(text: str) -> dict[str, str]:
    return {name: value for name, equals, value in (each.partition("=") for each in text.split("\0")) if equals}


def _careless(text: str) -> list[list[str]]:
    """The lines whose failure make ignores, which `-n` does not show: for each, the texts between its variables."""
    lines = re.findall(r"^\t[@+]*-[@+-]*(.*)$", text.replace("\\\n", " "), re.MULTILINE)
    return _between_variables(lines)


def _without_announcements(recipes: list[str], text: str) -> list[str]:
    """The lines without what recipes show with `$(info …)`, which make prints like their commands.

    Raises `Unfollowed` if such a line may be a command, because a lost command tests nothing.
    """
    announced = _between_variables(re.findall(r"^\t[@+-]*\$[({]info (.*)[)}][ \t]*$", text, re.MULTILINE))
    counted = Counter(" ".join(line.split()) for line in recipes)
    said = [line for line in counted if any(_fits(line, parts) for parts in announced)]
    if not said:
        return recipes
    lines = re.findall(r"^\t[@+-]*+(?!\$[({]info )(.*)$", text.replace("\\\n", " "), re.MULTILINE)
    commands = _between_variables(lines, _LINES)
    is_unclear = len(said) == len(counted) or len(said) > _CARELESS or len(lines) > _LINES
    if is_unclear or any(counted[line] > 1 or any(_fits(line, parts) for parts in commands) for line in said):
        raise Unfollowed("what it shows with `$(info)` looks like its commands")
    return [line for line in recipes if " ".join(line.split()) not in said]


def _between_variables(lines: list[str], most: int = _CARELESS) -> list[list[str]]:
    found = [re.split(r"\$(?:\([^()]*\)|\{[^{}]*\}|[^$])", line.strip()) for line in lines[:most]]
    found = [[" ".join(part.replace("$$", "$").split()) for part in parts] for parts in found]
    return [parts for parts in found if any(parts)]


def _fits(text: str, parts: list[str]) -> bool:
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return text.startswith(parts[0]) and text.endswith(parts[-1])


def _line(line: str, ignores_errors: bool, context: ShellContext, again: Again) -> Followed:
    """A line of a recipe, which has a shell of its own."""
    found = again(line, context)
    if not found.command or not ignores_errors:
        return found
    text = isolated(found, context)
    text = grouped(text) if "\n" in text else text
    return replace(found, command=f"{text} || true", env=context.env, cwd=context.cwd)
