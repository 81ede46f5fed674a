"""Follows `make TARGET`: the recipes of the target and of what it needs, in order, with variables expanded.

A subset of GNU make, compared with the real `make -n` in its test. Files count as out of date. What is not supported
(`$(shell …)`, pattern rules, `define`) is refused where a wanted target needs it, and noted elsewhere.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed
from agent.ci.runners.make.values import Variables, assign, expand, fits, raw
from agent.ci.runners.options import separate_options
from agent.ci.runners.subshells import grouped, isolated, joined

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


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    options, plain = separate_options(words[1:], _VALUED)
    assigned = {word: re.match(r"^([\w.-]+)[:?]?=(.*)$", word, re.DOTALL) for word in plain}
    given = {found[1]: found[2] for found in assigned.values() if found}
    targets = [word for word, found in assigned.items() if not found]
    for folder in options.values("-C", "--directory"):
        context = context.moved(folder)
    files = options.values("-f", "--file", "--makefile")
    name = next((name for name in files or _FILES if context.text(name)), None)
    if name is None:
        raise Unfollowed(f"there is no {' or '.join(files or ['Makefile'])} in {context.cwd}")
    makefile = _read(context.text(name), context, given)
    recipe = _recipes(makefile, targets or [makefile.first], context)
    exported = {name: expand(f"$({name})", makefile.variables, {}) for name in makefile.exported | given.keys()}
    inside = context.with_env({name: value for name, value in exported.items() if "\n" not in value})
    ignores_errors = options.has("-i", "--ignore-errors")
    return joined(
        [_line(line, "-" in marks or ignores_errors, inside, again) for marks, line in recipe], inside, makefile.notes
    )


def _line(line: str, ignores_errors: bool, context: ShellContext, again: Again) -> Followed:
    """A line of a recipe, which has a shell of its own."""
    found = again(line, context)
    if not found.command or not ignores_errors:
        return found
    text = isolated(found, context)
    text = grouped(text) if "\n" in text else text
    return replace(found, command=f"{text} || true", env=context.env, cwd=context.cwd)


def _read(text: str, context: ShellContext, given: dict[str, str]) -> _Makefile:
    variables = {name: (value, True) for name, value in context.env.items()}
    variables |= {name: (value, False) for name, value in given.items()}
    makefile = _Makefile(Variables(variables, frozenset(given), context.steps))
    current: list[_Rule] = []
    branches: list[bool] = []  # of each conditional around: whether its lines count
    defining = False
    lines = _joined(text)
    context.steps.take(len(lines) // _CHEAP)
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
            makefile.notes.append("a `define` of the Makefile is not supported")
        elif _conditional(line, branches, makefile) or not line or not all(branches):
            continue
        elif line.startswith(("include ", "-include ", "sinclude ")):
            makefile.notes.append(f"the Makefile includes {line.split(None, 1)[1][:80]}, which is not supported")
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
            raise Unfollowed(f"the condition `{line[:60]}` is too long")
        found = re.match(r"""^\((.*),(.*)\)$|^["'](.*)["']\s+["'](.*)["']$""", rest.strip())
        if found is None:
            raise Unfollowed(f"the condition `{line[:60]}` is not supported")
        one, other = [part for part in found.groups() if part is not None]
        same = expand(one, makefile.variables, {}).strip() == expand(other, makefile.variables, {}).strip()
        branches.append(same is (word == "ifeq"))
    elif word in ("ifdef", "ifndef"):
        branches.append((raw(rest.strip(), makefile.variables) != "") is (word == "ifdef"))
    elif word == "else" and branches:
        branches[-1] = not branches[-1]
        if rest.strip():
            raise Unfollowed("`else if` of its conditionals is not supported")
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
        makefile.notes.append(f"the variable {found[1]} of one target alone is not supported")
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
        raise Unfollowed("it has too many rules")
    return made


def _recipes(makefile: _Makefile, targets: list[str], context: ShellContext) -> list[tuple[str, str]]:
    """The lines to run, with their marks, in make's order."""
    lines: list[tuple[str, str]] = []
    done: set[str] = set()

    def make(target: str, above: tuple[str, ...]) -> None:
        if target in done or target in above:
            return  # make drops a circular need too
        if len(done) > _TARGETS or len(above) > _NESTED:
            raise Unfollowed("it has too many targets, or they need each other too deeply")
        rule = makefile.rules.get(target)
        if rule is None:
            if context.has(target):
                return
            pattern = next((name for name in makefile.rules if "%" in name and fits(name, target)), None)
            if pattern is not None:
                raise Unfollowed(f"the pattern rule `{pattern}` is not supported")
            raise Unfollowed(f"it has no target `{target[:80]}`")
        for need in rule.needs:
            make(need, (*above, target))
        done.add(target)
        # A file that is there and has no newer needs is not made again.
        if target not in makefile.phony and context.has(target) and not any(need in done for need in rule.needs):
            return
        own = {"@": target, "<": rule.needs[0] if rule.needs else "", "^": " ".join(dict.fromkeys(rule.needs))}
        for line in rule.recipe:
            text = expand(line, makefile.variables, {**own, "?": own["^"], "+": " ".join(rule.needs)}).strip()
            marks = re.match(r"^[@\-+\s]*", text)
            text = text[marks.end() :] if marks else text
            if text:
                lines.append((marks[0] if marks else "", text))
            if len(lines) > 10 * _TARGETS:
                raise Unfollowed("its recipes are too long")

    for target in targets:
        make(target, ())
    return lines
