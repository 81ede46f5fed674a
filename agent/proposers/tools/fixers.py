"""Tools that can fix their own findings, and how a check's command becomes the fixing command.

One row per tool. Pure: command lines in, command lines out. The repository's own options and paths stay as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent.ci.project.commands import program
from agent.proposers.tools.scripts import bare, called, calls, simple_commands

DEEPEST = 3  # scripts that call scripts


@dataclass(frozen=True, slots=True)
class Fix:
    """A command that fixes part of a check: shell text for the check's own folder and environment."""

    tool: str  # "ruff check"
    command: str
    bolder: str = ""  # the same tool with its unsafe fixes; "" if it has none


@dataclass(frozen=True, slots=True)
class _Tool:
    """The program (and subcommand), the options of its check mode to drop, and those that make it write."""

    name: str
    drop: tuple[str, ...] = ()  # "--format=" takes a value
    add: tuple[str, ...] = ()
    bolder: tuple[str, ...] = ()
    becomes: str = ""  # another subcommand

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
        ("--unsafe-fixes",),
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
    """Does a check's command name such a tool, or a script that might?"""
    return any(_fix(words, _TOOLS) or calls([bare(word) for word in words]) for words in simple_commands(command))


def recordings(command: str, texts: Mapping[str, str]) -> tuple[Fix, ...]:
    """Commands that update the snapshots of a check's tests."""
    return _found(command, texts, _RECORDERS)


def _found(command: str, texts: Mapping[str, str], tools: tuple[_Tool, ...]) -> tuple[Fix, ...]:
    return tuple(dict.fromkeys(fix for words in _commands(command, texts, DEEPEST) if (fix := _fix(words, tools)) is not None))


def _commands(text: str, texts: Mapping[str, str], depth: int) -> Iterator[list[str]]:
    """The simple commands of shell text as words (still quoted); calls of scripts are replaced by the scripts' commands."""
    for words in simple_commands(text):
        inner = called([bare(word) for word in words], texts) if depth else ""
        if inner:
            yield from _commands(inner, texts, depth - 1)
        else:
            yield words


def _split(words: list[str]) -> tuple[str, list[str], list[str]]:
    """The program, the words up to it, and its arguments; looks behind `npx` and other launchers."""
    name, arguments = program([bare(word) for word in words])
    at = len(words) - len(arguments)
    if name in _LAUNCHERS:
        while at < len(words) and (words[at].startswith("-") or words[at] in _LAUNCHERS[name]):
            at += 1
        if at == len(words):
            return name, words, []
        name, at = bare(words[at]).rpartition("/")[2], at + 1
    elif name == "npm" and arguments[:1] == ["exec"]:
        at += 2 if arguments[1:2] == ["--"] else 1
        name, at = (bare(words[at]), at + 1) if at < len(words) else (name, at)
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
        bolder = [option for option in tool.bolder if option not in kept]
        return Fix(
            tool.name,
            " ".join([*before, *add, *kept]),
            " ".join([*before, *add, *bolder, *kept]) if bolder else "",
        )
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
