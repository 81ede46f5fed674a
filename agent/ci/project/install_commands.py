"""Reads command lines that install packages: names and paths, never commands. Knows pip and tools with a similar command line.

Also recognizes command lines that set up a machine (system packages, downloads, daemons). They are not run: the sandbox has no
network, and its system packages are fixed.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Collection, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

from agent.ci.project import ecosystems
from agent.ci.shell.words import assignments, is_python, module_of
from sandbox.base import Packages

_FOLLOWED = ("uv", "poetry", "pdm", "pipenv", "rye", "hatch", "tox", "nox")
_PIP_VALUED = (
    "--index-url", "-i", "--extra-index-url", "--find-links", "-f", "--trusted-host", "--target", "-t", "--platform",
    "--group", "--upgrade-strategy", "--only-binary", "--no-binary", "--config-settings", "-C", "--src", "--log",
    "--cache-dir", "--retries", "--timeout", "--python-version", "--abi", "--implementation", "--prefix", "--root",
    "--use-feature", "--progress-bar", "--root-user-action", "--report", "--python", "-p", "--resolution",
    "--prerelease", "--exclude-newer", "--index-strategy", "--keyring-provider", "--link-mode", "--refresh-package",
    "--override", "--build-constraint", "-b",
)  # fmt: skip
_SYSTEM = (
    "sudo", "apt", "apt-get", "aptitude", "dpkg", "add-apt-repository", "yum", "dnf", "microdnf", "apk", "pacman", "zypper",
    "brew", "port", "choco", "winget", "snap", "systemctl", "service", "update-alternatives", "locale-gen", "ldconfig",
    "sysctl", "modprobe", "usermod", "chsh",
)  # fmt: skip
_FETCHES = (
    "curl", "wget", "aria2c", "gh", "aws", "az", "gcloud", "gsutil", "kubectl", "helm", "rsync", "scp", "ssh", "docker",
    "docker-compose", "podman",
)  # fmt: skip
_UPLOADS = ("codecov", "codecovcli", "coveralls", "codacy", "codacy-coverage", "cc-test-reporter", "deepsource")
_GIT = ("clone", "fetch", "pull", "push", "submodule", "lfs", "remote", "ls-remote")
_SINGLE = ("python", "node_version", "as_of")  # fields of packages with one value
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR][a-zA-Z]*$|--recursive$").match
_TO_FOLDER = re.compile(
    r"-[a-zA-Z]*t|--target-directory"
).match  # an option of `mv`: then it is not known which words are moved
_BROWSERS = ("playwright", "puppeteer", "cypress")


def installs(words: list[str]) -> Packages | None:
    """What one command line would install with pip, uv or pipx; None for other lines. `runners` follows project managers."""
    words = assignments(words)[1]
    if words[:1] == ["sudo"]:
        words = list(itertools.dropwhile(lambda word: word.startswith("-"), words[1:]))
    if (found := ecosystems.installs(words)) is not None:
        return found
    words = module_of(words) or words
    if words[:2] == ["uv", "pip"]:
        words = words[1:]
    match words:
        case ["pip" | "pip3", "install", *arguments]:
            return _pip(arguments)
        case ["pip" | "pip3", *_] | ["uv", "venv" | "lock" | "python", *_] | ["poetry", "lock" | "config", *_]:
            return Packages()
        case ["pipx", "install", *names] | ["uv", "tool", "install", *names]:
            # Each has an environment of its own there; tools that are followed here are not installed.
            wanted = (name for name in names if not name.startswith("-") and "$" not in name)
            return Packages(requirements=tuple(name for name in wanted if re.split(r"[^\w-]", name)[0] not in _FOLLOWED))
    return None


def implied_packages(words: list[str]) -> Packages:
    """What a command needs that CI's machines have anyway: up to 3.11, every Python comes with setuptools."""
    starts = bool(words) and (is_python(words[0]) or words[0].rpartition("/")[2] in ("coverage", "setup.py"))
    is_setup = starts and "setup.py" in map(posixpath.normpath, words)
    return Packages(requirements=("setuptools; python_version < '3.12'",)) if is_setup else Packages()


def merge(*packages: Packages) -> Packages:
    """All packages in order without duplicates, and the first requested versions and day."""
    combined: dict[str, Any] = {}
    for field in fields(Packages):
        if field.name not in _SINGLE:
            combined[field.name] = tuple(dict.fromkeys(item for one in packages for item in getattr(one, field.name)))
        else:
            combined[field.name] = next((value for one in packages if (value := getattr(one, field.name))), None)
    return Packages(**combined)


