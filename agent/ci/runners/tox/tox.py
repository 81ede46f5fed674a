"""Follows a tox command line: which environments it runs, and their commands in the one prepared environment."""

from __future__ import annotations

import configparser
import itertools
import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from agent.ci.project.install_commands import installs, merge
from agent.ci.project.tables import read_toml, strings, table_at
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed, one_of_each
from agent.ci.runners.options import CommandOptions, separate_options
from agent.ci.runners.subshells import joined
from agent.ci.runners.tox.config import ROOT, Config, Environment, Line, python_of
from agent.ci.runners.tox.ini import IniConfig
from agent.ci.runners.tox.toml import TomlConfig
from agent.ci.runners.tox.values import names
from agent.ci.shell.words import words as shell_words
from agent.source.ini import read_ini
from sandbox.base import Packages

_ENVIRONMENTS = 30  # maximum for one command line
_VALUED = (
    "-e", "-c", "--conf", "--root", "--workdir", "-m", "-f", "-x", "--override", "--result-json", "--installpkg", "--hashseed",
    "--parallel-live-timeout", "--discover", "--skip-env", "--runner", "--default-runner", "--force-dep", "--colored",
)  # fmt: skip
_OPTIONAL_VALUE = ("-p", "--parallel", "-s", "--skip-missing-interpreters")
_SITE = "$(python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
# The folder of an installed package or module: the checkout's own, where it is installed in place. A folder of the current
# folder is no package because of its name: `-c` would find it by the first entry of the path, "".
_INSTALLED = (
    "$(python -c 'import importlib.util as u, os, sys, sysconfig as c; sys.path[:] = filter(None, sys.path); "
    's = u.find_spec("{}"); '
    'print(os.path.dirname(s and next(iter(s.submodule_search_locations or ()), s.origin) or "") or c.get_path("purelib"))\')'
)
_RUNS = ("run", "r", "run-parallel", "p", "legacy", "le")
_EXECUTES = ("exec", "e")  # `tox exec -e x -- command`
_OTHERS = ("list", "l", "config", "c", "devenv", "d", "depends", "de", "quickstart", "q", "schema")


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    at = words.index("--") if "--" in words else len(words)
    posargs = tuple(words[at + 1 :]) if "--" in words else None
    options, plain = _options(words[1:at])
    subcommand = plain[0] if plain else "run"
    if subcommand in _OTHERS:
        raise Unfollowed(f"`tox {subcommand}` runs no tests")
    if subcommand not in (*_RUNS, *_EXECUTES):
        posargs = (*plain, *(posargs or ()))  # as before tox 4: the other words are arguments for the commands
    file = options.value("-c", "--conf")
    config = read_config(context, file, posargs)
    if config is None:
        raise Unfollowed("there is no tox configuration")
    chosen, notes = _select(config, options, context)
    environments = [config.environment(name) for name in chosen]
    if not environments:
        named = ", ".join(options.values("-e"))[:80]
        raise Unfollowed("it has no environment to run" + (f" named {named}" if named else ""))
    if subcommand in _EXECUTES:
        environments = [replace(environment, commands=(Line(posargs or ()),)) for environment in environments]
    home = context.moved(posixpath.dirname(file) or ".")
    return joined([_environment(environment, options, home, again) for environment in environments], context, notes)


def read_config(context: ShellContext, file: str = "", posargs: tuple[str, ...] | None = None) -> Config | None:
    """The first configuration in tox's own order; None if there is none. Raises `Unfollowed`."""
    env, python = context.env, context.python
    for path in [file] if file else ["tox.ini", "setup.cfg", "pyproject.toml", "tox.toml"]:
        text, name = context.text(path), posixpath.basename(path)
        if not text:
            continue
        if name.endswith(".toml"):
            content = read_toml(text)
            if content is None:
                raise Unfollowed("its configuration is not valid TOML")
            if name == "pyproject.toml":
                content = table_at(content, "tool", "tox")
            if not isinstance(legacy := content.get("legacy_tox_ini"), str):
                if content or name != "pyproject.toml":
                    return TomlConfig(content, posargs, env, python)
                continue
            text = legacy
        section = "tox:tox" if name == "setup.cfg" else "tox"
        try:
            parser = read_ini(text, strict=True)
        except configparser.Error as wrong:
            raise Unfollowed(f"its configuration is not valid: {str(wrong).splitlines()[0][:120]}") from wrong
        if name != "setup.cfg" or parser.has_section(section):
            return IniConfig(parser, section, posargs, env, python)
    return None


def _options(arguments: Sequence[str]) -> tuple[CommandOptions, list[str]]:
    words = [
        word
        for before, word in itertools.pairwise(["", *arguments])
        if before not in _OPTIONAL_VALUE or not re.fullmatch(r"auto|all|true|false|config|\d+", word)
    ]
    return separate_options(words, _VALUED)


def _select(config: Config, options: CommandOptions, context: ShellContext) -> tuple[list[str], list[str]]:
    """The environments to run, and notes on those that are left out."""
    wanted = [name for value in options.values("-e") for name in names(value)]
    labels, factors = options.values("-m"), {factor for value in options.values("-f") for factor in value.split("-")}
    everything = wanted == ["ALL"]
    if wanted and not everything:
        return wanted[:_ENVIRONMENTS], []
    if labels:
        table = config.core("labels")
        listed = table if isinstance(table, dict) else _colon_table(table)
        of_labels = [listed.get(label) for label in labels]
        wanted = [name for one in of_labels for name in (strings(one) if isinstance(one, list) else names(str(one or "")))]
        wanted += [name for name in config.known() if set(labels) & set(config.strings(name, "labels"))]
        return list(dict.fromkeys(wanted))[:_ENVIRONMENTS], []
    listed_names = config.known() if everything or factors else config.env_list() or ["py"]
    if factors:
        return [name for name in listed_names if factors <= set(name.split("-"))][:_ENVIRONMENTS], []
    # tox 4 reads each of its options from a variable, too: `-e` from TOX_ENV.
    if not everything and (toxenv := context.env.get("TOX_ENV") or context.env.get("TOXENV")):
        return names(toxenv)[:_ENVIRONMENTS], []
    if not everything and context.python and (mapped := _mapped(config, listed_names, context)) is not None:
        return mapped[:_ENVIRONMENTS], []
    chosen, left_out = one_python(listed_names, context.python)
    notes = [f"tox environments for other Python versions are left out: {left_out}"] if left_out else []
    if len(chosen) > _ENVIRONMENTS:
        notes.append(f"only the first {_ENVIRONMENTS} tox environments are followed")
    return chosen[:_ENVIRONMENTS], notes


