"""Follows `make TARGET`: the recipes of the target and of what it needs, in order, with variables expanded.

A subset of GNU make, compared with the real `make -n` in its test. Files count as out of date; what a subset cannot read
(`$(shell …)`, pattern rules, `define`) is refused by name where it matters and a note elsewhere.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.ci.project.install_commands import merge
from agent.ci.runners.context import Again, Followed, Place, Result, Unfollowed
from agent.ci.runners.make.values import MakeError, Variables, assign, expand, fits, raw
from agent.ci.runners.shell import from_folder, subshell
from sandbox.base import Packages

_FILES = ("GNUmakefile", "makefile", "Makefile")
_VALUED = ("-C", "--directory", "-f", "--file", "--makefile", "-I", "-o", "-W", "-l")
_ASSIGNMENT = re.compile(r"^(?:override\s+|export\s+)*([\w.-]+)\s*(::?:?=|\?=|\+=|!=|=)\s*(.*)$", re.DOTALL)
_TARGETS = 300
_NESTED = 40
_CONDITION = 1000  # characters
_CHEAP = 100  # lines, or needs of targets, that count as one step


@dataclass
class _Rule:
    needs: list[str] = field(default_factory=list)
    recipe: list[str] = field(default_factory=list)


@dataclass
class _Makefile:
    variables: Variables
    rules: dict[str, _Rule] = field(default_factory=dict)
    phony: set[str] = field(default_factory=set)
    first: str = ""
    exported: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "make"."""
    given: dict[str, str] = {}
    targets: list[str] = []
    names: list[str] = []
    silent_errors = False
    rest = iter(words[1:])
    for word in rest:
        if found := re.match(r"^([\w.-]+)[:?]?=(.*)$", word, re.DOTALL):
            given[found[1]] = found[2]
        elif word in _VALUED or (attached := re.match(r"^(-[Cf]|--directory=|--file=|--makefile=)(.+)$", word)):
            option, value = (word, next(rest, "")) if word in _VALUED else (attached[1].rstrip("="), attached[2])  # type: ignore[index]
            if option in ("-C", "--directory"):
                place = place.moved(value)
            elif option in ("-f", "--file", "--makefile"):
                names.append(value)
        elif word in ("-i", "--ignore-errors"):
            silent_errors = True
        elif not word.startswith("-"):
            targets.append(word)
    name = next((name for name in names or _FILES if place.text(name)), None)
    if name is None:
        return Unfollowed(f"there is no {' or '.join(names) if names else 'Makefile'} in {place.cwd}")
    try:
        makefile = _read(place.text(name), place, given)
        lines = _recipes(makefile, targets or [makefile.first], place)
    except (MakeError, RecursionError) as wrong:
        return Unfollowed(str(wrong) or "its rules are nested too deeply")
    exported = {name: expand(f"$({name})", makefile.variables, {}) for name in makefile.exported | given.keys()}
    inside = place.with_env({name: value for name, value in exported.items() if "\n" not in value})
    return _followed(lines, makefile, inside, again, silent_errors)


def _followed(lines: list[tuple[str, str]], makefile: _Makefile, place: Place, again: Again, careless: bool) -> Followed:
    """Each line of a recipe is a shell of its own."""
    texts: list[str] = []
    packages = Packages()
    notes = list(makefile.notes)
    python: str | None = None
    parts: list[Followed] = []
    for marks, line in lines:
        part = again(line, place)
        packages, python = merge(packages, part.packages), python or part.python
        notes += part.notes
        if not part.command:
            continue
        text = subshell(part.command, place.added(part.env), from_folder(place.cwd, part.cwd))
        lonely = text == part.command and not re.search(r"(?:^|[;&|]\s*)(?:cd|export|set|exit|unset)\b|\n", text)
        if "-" in marks or careless:
            text = f"{text} || true" if lonely else f"(\n{text}\n) || true"
        elif not lonely and text == part.command:
            text = f"(\n{text}\n)"
        texts.append(text)
        parts.append(part)
    notes = list(dict.fromkeys(notes))
    if len(parts) == 1 and not texts[0].endswith("|| true"):
        return Followed(parts[0].command, packages, {**place.env, **parts[0].env}, parts[0].cwd, python, tuple(notes))
    return Followed("\n".join(texts), packages, place.env, place.cwd, python, tuple(notes))


