"""Reads tox's configuration (tox.ini, setup.cfg, pyproject.toml, tox.toml) as environments, with all values substituted.

Follows tox 4; executes nothing. Knows the files, not the command line. `ROOT` stands for the folder of the file.
"""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from agent.ci.runners.context import Unfollowed
from agent.ci.runners.tox import values

ROOT = "/%tox-root%"
_OTHER_NAMES = {
    "set_env": "setenv",
    "change_dir": "changedir",
    "base_python": "basepython",
    "use_develop": "usedevelop",
    "env_list": "envlist",
    "no_package": "skipsdist",
    "ignore_errors": "ignore_errors",
}
_OLD_NAMES = {old: new for new, old in _OTHER_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Line:
    """One command, and how its exit code counts."""

    words: tuple[str, ...]
    mark: str = ""  # "-": its failure is ignored, "!": it must fail


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment, with all values substituted."""

    name: str
    commands: tuple[Line, ...]  # `commands_pre`, `commands`, `commands_post`
    deps: tuple[str, ...]  # lines of a requirements file
    extras: tuple[str, ...]
    groups: tuple[str, ...]
    set_env: Mapping[str, str]
    change_dir: str
    python: str | None  # "3.12"
    package: bool  # whether the project itself is installed
    notes: tuple[str, ...] = ()


class Config(ABC):
    """One configuration file. `posargs` is None if the command line has no `--`."""

    def __init__(self, posargs: tuple[str, ...] | None, env: Mapping[str, str], python: str | None) -> None:
        self.posargs, self.env, self.python = posargs, env, python
        self.chain: list[str] = []  # the keys being substituted, to detect a cycle
        self.notes: list[str] = []

    @abstractmethod
    def env_list(self) -> list[str]: ...

    @abstractmethod
    def known(self) -> list[str]:
        """Every environment that the file names."""

    @abstractmethod
    def table(self, name: str) -> Mapping[str, str]:
        """A section of another tool, as text ("gh-actions")."""

    @abstractmethod
    def raw(self, env: str, key: str) -> object:
        """The value of a key in an environment, or in one it inherits from."""

    @abstractmethod
    def core(self, key: str) -> object: ...

    @abstractmethod
    def settled(self, env: str, key: str) -> object:
        """The value of a key, substituted."""

    @abstractmethod
    def mapping(self, env: str, key: str) -> dict[str, str]: ...

    @abstractmethod
    def reference(self, inside: str, env: str) -> str | None:
        """The value of `{inside}` that names a key."""

    def text(self, env: str, key: str) -> str:
        found = self.settled(env, key)
        return "\n".join(map(str, found)) if isinstance(found, list) else "" if found is None else str(found).strip()

    def strings(self, env: str, key: str) -> list[str]:
        found = self.settled(env, key)
        items = (
            map(str, found) if isinstance(found, list) else re.split("\n" if key == "deps" else "[\n,]", self.text(env, key))
        )
        return [item.strip() for item in items if item.strip()]

    def lines(self, env: str, key: str) -> list[Line]:
        found = self.settled(env, key)
        if isinstance(found, list):
            return [marked([str(word) for word in row]) for row in found if isinstance(row, list)]
        return [command_line(line) for line in self.text(env, key).split("\n") if line.strip()]

    def value(self, inside: str, env: str) -> str | None:
        """The value of `{inside}`; None if it stays as it is."""
        kind, colon, rest = inside.partition(":")
        if inside in (":", "/"):
            return inside
        if kind == "posargs":
            return rest if self.posargs is None else values.literal(shlex.join(self.posargs))
        if colon and kind == "env":
            name, _, default = rest.partition(":")
            return self.variable(env, name, default)
        if colon and kind == "tty":
            return rest.partition(":")[2]
        if colon and kind == "glob":
            self.notes.append(f"the pattern {rest[:60]} is not expanded")
            return values.literal(rest)
        return self.reference(inside, env)

    def environment(self, name: str) -> Environment:
        """Raises `Unfollowed`."""
        self.notes = []
        packaged = not (_truth(self.core("no_package")) or _truth(self.text(name, "skip_install")))
        kind = self.text(name, "package")
        develop = _truth(self.text(name, "use_develop")) or kind in ("editable", "editable-legacy")
        change_dir = self.text(name, "change_dir") or ROOT
        if not change_dir.startswith("/"):
            change_dir = f"{ROOT}/{change_dir}"
        set_env = self.mapping(name, "set_env")
        commands = [
            line for key in ("commands_pre", "commands", "commands_post") for line in self.lines(name, key) if line.words
        ]
        if _truth(self.text(name, "ignore_errors")):
            self.notes.append("`ignore_errors` is not supported: the first failing command ends the environment")
        return Environment(
            name=name,
            commands=tuple(commands),
            deps=tuple(re.sub(r"^(-[rce])(?=[^\s-])", r"\1 ", dep) for dep in self.strings(name, "deps") if dep),
            extras=tuple(extra for item in self.strings(name, "extras") for extra in re.split(r"[,\s]+", item) if extra),
            groups=tuple(group for item in self.strings(name, "dependency_groups") for group in item.split() if group),
            set_env=set_env,
            change_dir=change_dir.rstrip("/") or "/",
            python=_version(self.text(name, "base_python").split(",")[0].strip()) or python_of(name),
            package=(packaged and kind != "skip") or (develop and not _truth(self.text(name, "skip_install"))),
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def constant(self, env: str, key: str) -> str | None:
        """A value that tox itself defines for an environment, by any of its names."""
        folder = f"{ROOT}/.tox/{env}"
        version = python_of(env) or self.python or "3"
        known = {
            "toxinidir": ROOT,
            "toxroot": ROOT,
            "toxworkdir": f"{ROOT}/.tox",
            "workdir": f"{ROOT}/.tox",
            "tempdir": f"{ROOT}/.tox/.tmp",
            "distdir": f"{ROOT}/.tox/dist",
            "envname": env,
            "toxenvname": env,
            "envdir": folder,
            "envtmpdir": f"{folder}/tmp",  # noqa: S108 - below the repository
            "envlogdir": f"{folder}/log",
            "envpython": f"{folder}/bin/python",
            "envbindir": f"{folder}/bin",
            "envsitepackagesdir": f"{folder}/lib/python{version}/site-packages",
            "pydotver": version,
            "pyimpl": "cpython",
            "homedir": "/tmp",  # noqa: S108 - in the sandbox
        }
        return known.get(key.replace("_", ""))

    def variable(self, env: str, name: str, default: str | None) -> str:
        """`{env:NAME:default}`, from the environment's own variables too."""
        if f"env:{name}" not in self.chain and name not in self.env:
            self.chain.append(f"env:{name}")
            try:
                own = self.mapping(env, "set_env").get(name) if "set_env" not in self.chain else None
            finally:
                self.chain.pop()
            if own is not None:
                return values.literal(own)
        return values.literal(self.env[name]) if name in self.env else default or ""

    def inner(self, env: str, key: str) -> str:
        """The value of another key. Raises `Unfollowed` on a cycle."""
        if key in self.chain or len(self.chain) > 40:
            raise Unfollowed(f"its substitutions are circular: {' -> '.join([*self.chain[-4:], key])[:120]}")
        self.chain.append(key)
        try:
            text = self.text(env, key)
        finally:
            self.chain.pop()
        return f"{ROOT}/{text}" if key in other_names("change_dir") and not text.startswith("/") else text


def python_of(name: str) -> str | None:
    """The Python that the name of an environment asks for: "py311-django" → "3.11"."""
    for factor in name.split("-"):
        if found := _version(factor):
            return found
    return None


def _version(text: str) -> str | None:
    found = re.fullmatch(r"(?:c?python|py)?([23])\.?(\d{1,2})?t?(?:\.\d+)?", text)
    return f"{found[1]}.{found[2]}" if found and found[2] else None


def _truth(value: object) -> bool:
    return value is True or str(value).strip().lower() in ("true", "1", "yes", "on")


def command_line(text: str) -> Line:
    """One command as tox splits it; a leading `-` or `!` is its mark."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        words = text.split()
    return marked(words)


def marked(words: list[str]) -> Line:
    if words and words[0] in ("-", "!"):
        return Line(tuple(words[1:]), words[0])
    if words and words[0][:1] in ("-", "!") and len(words[0]) > 1:
        return Line((words[0][1:], *words[1:]), words[0][0])
    return Line(tuple(words))


def other_names(key: str) -> tuple[str, ...]:
    """A key and its other names."""
    return tuple(name for name in (key, _OTHER_NAMES.get(key), _OLD_NAMES.get(key)) if name)
