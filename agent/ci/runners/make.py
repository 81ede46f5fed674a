"""Follows `make TARGET`: the recipes of the target and of what it needs, in order, with variables expanded.

A subset of GNU make, compared with the real `make -n` in its test. Files count as out of date; what a subset cannot read
(`$(shell …)`, pattern rules, `define`) is refused by name where it matters and a note elsewhere.
"""

from __future__ import annotations

import fnmatch
import functools
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.ci.installing import merge
from agent.ci.runners.followed import TEXT_LIMIT, Again, Followed, Place, Result, Steps, Unfollowed
from agent.ci.runners.shell import from_folder, subshell
from sandbox.base import Packages

_FILES = ("GNUmakefile", "makefile", "Makefile")
_VALUED = ("-C", "--directory", "-f", "--file", "--makefile", "-I", "-o", "-W", "-l")
_ASSIGNMENT = re.compile(r"^(?:override\s+|export\s+)*([\w.-]+)\s*(::?:?=|\?=|\+=|!=|=)\s*(.*)$", re.DOTALL)
_TARGETS = 300
_NESTED = 40
_CONDITION = 1000  # characters
_CHEAP = 100  # needs of targets that count as one step
_BUILT_IN = {"MAKE": "make", "CURDIR": "$(pwd)", "SHELL": "/bin/sh", "PYTHON": "", "CC": "cc", "RM": "rm -f", "MAKEFLAGS": ""}


class MakeError(ValueError):
    """What cannot be read; the message is a clause."""


@dataclass
class _Rule:
    needs: list[str] = field(default_factory=list)
    recipe: list[str] = field(default_factory=list)


@dataclass
class _Makefile:
    variables: dict[str, tuple[str, bool]]  # name → (text, whether it is expanded already)
    rules: dict[str, _Rule] = field(default_factory=dict)
    phony: set[str] = field(default_factory=set)
    first: str = ""
    exported: set[str] = field(default_factory=set)
    settled: frozenset[str] = frozenset()  # those the command line gives, which the file cannot change
    notes: list[str] = field(default_factory=list)
    steps: Steps = field(default_factory=Steps)


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
    exported = {name: _expand(f"$({name})", makefile, {}) for name in makefile.exported | given.keys()}
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
    makefile = _Makefile(variables, settled=frozenset(given), steps=place.steps)
    current: list[_Rule] = []
    branches: list[bool] = []  # conditionals around: whether their lines hold
    defining = False
    for line in _joined(text):
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
            _assign(makefile, found[1], found[2], found[3])
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
        same = _expand(one, makefile, {}).strip() == _expand(other, makefile, {}).strip()
        branches.append(same is (word == "ifeq"))
    elif word in ("ifdef", "ifndef"):
        branches.append((_raw(rest.strip(), makefile) != "") is (word == "ifdef"))
    elif word == "else" and branches:
        branches[-1] = not branches[-1]
        if rest.strip():
            raise MakeError("`else if` of its conditionals is not read")
    elif word == "endif" and branches:
        branches.pop()
    else:
        return False
    return True


