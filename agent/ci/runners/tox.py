"""Follows a tox command line: which environments it would run, and their commands in the one prepared environment."""

from __future__ import annotations

import itertools
import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.ci.project.install_commands import installs, merge
from agent.ci.runners.context import Again, Followed, Place, Result, Unfollowed
from agent.ci.runners.selection import one_of_each
from agent.ci.runners.shell import from_folder, subshell
from agent.ci.runners.tox.config import ROOT, Config, Environment, Line, ini, python_of, toml
from agent.ci.runners.tox.ini import IniConfig
from agent.ci.runners.tox.toml import TomlConfig
from agent.ci.runners.tox.values import ToxError, names
from agent.ci.shell.words import words as shell_words
from sandbox.base import Packages

_ENVIRONMENTS = 30  # run by one command line
_VALUED = (
    *(
        "-e",
        "-c",
        "--conf",
        "--root",
        "--workdir",
        "-m",
        "-f",
        "-x",
        "--override",
        "--result-json",
        "--installpkg",
        "--hashseed",
    ),
    *("--parallel-live-timeout", "--discover", "--skip-env", "--runner", "--default-runner", "--force-dep", "--colored"),
)
_SITE = "$(python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
_RUNS = ("run", "r", "run-parallel", "p", "legacy", "le")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command line asks for."""

    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    factors: tuple[str, ...] = ()
    posargs: tuple[str, ...] | None = None
    file: str = ""
    only_install: bool = False
    executes: bool = False  # `tox exec -e x -- command`
    skips_package: bool = False


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "tox"."""
    asked = _asked(words[1:])
    if isinstance(asked, Unfollowed):
        return asked
    try:
        config = read_config(place, asked.file, asked.posargs)
        if config is None:
            return Unfollowed("there is no configuration of tox")
        chosen, notes = _chosen(config, asked, place)
        environments = [config.environment(name) for name in chosen]
    except (ToxError, RecursionError) as wrong:
        return Unfollowed(str(wrong) or "its configuration is nested too deeply")
    if not environments:
        return Unfollowed("it has no environment to run" + (f" named {', '.join(asked.names)[:80]}" if asked.names else ""))
    folder = posixpath.dirname(asked.file) if asked.file else ""
    home = place.moved(folder or ".")
    if asked.executes:
        executed = (Line(asked.posargs or ()),)
        environments = [replace(environment, commands=executed) for environment in environments]
    parts = [_environment(environment, asked, home, again) for environment in environments]
    for part in parts:
        notes += [note for note in part.notes if note not in notes]
    packages = Packages()
    for part in parts:
        packages = merge(packages, part.packages)
    python = next((part.python for part in parts if part.python), None)
    if len(parts) == 1:
        return replace(parts[0], packages=packages, notes=tuple(notes))
    texts = [subshell(part.command, place.added(part.env), from_folder(place.cwd, part.cwd)) for part in parts if part.command]
    return Followed("\n".join(texts), packages, place.env, place.cwd, python, tuple(notes))


def read_config(place: Place, file: str = "", posargs: tuple[str, ...] | None = None) -> Config | None:
    """The configuration that tox would take, in its order; None where there is none. Raises `ToxError`."""
    env, python = place.env, place.python
    for name in [file] if file else ["tox.ini", "setup.cfg", "pyproject.toml", "tox.toml"]:
        text = place.text(name)
        if not text:
            continue
        if name.endswith(".toml"):
            content: object = toml(text)
            if posixpath.basename(name) == "pyproject.toml":
                tool = content.get("tool") if isinstance(content, dict) else None
                content = tool.get("tox") if isinstance(tool, dict) else None
            if not isinstance(content, dict):
                continue
            legacy = content.get("legacy_tox_ini")
            if isinstance(legacy, str):
                return IniConfig(ini(legacy), "tox", posargs, env, python)
            return TomlConfig(content, posargs, env, python)
        parser = ini(text)
        if posixpath.basename(name) != "setup.cfg":
            return IniConfig(parser, "tox", posargs, env, python)
        if parser.has_section("tox:tox"):
            return IniConfig(parser, "tox:tox", posargs, env, python)
    return None