def _pip(arguments: list[str]) -> Packages:
    requirements: list[str] = []
    files: list[str] = []
    constraints: list[str] = []
    projects: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if argument in ("-r", "--requirement"):
            files.append(next(rest, ""))
        elif argument.startswith("-r") and len(argument) > 2:
            files.append(argument[2:])
        elif option == "--requirement" and equals:
            files.append(value)
        elif argument in ("-c", "--constraint"):
            constraints.append(next(rest, ""))
        elif argument in ("-e", "--editable"):
            projects.append(next(rest, ""))
        elif re.match(r"-e[^-]", argument):
            projects.append(argument[2:])
        elif argument in _PIP_VALUED:
            next(rest, "")  # the operator configures the index
        elif argument.startswith("-"):
            continue  # the value of `--group` is read below
        elif re.match(r"^\.{1,2}(?:/|$|\[)", argument) or argument.startswith("/"):
            projects.append(argument)
        elif "://" in argument or "$" in argument or "*" in argument:
            continue  # from a URL, or known only at run time
        elif argument != "pip":  # nothing here calls it: installs are read
            requirements.append(argument)
    return Packages(
        requirements=tuple(requirements),
        requirement_files=tuple(_path(file) for file in files if _is_known(file)),
        constraint_files=tuple(_path(file) for file in constraints if _is_known(file)),
        groups=tuple(name for name in _values(arguments, "--group") if _is_known(name)),
        projects=tuple(_path(project) for project in projects if _is_known(project)),
    )


def _is_known(word: str) -> bool:
    """Whether the word is not a URL and is known before run time."""
    return bool(word) and "://" not in word and "$" not in word and "`" not in word


def _path(path: str) -> str:
    return path.removeprefix("./") or "."


def _values(arguments: list[str], *options: str) -> list[str]:
    found = [value for option, value in pairwise(arguments) if option in options]
    return found + [a.partition("=")[2] for a in arguments if "=" in a and a.partition("=")[0] in options]


def provisions(words: Sequence[str]) -> bool:
    """Whether one simple command only sets up the machine."""
    if not words:
        return False
    name, rest = words[0].rpartition("/")[2], [word for word in words[1:] if not word.startswith("-")]
    if name == "sudo" and len(rest) > 1 and rest[0] in ("python", "python3", "pytest", "make", "tox", "bash", "sh"):
        return False
    if name in _SYSTEM or name in _FETCHES:
        return True
    if name in (".", "source"):  # the sandbox's environment is active already; `$VENV` is set by snok/install-poetry
        return re.fullmatch(r"\S*/bin/activate|\$\{?VENV\}?", "".join(rest[:1])) is not None
    if name in ("npx", "bunx"):
        name, rest = "".join(rest[:1]), rest[1:]
    if name == "git":
        return rest[:1] != [] and rest[0] in _GIT
    if name.startswith("python") and list(words[1:2]) == ["-m"]:
        name, rest = words[2] if len(words) > 2 else "", [word for word in words[3:] if not word.startswith("-")]
    return name in _BROWSERS and rest[:1] in (["install"], ["install-deps"])


def uploads(words: Sequence[str]) -> bool:
    """Whether one simple command only sends results to a service."""
    rest = module_of(list(words)) or list(words)
    name = "".join(rest[:1]).rpartition("/")[2]
    return name in _UPLOADS or (name == "twine" and rest[1:2] == ["upload"])


def hides_code(words: Sequence[str], cwd: str, paths: Collection[str]) -> bool:
    """Whether a command removes a package's folder (`rm -rf src`), as in jobs that test an installed wheel.

    An editable install needs the folder. `paths` are those of the repository's files, `cwd` is relative to its root.
    """
    program, *rest = words
    options, names = [word for word in rest if word.startswith("-")], [word for word in rest if not word.startswith("-")]
    if program == "mv":
        names = [] if any(map(_TO_FOLDER, options)) else names[:-1]
    elif program != "rm" or not any(map(_RECURSIVE, options)):
        return False
    folders = [posixpath.normpath(posixpath.join(cwd, name)) for name in names]
    return any(name == "src" or (f"{name}/__init__.py" in paths and "test" not in name) for name in folders)
