"""Tools that can fix their own findings, and how a check's command becomes the fixing command.

One row per tool. Make targets, npm scripts and shell scripts are expanded into their commands. Pure: command lines in, command
lines out, in bounded time for any text, as scripts can be hostile. The repository's own options and paths stay as written.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent.ci.project.commands import program
from agent.ci.shell.pieces import commands

DEEPEST = 3  # levels of scripts that call scripts
LONGEST = 64 * 1024  # characters of a script
_NODE = frozenset(
    {"prettier", "eslint", "stylelint", "standard", "markdownlint", "markdownlint-cli2", "biome", "jest", "vitest"}
)
_PACKAGE_MANAGERS = ("npm", "yarn", "pnpm", "bun")
_INNER = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_RULE = re.compile(r"(?P<targets>[\w./ -]+):(?!=)(?P<needs>.*)")
_VARIABLE = re.compile(r"(\w+)[ \t]*[:?]?=[ \t]*(.{0,500})")


@dataclass(frozen=True, slots=True)
class Fix:
    """A command that fixes part of a check: shell text for the check's own folder and environment."""

    tool: str  # "ruff check"
    command: str


@dataclass(frozen=True, slots=True)
class _Tool:
    """A program (with subcommand), the options to drop because they only check, and the options that make it write."""

    name: str
    drop: tuple[str, ...] = ()  # "--format=" takes a value
    add: tuple[str, ...] = ()
    becomes: str = ""  # the subcommand that writes, if it is another one

    @property
    def program(self) -> str:
        return self.name.partition(" ")[0]

    @property
    def subcommand(self) -> str:
        return self.name.partition(" ")[2]


_CHECK_ONLY = ("--check", "--diff")
_TOOLS = (
    # Python
    _Tool(
        "ruff check",
        ("--no-fix", "--diff", "--exit-non-zero-on-fix", "--statistics", "--watch", "--output-format=", "--output-file="),
        ("--fix",),
    ),
    _Tool("ruff format", _CHECK_ONLY),
    _Tool("black", _CHECK_ONLY),
    _Tool("isort", (*_CHECK_ONLY, "--check-only", "-c")),
    _Tool("autopep8", ("--diff", "-d", "--exit-code"), ("--in-place",)),
    _Tool("yapf", ("--diff", "-d", "--quiet", "-q"), ("--in-place",)),
    _Tool("docformatter", ("--check", "-c"), ("--in-place",)),
    _Tool("autoflake", ("--check", "-c", "--check-diff", "-cd", "--stdout"), ("--in-place",)),
    _Tool("pyupgrade"),
    _Tool("add-trailing-comma"),
    _Tool("reorder-python-imports"),
    _Tool("pyproject-fmt", ("--check", "-n")),
    _Tool("mdformat", ("--check",)),
    _Tool("djlint", ("--check", "--lint"), ("--reformat",)),
    _Tool("codespell", (), ("--write-changes",)),
    _Tool("sqlfluff lint", ("--format=", "-f="), becomes="fix"),
    _Tool("pre-commit run"),
    # The web
    _Tool("prettier", ("--check", "-c", "--list-different", "-l"), ("--write",)),
    _Tool("eslint", (), ("--fix",)),
    _Tool("stylelint", (), ("--fix",)),
    _Tool("standard", (), ("--fix",)),
    _Tool("markdownlint", (), ("--fix",)),
    _Tool("markdownlint-cli2", (), ("--fix",)),
    _Tool("biome check", (), ("--write",)),
    _Tool("biome ci", (), ("--write",), becomes="check"),
    _Tool("biome format", (), ("--write",)),
    _Tool("biome lint", (), ("--write",)),
    # Others
    _Tool("gofmt", ("-l", "-d", "-e"), ("-w",)),
    _Tool("gofumpt", ("-l", "-d", "-e"), ("-w",)),
    _Tool("goimports", ("-l", "-d", "-e"), ("-w",)),
    _Tool("rustfmt", ("--check",)),
    _Tool("cargo fmt", ("--check",)),
    _Tool("cargo clippy", (), ("--fix", "--allow-dirty", "--allow-no-vcs")),
    _Tool("clang-format", ("--dry-run", "-n", "-Werror", "--Werror"), ("-i",)),
    _Tool("shfmt", ("-d", "-l", "--diff", "--list"), ("-w",)),
    _Tool("taplo fmt", _CHECK_ONLY),
    _Tool("taplo format", _CHECK_ONLY),
    _Tool("terraform fmt", ("-check", "-diff")),
    _Tool("rubocop", (), ("--autocorrect",)),
)
# How test runners update snapshots: `--snapshot-update` is from syrupy and pytest-snapshot.
_RECORDERS = (
    _Tool("pytest", (), ("--snapshot-update",)),
    _Tool("jest", ("--ci",), ("-u",)),
    _Tool("vitest", (), ("-u",)),
)
_LAUNCHERS = {"npx": (), "pnpx": (), "bunx": (), "yarn": ("exec", "run", "dlx"), "pnpm": ("exec", "run", "dlx")}


