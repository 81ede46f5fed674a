"""Follows pipenv: `pipenv run …` with the scripts of its Pipfile, `pipenv install --dev` by its lock file or its Pipfile."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from agent.ci.project import lockfiles
from agent.ci.project.install_commands import merge
from agent.ci.project.tables import Table, as_table, read_toml, strings
from agent.ci.runners import manifest
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed
from agent.ci.runners.named_scripts import NamedScripts
from agent.ci.runners.options import separate_options, split_options
from agent.ci.runners.poetry import requirement
from sandbox.base import Packages

_VALUED = (
    "--python", "--categories", "-r", "--requirements", "-i", "--index", "--pypi-mirror", "-e", "--editable",
    "--extra-pip-args",
)  # fmt: skip


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    _, rest = split_options(words[1:], _VALUED)
    pipfile = read_toml(context.text("Pipfile"))
    if pipfile is None:
        raise Unfollowed("its Pipfile is not valid TOML")
    match rest:
        case ["run", *command] if command:
            scripts = NamedScripts(as_table(pipfile.get("scripts")), context.steps, hooks=None)
            if command[0] in scripts.commands:
                return scripts.run(command[0], command[1:], context, again)
            return again(shlex.join(command), context)
        case ["install" | "sync" | "update", *arguments]:
            return _install(arguments, pipfile, context)
        case ["lock" | "verify" | "check" | "graph" | "requirements" | "clean" | "uninstall", *_]:
            return context.result()
    return None


def _install(arguments: list[str], pipfile: Table, context: ShellContext) -> Followed:
    options, named = separate_options(arguments, _VALUED)
    required = str(as_table(pipfile.get("requires")).get("python_version") or "")
    wanted = (re.match(r"3\.\d{1,2}", text) for text in [*options.values("--python"), required])
    python = next((match[0] for match in wanted if match), None)
    sections = options.names("--categories") or ["packages", *(["dev-packages"] if options.has("--dev", "-d") else [])]
    found = Packages(
        requirements=tuple(named),
        requirement_files=tuple(options.values("-r", "--requirements")),
        projects=tuple(path for path in options.values("-e", "--editable") if "://" not in path),
    )
    notes: tuple[str, ...] = ()
    if (text := context.text("Pipfile.lock")) and not named and not options.has("--skip-lock"):
        of_lock = {"packages": "default", "dev-packages": "develop"}
        locked = [of_lock.get(section, section) for section in sections]
        pins, notes = manifest.locked(lambda: lockfiles.from_pipenv(text, locked, python or context.python))
        found = merge(found, pins)
    for section in sections:
        for name, given in as_table(pipfile.get(section)).items():
            path = as_table(given).get("path")
            if isinstance(path, str):
                extras = strings(as_table(given).get("extras"))
                found = merge(found, Packages(projects=(path + (f"[{','.join(extras)}]" if extras else ""),)))
            elif not text and (one := requirement(name, given)) is not None:
                found = merge(found, Packages(requirements=(one,)))
            elif not text:
                notes = (*notes, f"{name[:60]} comes from no package index and is left out")
    packages = replace(context.packages(found), python=python)
    return context.result(packages=packages, python=python, notes=notes)
