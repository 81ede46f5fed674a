"""Splits shell text into simple commands, and expands make targets, npm scripts and shell scripts into theirs.

Pure, and in bounded time for any text: a repository's scripts can be hostile.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping

from agent.ci.project.commands import program

LONGEST = 64 * 1024  # characters of a script
_NODE = frozenset(
    {"prettier", "eslint", "stylelint", "standard", "markdownlint", "markdownlint-cli2", "biome", "jest", "vitest"}
)
_PACKAGE_MANAGERS = ("npm", "yarn", "pnpm", "bun")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}"})
_OPERATORS = frozenset({"&&", "||", ";", "&", "|", "\n", "(", ")"})
_TOKEN = re.compile(r"""\d*>&\d|&&|\|\||[;&|\n()]|(?:[^\s;&|()"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", re.DOTALL)
_REDIRECTION = re.compile(r"\d*[<>]")
_INNER = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_RULE = re.compile(r"(?P<targets>[\w./ -]+):(?!=)(?P<needs>.*)")
_VARIABLE = re.compile(r"(\w+)[ \t]*[:?]?=[ \t]*(.{0,500})")


def simple_commands(text: str) -> Iterator[list[str]]:
    """The simple commands of shell text, in order, as words with their quotes; those in `$(…)` come first.

    Redirections are left out, so the output is not redirected.
    """
    text = text[:LONGEST].replace("\\\n", " ")
    for inner in _INNER.finditer(text):  # `test -z "$(gofmt -l .)"`
        yield from simple_commands(inner[1] or inner[2] or "")
    words: list[str] = []
    is_target = False  # of a redirection: it is no argument, and a fixing command must not write it
    for token in [*_TOKEN.findall(_COMMENT.sub("", _INNER.sub("", text))), "\n"]:
        if token in _OPERATORS:
            if words:
                yield words
            words, is_target = [], False
        elif is_target:
            is_target = False
        elif _REDIRECTION.match(token):
            is_target = token[-1] in "<>"
        elif not (token in _KEYWORDS and not words):
            words.append(token)


def bare(word: str) -> str:
    """The word without its quotes."""
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return word


def calls(words: list[str]) -> bool:
    """Does a command only run a script: make, a package manager, a shell script?"""
    name, _ = program(words)
    return name in ("make", *_PACKAGE_MANAGERS) or name.endswith(".sh")


def called(words: list[str], texts: Mapping[str, str]) -> str:
    """The shell text behind a command: a make target, a package.json script, a shell script; else "".

    `texts` are files by the path that the command would use.
    """
    name, arguments = program(words)
    plain = [word for word in arguments if not word.startswith("-") and "=" not in word]
    if name == "make":
        makefile = texts.get("Makefile") or texts.get("makefile") or texts.get("GNUmakefile") or ""
        return _made(makefile, plain) if len(makefile) <= LONGEST else ""
    if name in _PACKAGE_MANAGERS:
        wanted = plain[1:2] if plain[:1] in (["run"], ["run-script"]) else plain[:1]
        return _with_npx(_package_script(texts.get("package.json", ""), wanted[0])) if wanted else ""
    return texts.get(name.removeprefix("./"), "") if name.endswith(".sh") else ""


def _made(makefile: str, wanted: list[str]) -> str:
    """The recipes of these targets (by default of the first) and of their prerequisites, each once."""
    rules: dict[str, tuple[list[str], list[str]]] = {}
    variables: dict[str, str] = {}
    recipe: list[str] = []
    for line in makefile.replace("\\\n", " ").split("\n"):
        if line.startswith("\t"):
            recipe.append(line.strip().lstrip("@+-"))
        elif (variable := _VARIABLE.match(line)) is not None:
            variables[variable[1]] = variable[2].strip()
        elif (rule := _RULE.match(line)) is not None:
            recipe = []
            for target in rule["targets"].split():
                rules[target] = (rule["needs"].partition("#")[0].split(), recipe)
    first = next((target for target in rules if not target.startswith(".")), "")
    waiting, seen, out = list(reversed(wanted or [first])), set[str](), list[str]()
    while waiting:
        target = waiting.pop()
        needs, lines = rules.get(target, ([], []))
        ahead = [need for need in needs if need not in seen and need in rules]
        if target not in seen and ahead:
            seen.add(target)
            waiting += [target, *reversed(ahead)]
            continue
        seen.add(target)
        out += [re.sub(r"\$[({](\w+)[)}]", lambda name: variables.get(name[1], name[0]), line[:2000]) for line in lines]
        rules.pop(target, None)
    return "\n".join(out)[:LONGEST]


def _package_script(text: str, name: str) -> str:
    try:
        script = json.loads(text)["scripts"][name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return script if isinstance(script, str) else ""


def _with_npx(script: str) -> str:
    """Node programs get `npx`: outside npm they are not on the PATH."""
    return "\n".join(
        " ".join(["npx", "--no-install", *words] if bare(words[0]) in _NODE else words) for words in simple_commands(script)
    )