def fixes(command: str, texts: Mapping[str, str]) -> tuple[Fix, ...]:
    """Fixes for the parts of a check's command, in order. `texts` holds the scripts it may call, by path."""
    return _found(command, texts, _TOOLS)


def has_fixer(command: str) -> bool:
    """Does a check's command call such a tool, or a script that might call one?"""
    return any(_fix(words, _TOOLS) or _calls([_bare(word) for word in words]) for words in _simple_commands(command))


def recordings(command: str, texts: Mapping[str, str]) -> tuple[Fix, ...]:
    """Commands that update the snapshots of a check's tests."""
    return _found(command, texts, _RECORDERS)


def _found(command: str, texts: Mapping[str, str], tools: tuple[_Tool, ...]) -> tuple[Fix, ...]:
    return tuple(dict.fromkeys(fix for words in _commands(command, texts, DEEPEST) if (fix := _fix(words, tools)) is not None))


def _commands(text: str, texts: Mapping[str, str], depth: int) -> Iterator[list[str]]:
    """The simple commands of shell text as words (still quoted); calls of scripts are replaced by the scripts' commands."""
    for words in _simple_commands(text):
        inner = _called([_bare(word) for word in words], texts) if depth else ""
        if inner:
            yield from _commands(inner, texts, depth - 1)
        else:
            yield words


def _split(words: list[str]) -> tuple[str, list[str], list[str]]:
    """The program, the words up to it, and its arguments; skips `npx` and other launchers."""
    name, arguments = program([_bare(word) for word in words])
    at = len(words) - len(arguments)
    if name in _LAUNCHERS:
        while at < len(words) and (words[at].startswith("-") or words[at] in _LAUNCHERS[name]):
            at += 1
        if at == len(words):
            return name, words, []
        name, at = _bare(words[at]).rpartition("/")[2], at + 1
    elif name == "npm" and arguments[:1] == ["exec"]:
        at += 2 if arguments[1:2] == ["--"] else 1
        name, at = (_bare(words[at]), at + 1) if at < len(words) else (name, at)
    return name, words[:at], words[at:]


def _fix(words: list[str], tools: tuple[_Tool, ...]) -> Fix | None:
    name, before, arguments = _split(words)
    for tool in tools:
        if tool.program != name.split("@")[0]:
            continue
        at = 0
        if tool.subcommand:
            at = next((n for n, word in enumerate(arguments) if not word.startswith("-")), -1)
            if at < 0 or arguments[at] != tool.subcommand:
                continue
            before = [*before, *arguments[:at], tool.becomes or tool.subcommand]
            arguments = arguments[at + 1 :]
        kept = _without(arguments, tool.drop)
        add = [option for option in tool.add if option not in kept]
        return Fix(tool.name, " ".join([*before, *add, *kept]))
    return None


def _without(arguments: list[str], drop: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        option, equals, _ = argument.partition("=")
        if f"{option}=" in drop:
            if not equals:
                next(rest, "")
        elif argument not in drop:
            kept.append(argument)
    return kept[:-1] if kept[-1:] == ["--"] else kept


def _simple_commands(text: str) -> Iterator[list[str]]:
    """The simple commands of shell text, in order, as words with their quotes; those in `$(…)` come first.

    Redirections are dropped, so that the output can be read.
    """
    text = text[:LONGEST]
    for inner in _INNER.finditer(text):  # `test -z "$(gofmt -l .)"`
        yield from _simple_commands(inner[1] or inner[2] or "")
    yield from (list(piece.raw or piece.words) for piece in commands(text))


def _bare(word: str) -> str:
    """The word without its quotes."""
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return word


def _calls(words: list[str]) -> bool:
    """Does a command only run a script: make, a package manager, a shell script?"""
    name, _ = program(words)
    return name in ("make", *_PACKAGE_MANAGERS) or name.endswith(".sh")


def _called(words: list[str], texts: Mapping[str, str]) -> str:
    """The shell text that a command runs through a make target, a package.json script or a shell script; else "".

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
    """The script with `npx` before Node programs: outside npm they are not on the PATH."""
    return "\n".join(
        " ".join(["npx", "--no-install", *words] if _bare(words[0]) in _NODE else words) for words in _simple_commands(script)
    )