def _assign(makefile: _Makefile, name: str, how: str, value: str) -> None:
    if name in makefile.settled:
        return
    if how == "!=":
        makefile.variables[name] = (f"$(shell {value})", False)
    elif how == "?=":
        makefile.variables.setdefault(name, (value, False))
    elif how == "+=" and name in makefile.variables:
        before, settled = makefile.variables[name]
        added = _expand(value, makefile, {}) if settled else value
        if len(before) + len(added) > TEXT_LIMIT:
            raise MakeError(f"its variable {name} grows without end")
        makefile.variables[name] = (f"{before} {added}".strip() if before else added, settled)
    elif how in (":=", "::="):
        try:
            makefile.variables[name] = (_expand(value, makefile, {}), True)
        except MakeError:
            makefile.variables[name] = (value, False)  # it is refused where it is used
    else:
        makefile.variables[name] = (value, False)


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
    targets = _expand(names, makefile, {}).split()
    wanted = [need for need in _expand(needs, makefile, {}).split() if need != "|"]
    if targets[:1] == [".PHONY"]:
        makefile.phony |= set(wanted)
        return []
    makefile.steps.take(len(targets) * len(wanted) // _CHEAP)
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
            pattern = next((name for name in makefile.rules if "%" in name and _fits(name, target)), None)
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
            text = _expand(line, makefile, {**own, "?": own["^"], "+": " ".join(rule.needs)}).strip()
            marks = re.match(r"^[@\-+\s]*", text)
            text = text[marks.end() :] if marks else text
            if text:
                lines.append((marks[0] if marks else "", text))
            if len(lines) > 10 * _TARGETS:
                raise MakeError("its recipes are too long")

    for target in targets:
        make(target, ())
    return lines


def _fits(pattern: str, target: str) -> bool:
    return fnmatch.fnmatchcase(target, pattern.replace("%", "*"))


def _raw(name: str, makefile: _Makefile) -> str:
    return makefile.variables.get(name, (_BUILT_IN.get(name, ""), True))[0]


def _expand(text: str, makefile: _Makefile, own: dict[str, str], above: tuple[str, ...] = ()) -> str:
    """Raises `MakeError` for what only a shell knows, and where it does not end."""
    if "$" not in text:
        return text
    if len(text) > TEXT_LIMIT:
        raise MakeError("a line of it is too long")
    if len(above) > _NESTED:
        raise MakeError(f"its variable {above[-1][:40]} is nested too deeply")
    out: list[str] = []
    size = at = 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            following = text.find("$", at + 1)
            piece, at = (text[at:], len(text)) if following < 0 else (text[at:following], following)
        elif text[at + 1] in "({":
            end = _closing(text, at + 1)
            piece = _reference(text[at + 2 : end], makefile, own, above)
            at = end + 1
        else:
            letter = text[at + 1]
            piece = "$" if letter == "$" else own[letter] if letter in own else _variable(letter, makefile, own, above)
            at += 2
        size += len(piece)
        if size > TEXT_LIMIT:
            raise MakeError("a variable of it grows without end")
        out.append(piece)
    return "".join(out)


def _closing(text: str, at: int) -> int:
    opening, closing = text[at], ")" if text[at] == "(" else "}"
    depth = 0
    for index in range(at, len(text)):
        depth += (text[index] == opening) - (text[index] == closing)
        if depth == 0:
            return index
    raise MakeError(f"`{text[max(at - 1, 0) : at + 40]}` is not closed")


def _variable(name: str, makefile: _Makefile, own: dict[str, str], above: tuple[str, ...]) -> str:
    makefile.steps.take()
    if name in own:
        return own[name]
    if name in above:
        raise MakeError(f"its variable {name[:40]} refers to itself")
    raw, settled = makefile.variables.get(name, (_BUILT_IN.get(name, ""), True))
    return raw if settled else _expand(raw, makefile, own, (*above, name))


def _reference(inside: str, makefile: _Makefile, own: dict[str, str], above: tuple[str, ...]) -> str:
    name, _, rest = inside.partition(" ")
    if rest and name in _FUNCTIONS_OF_SHELL:
        raise MakeError(f"`$({inside[:60]})` is only known when it is run")
    if rest and re.fullmatch(r"[a-z-]+", name):
        return _function(name, rest, makefile, own, above)
    inside = _expand(inside, makefile, own, above)
    if (found := re.fullmatch(r"([^:]+):(.*)=(.*)", inside)) is not None:
        text = _variable(found[1], makefile, own, above)
        return " ".join(
            word[: len(word) - len(found[2])] + found[3] if word.endswith(found[2]) else word for word in text.split()
        )
    return _variable(inside, makefile, own, above)


_FUNCTIONS_OF_SHELL = ("shell", "wildcard", "eval", "call", "foreach", "file", "realpath", "abspath", "origin", "value")


def _function(name: str, rest: str, makefile: _Makefile, own: dict[str, str], above: tuple[str, ...]) -> str:
    arguments = [_expand(part, makefile, own, above) for part in _split(rest)]
    match name, arguments:
        case "strip", [text]:
            return " ".join(text.split())
        case "subst", [old, new, text] if old:
            return text.replace(old, new)
        case "if", [condition, then, *otherwise]:
            return then if condition.strip() else "".join(otherwise)
        case "or", [*choices]:
            return next((choice for choice in choices if choice.strip()), "")
        case "and", [*choices]:
            return choices[-1] if all(choice.strip() for choice in choices) else ""
        case "filter", [patterns, text]:
            return " ".join(word for word in text.split() if any(_fits(pattern, word) for pattern in patterns.split()))
        case "filter-out", [patterns, text]:
            return " ".join(word for word in text.split() if not any(_fits(pattern, word) for pattern in patterns.split()))
        case "addprefix", [prefix, text]:
            return " ".join(prefix + word for word in text.split())
        case "addsuffix", [suffix, text]:
            return " ".join(word + suffix for word in text.split())
        case "firstword", [text]:
            return "".join(text.split()[:1])
        case "notdir", [text]:
            return " ".join(posixpath.basename(word) for word in text.split())
        case "sort", [text]:
            return " ".join(sorted(set(text.split())))
    raise MakeError(f"the function `$({name} …)` is not read")


def _split(text: str) -> list[str]:
    """Arguments between commas that stand in no parentheses."""
    parts: list[str] = []
    begin = depth = 0
    for at, letter in enumerate(text):
        depth += (letter in "({") - (letter in ")}")
        if letter == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]
