"""How a step of a job runs, and what it passes to later steps: `GITHUB_ENV`, `GITHUB_PATH`, `GITHUB_OUTPUT`.

Used on both sides of the sandbox. What steps write is hostile text.
"""

from __future__ import annotations

import os
import re
import shutil
import sys

LIMIT = 1 << 20  # bytes read of one file
FILES = ("env", "path", "output", "state", "step_summary")
LONGEST = 100000  # bytes of a text that is passed as an argument: the system has a limit
# GitHub refuses the first too: https://docs.github.com/actions/reference/workflow-commands. The second kind controls our own
# programs. Honest jobs also set variables that make programs run code (BASH_ENV, LD_PRELOAD, …): `decisive_files` reports
# how a change affects those.
_REFUSED = re.compile(r"NODE_OPTIONS|SELFHEAL_.*")
_DELIMITED = re.compile(r"^([^=\n]*?)<<(.+)$")


def argv(shell: str, script: str, folder: str) -> list[str]:
    """The command that runs `script` with `shell`: "bash", "sh", "python", or a template such as "bash -e {0}".

    Shells and Pythons get the script as an argument if it is not too long: the script could change its own file.
    Raises ValueError if `shell` is empty.
    """
    if not shell.strip():
        raise ValueError("no shell is named")
    words = {
        "bash": ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "{0}"],
        "sh": ["sh", "-e", "{0}"],
        "python": ["python", "{0}"],
    }.get(shell) or shell.split()
    name = os.path.basename(words[0])
    if name == "bash" and not shutil.which("bash"):
        words = ["sh", "-e", "{0}"]
    if name == "python" and "/" not in words[0]:
        words[0] = sys.executable
    if name in ("bash", "sh", "dash", "python", "python3") and words.count("{0}") == 1 and len(script.encode()) <= LONGEST:
        at = words.index("{0}")
        return words[:at] + ["-c", script] + words[at + 1 :]
    path = os.path.join(folder, "script")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    return [path if word == "{0}" else word.replace("{0}", path) for word in words]


def create_files(folder: str) -> dict[str, str]:
    """Create the files, empty; returns the variables that name them."""
    os.makedirs(folder, exist_ok=True)
    variables = {}
    for name in FILES:
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "w", encoding="utf-8"):
            pass
        variables["GITHUB_" + name.upper()] = path
    return variables


def read_files(folder: str) -> dict[str, str]:
    """What the step wrote: file → text. A missing or special file counts as empty."""
    texts = {}
    for name in ("env", "path", "output"):
        try:
            handle = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with os.fdopen(handle, "rb") as file:
            text = file.read(LIMIT).decode("utf-8", "replace")
        if text:
            texts[name] = text
    return texts


def values(text: str) -> dict[str, str]:
    """`NAME=value` lines and `NAME<<END … END` blocks as a dictionary; anything else is left out."""
    found = {}
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        block = _DELIMITED.match(line)
        if block:
            kept: list[str] = []
            for inner in lines:
                if inner == block.group(2):
                    found[block.group(1)] = "\n".join(kept)
                    break
                kept.append(inner)
            continue
        name, equals, value = line.partition("=")
        if equals and name:
            found[name] = value
    return found


def environment(text: str) -> dict[str, str]:
    """The variables that a step is allowed to set for later steps."""
    return {
        name: value
        for name, value in values(text).items()
        if not _REFUSED.fullmatch(name) and not name.startswith(("GITHUB_", "RUNNER_")) and "\0" not in name + value
    }


def paths(text: str) -> list[str]:
    """The folders that a step adds to the PATH, the last one first."""
    return [line for line in reversed(text.replace("\r\n", "\n").split("\n")) if line.strip() and "\0" not in line]