def _read(text: str, place: Place, given: dict[str, str]) -> _Makefile:
    variables = {name: (value, True) for name, value in place.env.items()}
    variables |= {name: (value, False) for name, value in given.items()}
    makefile = _Makefile(Variables(variables, frozenset(given), place.steps))
    current: list[_Rule] = []
    branches: list[bool] = []  # conditionals around: whether their lines hold
    defining = False
    lines = _joined(text)
    place.steps.take(len(lines) // _CHEAP)
    for line in lines:
        if line.startswith("\t") and current:
            if all(branches):
                for rule in current:
                    rule.recipe.append(line[1:])
            continue
        line = re.sub(r"(?<!\\)#.*", "", line).strip()
        if defining:
            defining = line != "endef"
            continue
        if line.startswith("define "):
            defining = True
            makefile.notes.append("a `define` of the Makefile is not read")
        elif _conditional(line, branches, makefile) or not line or not all(branches):
            continue
        elif line.startswith(("include ", "-include ", "sinclude ")):
            makefile.notes.append(f"the Makefile includes {line.split(None, 1)[1][:80]}, which is not read")
        elif re.match(r"(?:un)?export\b", line) and "=" not in line:
            makefile.exported |= set(line.split()[1:])
        elif (found := _ASSIGNMENT.match(line)) is not None:
            current = []
            assign(makefile.variables, found[1], found[2], found[3])
            if line.startswith("export"):
                makefile.exported.add(found[1])
        elif (at := _colon(line)) is not None:
            current = _rule(makefile, line[:at], line[at + 1 :])
    return makefile


@functools.lru_cache(maxsize=4)
def _joined(text: str) -> tuple[str, ...]:
    """Lines, with those that a backslash continues; in a recipe the backslash is the shell's."""
    found: list[str] = []
    parts: list[str] = []  # of a line that goes on
    for line in text.replace("\r\n", "\n").split("\n"):
        is_recipe = (parts or [line])[0].startswith("\t")
        own = line.removeprefix("\t") if is_recipe and parts else line.strip() if parts else line
        if line.endswith("\\"):
            parts.append(own if is_recipe else own[:-1].rstrip())
            continue
        found.append(("\n" if is_recipe else " ").join([*parts, own]) if parts else line)
        parts = []
    return (*found, ("\n" if parts[0].startswith("\t") else " ").join(parts)) if parts else tuple(found)


def _conditional(line: str, branches: list[bool], makefile: _Makefile) -> bool:
    """Whether the line is part of a conditional; `branches` is kept up to date."""
    word, _, rest = line.partition(" ")
    if word in ("ifeq", "ifneq"):
        if len(rest) > _CONDITION:
            raise MakeError(f"the condition `{line[:60]}` is too long")
        found = re.match(r"""^\((.*),(.*)\)$|^["'](.*)["']\s+["'](.*)["']$""", rest.strip())
        if found is None:
            raise MakeError(f"the condition `{line[:60]}` cannot be read")
        one, other = [part for part in found.groups() if part is not None]
        same = expand(one, makefile.variables, {}).strip() == expand(other, makefile.variables, {}).strip()
        branches.append(same is (word == "ifeq"))
    elif word in ("ifdef", "ifndef"):
        branches.append((raw(rest.strip(), makefile.variables) != "") is (word == "ifdef"))
    elif word == "else" and branches:
        branches[-1] = not branches[-1]
        if rest.strip():
            raise MakeError("`else if` of its conditionals is not read")
    elif word == "endif" and branches:
        branches.pop()
    else:
        return False
    return True


def _colon(line: str) -> int | None:
    """Where the targets of a rule end."""
    depth = 0
    for at, letter in enumerate(line):
        depth += (letter in "({") - (letter in ")}")
        if letter == ":" and depth == 0:
            return at
    return None


def _rule(makefile: _Makefile, names: str, rest: str) -> list[_Rule]:
    needs, semicolon, recipe = rest.lstrip(":").partition(";")
    if (found := _ASSIGNMENT.match(needs.strip())) is not None and "$" not in found[1]:
        makefile.notes.append(f"the variable {found[1]} of one target alone is not read")
        return []
    targets = expand(names, makefile.variables, {}).split()
    wanted = [need for need in expand(needs, makefile.variables, {}).split() if need != "|"]
    if targets[:1] == [".PHONY"]:
        makefile.phony |= set(wanted)
        return []
    makefile.variables.steps.take(len(targets) * len(wanted) // _CHEAP)
    made: list[_Rule] = []
    for target in targets:
        rule = makefile.rules.setdefault(target, _Rule())
        rule.needs += wanted
        if semicolon:
            rule.recipe.append(recipe.strip())
        made.append(rule)
        if not makefile.first and not target.startswith(".") and "%" not in target:
            makefile.first = target
    if len(makefile.rules) > 20 * _TARGETS:
        raise MakeError("it has too many rules")
    return made


def _recipes(makefile: _Makefile, targets: list[str], place: Place) -> list[tuple[str, str]]:
    """The lines to run, with their marks, in make's order."""
    lines: list[tuple[str, str]] = []
    done: set[str] = set()

    def make(target: str, above: tuple[str, ...]) -> None:
        if target in done or target in above:
            return  # make drops a circular need, too
        if len(done) > _TARGETS or len(above) > _NESTED:
            raise MakeError("its targets need each other without end")
        rule = makefile.rules.get(target)
        if rule is None:
            if place.has(target):
                return
            pattern = next((name for name in makefile.rules if "%" in name and fits(name, target)), None)
            if pattern is not None:
                raise MakeError(f"the pattern rule `{pattern}` is not read")
            raise MakeError(f"it has no target `{target[:80]}`")
        for need in rule.needs:
            make(need, (*above, target))
        done.add(target)
        # A file that is there and has no newer needs is not made again.
        if target not in makefile.phony and place.has(target) and not any(need in done for need in rule.needs):
            return
        own = {"@": target, "<": rule.needs[0] if rule.needs else "", "^": " ".join(dict.fromkeys(rule.needs))}
        for line in rule.recipe:
            text = expand(line, makefile.variables, {**own, "?": own["^"], "+": " ".join(rule.needs)}).strip()
            marks = re.match(r"^[@\-+\s]*", text)
            text = text[marks.end() :] if marks else text
            if text:
                lines.append((marks[0] if marks else "", text))
            if len(lines) > 10 * _TARGETS:
                raise MakeError("its recipes are too long")

    for target in targets:
        make(target, ())
    return lines