def one_python(names: Sequence[str], python: str | None) -> tuple[list[str], str]:
    """Environments for one Python, and the others as text."""
    kinds = [("-".join(factor for factor in name.split("-") if python_of(factor) is None), python_of(name)) for name in names]
    return one_of_each(names, kinds, python)


def _mapped(config: Config, listed: list[str], context: ShellContext) -> list[str] | None:
    """What tox-gh-actions (factors) or tox-gh (names) runs for a Python; None if neither is configured."""
    python = context.python or ""
    pairs = _colon_table(config.table("gh").get("python", ""), "=:")
    if pairs:
        return names(pairs.get(python, ""))
    table = config.table("gh-actions")
    pairs = _colon_table(table.get("python", ""))
    if not pairs:
        return None
    groups = [names(pairs.get(python) or pairs.get(python.split(".")[0], ""))]
    for variable, text in config.table("gh-actions:env").items():
        value = context.env.get(variable.upper(), context.env.get(variable))
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


def _environment(environment: Environment, options: CommandOptions, home: ShellContext, again: Again) -> Followed:
    """Follow one environment; `home` is the folder of the configuration."""
    cwd = _relative(environment.change_dir, "")
    inside = home.moved(cwd)
    back = posixpath.relpath(home.cwd, inside.cwd)
    env = {name: _relative_value(value, back, environment.name) for name, value in environment.set_env.items()}
    context = replace(inside.with_env(env), python=environment.python or home.python)
    lines = [] if options.has("--notest") else [_shell(line, back, environment.name) for line in environment.commands]
    scratch = f".tox/{environment.name}/tmp"  # noqa: S108 - below the repository
    if any(scratch in word for line in environment.commands for word in line.words):
        lines.insert(0, f"mkdir -p {shlex.quote(posixpath.join(back, scratch))}")
    inner = again("\n".join(lines), context)
    if cwd != "." and lines and not any(path.startswith(f"{inside.cwd}/") for path in home.project.paths):
        folder = shlex.quote(cwd)  # tox makes it
        inner = replace(inner, command=f"mkdir -p {folder}\ncd {folder}\n{inner.command}", cwd=home.cwd)
    packages = merge(_packages(environment, home, options), inner.packages)
    urls = [line for line in environment.deps if "://" in line and not line.startswith("-")]
    elsewhere = [f"{line[:80]} is not from a package index, so it is left out" for line in urls]
    notes = (*(f"tox environment {environment.name}: {note}" for note in (*environment.notes, *elsewhere)), *inner.notes)
    return replace(inner, packages=packages, python=environment.python or inner.python, notes=notes)


def _shell(line: Line, back: str, env: str) -> str:
    """The line as shell text, quoted so that the shell expands nothing else."""
    text = " ".join(_quoted(word, back, env) for word in line.words)
    if line.mark == "-":
        return f"{text} || true"
    return f"if {text}; then exit 1; fi" if line.mark == "!" else text


def _quoted(word: str, back: str, env: str) -> str:
    own = f"{ROOT}/.tox/{env}"
    if word.startswith(f"{own}/bin/"):
        return shlex.quote(word.removeprefix(f"{own}/bin/"))
    first, *parts = re.split(rf"{re.escape(own)}/lib/python[\d.]+/site-packages", word)
    text = shlex.quote(_relative_value(first, back, env)) if first or not parts else ""
    for part in parts:
        named = re.match(r"/([A-Za-z_]\w*)(?:\.py)?(?=/|$)", part)
        text += f'"{_INSTALLED.format(named[1]) if named else _SITE}"'
        text += shlex.quote(_relative_value(part, back, env)) if part else ""
    return text


def _relative_value(value: str, back: str, env: str) -> str:
    """Paths below the configuration's folder as seen from the command's folder."""
    value = value.replace(f"{ROOT}/.tox/{env}/bin/", "")
    return value.replace(f"{ROOT}/", "" if back == "." else f"{back}/").replace(ROOT, back)


def _relative(path: str, otherwise: str) -> str:
    return posixpath.relpath(path, ROOT) if path == ROOT or path.startswith(f"{ROOT}/") else otherwise or "."


def _packages(environment: Environment, home: ShellContext, options: CommandOptions) -> Packages:
    found = Packages(groups=environment.groups)
    for line in environment.deps:
        line = _relative_value(line, ".", environment.name)
        if line.startswith("-") or re.match(r"\.{0,2}/|\.(?:$|\[)", line):
            installed = installs(["pip", "install", *shell_words(line)])
            found = found if installed is None else merge(found, installed)
        elif "://" not in line:
            found = merge(found, Packages(requirements=(line,)))
    if environment.package and not options.has("--skip-pkg-install"):
        extras = f"[{','.join(environment.extras)}]" if environment.extras else ""
        found = merge(Packages(projects=(f".{extras}",)), found)
    return home.packages(replace(found, python=environment.python))
