"""Reads tox's configuration (tox.ini, setup.cfg, pyproject.toml, tox.toml) as settled environments.

Follows tox 4; nothing is executed. Knows the files, not the command line. Folders are given below `ROOT`, which stands for the
folder of the file.
"""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from agent.ci.runners.tox import values as tox_values
from agent.ci.runners.tox.values import ToxError

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
    """One command: its words, and what its end means."""

    words: tuple[str, ...]
    mark: str = ""  # "-": its failure does not count, "!": it is to fail


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment, everything substituted."""

    name: str
    commands: tuple[Line, ...]  # those before, its own, those after
    deps: tuple[str, ...]  # lines as pip reads them in a file
    extras: tuple[str, ...]
    groups: tuple[str, ...]
    set_env: Mapping[str, str]
    change_dir: str
    python: str | None  # "3.12"
    package: bool  # whether the project itself is installed
    notes: tuple[str, ...] = ()


class Config(ABC):
    """One configuration file. `posargs` is None where the command line has no `--`."""

    def __init__(self, posargs: tuple[str, ...] | None, env: Mapping[str, str], python: str | None) -> None:
        self.posargs, self.env, self.python = posargs, env, python
        self.chain: list[str] = []  # what is being substituted, to see a circle
        self.notes: list[str] = []

    @abstractmethod
    def env_list(self) -> list[str]: ...

    @abstractmethod
    def known(self) -> list[str]:
        """Every environment that has a name in the file."""

    @abstractmethod
    def table(self, name: str) -> Mapping[str, str]:
        """A section of another tool, as text ("gh-actions")."""

    @abstractmethod
    def raw(self, env: str, key: str) -> object:
        """What an environment, or one it inherits from, says; None where nothing does."""

    @abstractmethod
    def core(self, key: str) -> object: ...

    @abstractmethod
    def strings(self, env: str, key: str) -> list[str]: ...

    @abstractmethod
    def lines(self, env: str, key: str) -> list[Line]: ...

    @abstractmethod
    def mapping(self, env: str, key: str) -> dict[str, str]: ...

    @abstractmethod
    def text(self, env: str, key: str) -> str: ...

    def environment(self, name: str) -> Environment:
        """Raises `ToxError`."""
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
            self.notes.append("a failing command of it ends it, although it asks to go on")
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
        """What tox itself knows of an environment, by any of its names."""
        folder = f"{ROOT}/.tox/{env}"
        version = python_of(env) or self.python or "3"
        known = {
            "toxinidir": ROOT,
            "tox_root": ROOT,
            "toxworkdir": f"{ROOT}/.tox",
            "work_dir": f"{ROOT}/.tox",
            "temp_dir": f"{ROOT}/.tox/.tmp",
            "distdir": f"{ROOT}/.tox/dist",
            "envname": env,
            "env_name": env,
            "envdir": folder,
            "env_dir": folder,
            "envtmpdir": f"{folder}/tmp",  # noqa: S108 - below the repository
            "env_tmp_dir": f"{folder}/tmp",  # noqa: S108 - below the repository
            "envlogdir": f"{folder}/log",
            "env_log_dir": f"{folder}/log",
            "envpython": f"{folder}/bin/python",
            "env_python": f"{folder}/bin/python",
            "envbindir": f"{folder}/bin",
            "env_bin_dir": f"{folder}/bin",
            "envsitepackagesdir": f"{folder}/lib/python{version}/site-packages",
            "env_site_packages_dir": f"{folder}/lib/python{version}/site-packages",
            "py_dot_ver": version,
            "py_impl": "cpython",
            "homedir": "/tmp",  # noqa: S108 - a word in the sandbox
            "tox_env_name": env,
        }
        return known.get(key)

    def variable(self, env: str, name: str, default: str | None) -> str:
        """`{env:NAME:default}`, which sees what the environment sets."""
        if f"env:{name}" not in self.chain and name not in self.env:
            self.chain.append(f"env:{name}")
            try:
                own = self.mapping(env, "set_env").get(name) if "set_env" not in self.chain else None
            finally:
                self.chain.pop()
            if own is not None:
                return tox_values.literal(own)
        return tox_values.literal(self.env[name]) if name in self.env else default or ""

    def inner(self, env: str, key: str) -> str:
        """The value of another key; circles are refused."""
        if key in self.chain or len(self.chain) > 40:
            raise ToxError(f"its substitutions go in a circle: {' -> '.join([*self.chain[-4:], key])[:120]}")
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
    """One command as tox takes it apart; a leading `-` or `!` is its mark."""
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
    """A key and what else it may be called."""
    return tuple(name for name in (key, _OTHER_NAMES.get(key), _OLD_NAMES.get(key)) if name)


def ini(text: str) -> configparser.ConfigParser:
    """Raises `ToxError`."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as wrong:
        raise ToxError(f"its configuration cannot be read: {str(wrong).splitlines()[0][:120]}") from wrong
    return parser


def toml(text: str) -> dict[str, object]:
    """Raises `ToxError`."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise ToxError(f"its configuration cannot be read: {str(wrong)[:120]}") from wrong