def _asked(arguments: Sequence[str]) -> _Asked | Unfollowed:
    options, dashes, rest = list(arguments), "", list[str]()
    if "--" in options:
        at = options.index("--")
        options, dashes, rest = options[:at], "--", options[at + 1 :]
    found: dict[str, list[str]] = {}
    plain: list[str] = []
    words = iter(options)
    for word in words:
        option, equals, value = word.partition("=")
        if word in _VALUED:
            found.setdefault(word, []).append(next(words, ""))
        elif equals and option in _VALUED:
            found.setdefault(option, []).append(value)
        elif re.match(r"-[ecmf][^-]", word) and not word.startswith("--"):
            found.setdefault(word[:2], []).append(word[2:])
        elif word in ("-p", "--parallel", "-s", "--skip-missing-interpreters"):
            following = next(words, None)
            if following in ("auto", "all", "true", "false", "config") or (following or "").isdigit():
                continue
            if following is not None:
                words = itertools.chain([following], words)
        elif word.startswith("-"):
            found.setdefault(option, []).append(value)
        else:
            plain.append(word)
    subcommand = plain[0] if plain else "run"
    if subcommand in ("exec", "e"):
        executes = True
    elif subcommand in _RUNS:
        executes = False
    elif subcommand in ("list", "l", "config", "c", "devenv", "d", "depends", "de", "quickstart", "q", "schema"):
        return Unfollowed(f"`tox {subcommand}` runs no tests")
    else:
        # Before tox 4, and still: what is left over are arguments for the commands.
        executes, dashes, rest = False, "--", [*plain, *rest]
    return _Asked(
        names=tuple(name for value in found.get("-e", []) for name in (names(value) if _is_list(value) else [value])),
        labels=tuple(found.get("-m", [])),
        factors=tuple(found.get("-f", [])),
        posargs=tuple(rest) if dashes else None,
        file=next(iter([*found.get("-c", []), *found.get("--conf", [])]), ""),
        only_install="--notest" in found,
        executes=executes,
        skips_package="--skip-pkg-install" in found,
    )


def _is_list(value: str) -> bool:
    try:
        return bool(names(value))
    except ToxError:
        return False


def _chosen(config: Config, asked: _Asked, place: Place) -> tuple[list[str], list[str]]:
    """The environments to run, and notes on those that are left out."""
    if asked.names and asked.names != ("ALL",):
        return list(asked.names)[:_ENVIRONMENTS], []
    if asked.labels:
        labels = config.core("labels")
        listed = dict(labels) if isinstance(labels, dict) else _colon_table(labels)
        wanted = [
            name
            for label in asked.labels
            for name in (listed[label] if isinstance(listed.get(label), list) else names(str(listed.get(label, ""))))
        ]
        wanted += [
            name for name in config.known() if set(asked.labels) & set(config.strings(name, "labels")) and name not in wanted
        ]
        return wanted[:_ENVIRONMENTS], []
    listed_names = config.known() if asked.names or asked.factors else config.env_list() or ["py"]
    if asked.factors:
        factors = {factor for group in asked.factors for factor in group.split("-")}
        return [name for name in listed_names if factors <= set(name.split("-"))][:_ENVIRONMENTS], []
    if not asked.names and (toxenv := place.env.get("TOXENV")):
        return names(toxenv)[:_ENVIRONMENTS], []
    if not asked.names and place.python and (mapped := _mapped(config, listed_names, place)) is not None:
        return mapped[:_ENVIRONMENTS], []
    return _one_python(listed_names, place.python)


def _mapped(config: Config, listed: list[str], place: Place) -> list[str] | None:
    """What tox-gh-actions (factors) or tox-gh (names) runs for a Python; None where neither is configured."""
    python = place.python or ""
    pairs = _colon_table(config.table("gh").get("python", ""), "=:")
    if pairs:
        return names(pairs.get(python, ""))
    table = config.table("gh-actions")
    pairs = _colon_table(table.get("python", ""))
    if not pairs:
        return None
    groups = [names(pairs.get(python) or pairs.get(python.split(".")[0], ""))]
    for variable, text in config.table("gh-actions:env").items():
        value = place.env.get(variable.upper(), place.env.get(variable))
        if value is not None and value in (choices := _colon_table(text)):
            groups.append(names(choices[value]))
    wanted = [set("-".join(parts).split("-")) for parts in itertools.product(*groups)]
    return [name for name in listed if any(factors <= set(name.split("-")) for factors in wanted)]


