"""How a step of a job is run, and what it leaves to the steps after it: `GITHUB_ENV`, `GITHUB_PATH`, `GITHUB_OUTPUT`.

Knows files and words, not what a step is for. Read on both sides of the sandbox: what comes out of it is hostile text.
"""

import os
import re
import shutil
import sys

LIMIT = 1 << 20  # bytes that are read of one file
FILES = ("env", "path", "output", "state", "step_summary")
LONGEST = 100000  # bytes of a text that is an argument: the system has a bound
# GitHub refuses the first too: https://docs.github.com/actions/reference/workflow-commands. By the second kind we tell our own
# what to do. Others that have programs run code (BASH_ENV, LD_PRELOAD, …) are set by honest jobs as well: what a change makes
# of them is told by `deciding`.
_REFUSED = re.compile(r"NODE_OPTIONS|SELFHEAL_.*")
_DELIMITED = re.compile(r"^([^=\n]*?)<<(.+)$")


def argv(shell: str, script: str, folder: str) -> "list[str]":
    """What runs `script` as `shell` says: "bash", "sh", "python", or a template such as "bash -e {0}".

    Shells and Pythons get their text as an argument, where it is not too long: a file could be changed by what it runs.
    Raises ValueError where `shell` names none.
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


def offer(folder: str) -> "dict[str, str]":
    """Make the files anew, empty; returns the variables that name them."""
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


def left(folder: str) -> "dict[str, str]":
    """What the step wrote there: file → text. A file that is gone or is no plain file counts as empty."""
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


def values(text: str) -> "dict[str, str]":
    """`NAME=value` lines and `NAME<<END … END` blocks as a dictionary; what is neither is left out."""
    found = {}
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        block = _DELIMITED.match(line)
        if block:
            kept = []  # type: list[str]
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


def environment(text: str) -> "dict[str, str]":
    """The variables that a step may set for those after it."""
    return {
        name: value
        for name, value in values(text).items()
        if not _REFUSED.fullmatch(name) and not name.startswith(("GITHUB_", "RUNNER_")) and "\0" not in name + value
    }


def paths(text: str) -> "list[str]":
    """The folders that a step puts on the PATH, the last one first."""
    return [line for line in reversed(text.replace("\r\n", "\n").split("\n")) if line.strip() and "\0" not in line]
