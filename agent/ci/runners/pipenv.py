"""Follows pipenv: `pipenv run …` with the scripts of its Pipfile, `pipenv install --dev` by its lock file or its Pipfile."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent.ci import locked
from agent.ci.project.install_commands import merge
from agent.ci.runners import manifest, named_scripts
from agent.ci.runners.context import Again, Followed, Place, Result, Unfollowed
from agent.ci.runners.manifest import names, split_options
from agent.ci.runners.poetry import requirement
from agent.ci.runners.tox.config import toml
from agent.ci.runners.tox.values import ToxError
from agent.ci.tables import as_table, strings
from sandbox.base import Packages

_VALUED = (
    "--python",
    "--categories",
    "-r",
    "--requirements",
    "-i",
    "--index",
    "--pypi-mirror",
    "-e",
    "--editable",
    "--extra-pip-args",
)


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "pipenv"."""
    _, rest = split_options(list(words[1:]), _VALUED)
    try:
        pipfile = toml(place.text("Pipfile"))
    except ToxError:
        return Unfollowed("its Pipfile cannot be read")
    match rest:
        case ["run", *command] if command:
            scripts = as_table(pipfile.get("scripts"))
            if command[0] in scripts:
                return named_scripts.run(
                    named_scripts.Tables(scripts, steps=place.steps, hooks=None), command[0], command[1:], place, again
                )
            return again(shlex.join(command), place)
        case ["install" | "sync" | "update", *arguments]:
            return _install(arguments, pipfile, place)
        case ["lock" | "verify" | "check" | "graph" | "requirements" | "clean" | "uninstall", *_]:
            return Followed("", Packages(), place.env, place.cwd)
    return None


def _install(arguments: list[str], pipfile: Mapping[str, object], place: Place) -> Followed:
    options: dict[str, list[str]] = {}
    named: list[str] = []
    rest = arguments
    while rest:
        more, rest = split_options(rest, _VALUED)
        for option, values in more.items():
            options.setdefault(option, []).extend(values)
        named += rest[:1]
        rest = rest[1:]
    told = str(as_table(pipfile.get("requires")).get("python_version") or "")
    python = next((match[0] for text in [*options.get("--python", []), told] if (match := re.match(r"3\.\d{1,2}", text))), None)
    develop = "--dev" in options or "-d" in options
    sections = names(options.get("--categories", [])) or ["packages", *(["dev-packages"] if develop else [])]
    found = Packages(
        requirements=(*named,),
        requirement_files=(*options.get("-r", []), *options.get("--requirements", [])),
        projects=tuple(path for path in [*options.get("-e", []), *options.get("--editable", [])] if "://" not in path),
    )
    notes: tuple[str, ...] = ()
    if (text := place.text("Pipfile.lock")) and not named and "--skip-lock" not in options:
        of_lock = {"packages": "default", "dev-packages": "develop"}
        wanted = [of_lock.get(section, section) for section in sections]
        pins, notes = manifest.locked(lambda: locked.from_pipenv(text, wanted, python or place.python))
        found = merge(found, pins)
    for section in sections:
        for name, given in as_table(pipfile.get(section)).items():
            path = given.get("path") if isinstance(given, dict) else None
            if isinstance(path, str):
                extras = strings(given.get("extras")) if isinstance(given, dict) else []
                found = merge(found, Packages(projects=(path + (f"[{','.join(extras)}]" if extras else ""),)))
            elif not text and (one := requirement(name, given)) is not None:
                found = merge(found, Packages(requirements=(one,)))
            elif not text:
                notes = (*notes, f"{name[:60]} is fetched from elsewhere and left out")
    return Followed("", replace(place.packages(found), python=python), place.env, place.cwd, python, notes)