def _colon_table(text: object, separators: str = ":") -> dict[str, str]:
    found: dict[str, str] = {}
    for line in str(text or "").split("\n"):
        parts = re.split(f"[{separators}]", line, maxsplit=1)
        if len(parts) == 2 and parts[0].strip():
            found[parts[0].strip()] = parts[1].strip()
    return found


def _one_python(listed: list[str], python: str | None) -> tuple[list[str], list[str]]:
    kinds = [("-".join(factor for factor in name.split("-") if python_of(factor) is None), python_of(name)) for name in listed]
    chosen, left_out = one_of_each(listed, kinds, python)
    notes = [f"environments of tox for other Pythons are left out: {left_out}"] if left_out else []
    if len(chosen) > _ENVIRONMENTS:
        notes.append(f"only the first {_ENVIRONMENTS} environments of tox are followed")
    return chosen[:_ENVIRONMENTS], notes


def _environment(environment: Environment, asked: _Asked, home: Place, again: Again) -> Followed:
    """One environment; `home` is where the configuration lies."""
    cwd = _relative(environment.change_dir, "")
    inside = home.moved(cwd)
    back = posixpath.relpath(home.cwd, inside.cwd)
    env = {name: _relative_value(value, back, environment.name) for name, value in environment.set_env.items()}
    place = replace(inside.with_env(env), python=environment.python or home.python)
    lines = [] if asked.only_install else [_shell(line, back, environment.name) for line in environment.commands]
    scratch = f".tox/{environment.name}/tmp"  # noqa: S108 - below the repository
    if any(scratch in word for line in environment.commands for word in line.words):
        lines.insert(0, f"mkdir -p {shlex.quote(posixpath.join(back, scratch))}")
    inner = again("\n".join(lines), place)
    packages = merge(_packages(environment, home, asked), inner.packages)
    notes = (*(f"tox environment {environment.name}: {note}" for note in environment.notes), *inner.notes)
    return replace(inner, packages=packages, python=environment.python or inner.python, notes=notes)


def _shell(line: Line, back: str, env: str) -> str:
    """Its words for a shell, with nothing left for the shell to expand."""
    text = " ".join(_quoted(word, back, env) for word in line.words)
    if line.mark == "-":
        return f"{text} || true"
    return f"if {text}; then exit 1; fi" if line.mark == "!" else text


def _quoted(word: str, back: str, env: str) -> str:
    own = f"{ROOT}/.tox/{env}"
    if word.startswith(f"{own}/bin/"):
        return shlex.quote(word.removeprefix(f"{own}/bin/"))
    parts = re.split(rf"{re.escape(own)}/lib/python[\d.]+/site-packages", word)
    return f'"{_SITE}"'.join(shlex.quote(_relative_value(part, back, env)) if part or len(parts) == 1 else "" for part in parts)


def _relative_value(value: str, back: str, env: str) -> str:
    """Paths below the configuration's folder as seen from the command's folder."""
    value = value.replace(f"{ROOT}/.tox/{env}/bin/", "")
    return value.replace(f"{ROOT}/", "" if back == "." else f"{back}/").replace(ROOT, back)


def _relative(path: str, otherwise: str) -> str:
    return posixpath.relpath(path, ROOT) if path == ROOT or path.startswith(f"{ROOT}/") else otherwise or "."


def _packages(environment: Environment, home: Place, asked: _Asked) -> Packages:
    found = Packages(groups=environment.groups)
    for line in environment.deps:
        line = _relative_value(line, ".", environment.name)
        if line.startswith("-") or re.match(r"\.{0,2}/|\.(?:$|\[)", line):
            installed = installs(["pip", "install", *shell_words(line)])
            found = found if installed is None else merge(found, installed)
        elif "://" not in line:
            found = merge(found, Packages(requirements=(line,)))
    if environment.package and not asked.skips_package:
        extras = f"[{','.join(environment.extras)}]" if environment.extras else ""
        found = merge(Packages(projects=(f".{extras}",)), found)
    return home.packages(replace(found, python=environment.python))
