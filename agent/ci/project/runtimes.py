"""The runtimes of other languages: which of them a plan needs, which versions the sandbox has, and what that is in place of.

The sandbox has the versions that it has; none is fetched. So it is said which one ran.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agent.contract.verdicts import Check
from sandbox.base import Command, DeadlinePassed, Workspace

SECONDS = 20.0  # for all of them; the slowest takes half a second
_ASKED = {"Node.js": "node --version", "Go": "go version", "Rust": "rustc --version", "Java": "java -version"}
_READERS = {"javascript": "Node.js", "go": "Go", "rust": "Rust", "java": "Java"}
_PROGRAMS = {
    "Node.js": re.compile(r"(?<![\w./-])(?:node|npm|npx|yarn|pnpm|corepack)(?![\w./-])"),
    "Go": re.compile(r"(?<![\w./-])go (?:test|build|run|vet|generate|install)\b"),
    "Rust": re.compile(r"(?<![\w./-])(?:cargo|rustc)(?![\w./-])"),
    "Java": re.compile(r"(?<![\w./-])(?:\./)?(?:mvnw?|gradlew?|javac?)(?![\w./-])"),
}


def needed(checks: Sequence[Check], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the runtimes that the checks call for, and of those that the job asks for in a certain version."""
    called = {_READERS[check.reader] for check in checks if check.reader in _READERS}
    called |= {name for name, sign in _PROGRAMS.items() if any(sign.search(check.commands) for check in checks)}
    return tuple(name for name in _ASKED if name in called or name in wanted)


async def versions(workspace: Workspace, names: Sequence[str]) -> dict[str, str]:
    """Name → "20.20.2" as the runtimes say it themselves; "" for one that is not there. Raises `SandboxError`."""
    if not names:
        return {}
    script = "\n".join(f"({_ASKED[name]}) 2>&1 | tr '\\n' ' '; echo" for name in names)
    try:
        said = await workspace.run(Command(("/bin/sh", "-c", script), SECONDS))
    except DeadlinePassed:
        return dict.fromkeys(names, "")
    lines = said.stdout.decode(errors="replace").splitlines()
    return {name: _version(line) for name, line in zip(names, lines, strict=False)}


def _version(line: str) -> str:
    """Of "v20.20.2", "go version go1.22.1 linux/amd64", "rustc 1.70.0 (…)", 'openjdk version "17.0.9" …'."""
    found = re.search(r"(?:\bv|version (?:go|\")|rustc )(\d+(?:\.\d+)*)", line)
    return found[1] if found else ""


def told(wanted: Mapping[str, str], there: Mapping[str, str]) -> tuple[str, ...]:
    """What is another version than the job asks for. Ranges and names ("lts/*", "stable") are met by any."""
    notes = []
    for name, version in wanted.items():
        exact = re.fullmatch(r"[v^~=]?\s*(\d+(?:\.\d+)*)(?:\.[xX*])*(?:-\w+)?", version.strip())
        if not there.get(name):
            notes.append(f"{name} {version} is asked for, and the sandbox has none")
        elif exact and not f"{there[name]}.".startswith(f"{exact[1]}."):
            notes.append(f"{name} {there[name]} runs it in the place of {version}")
    return tuple(notes)


def in_words(there: Mapping[str, str]) -> tuple[str, ...]:
    """ "Node.js 20.20.2" for the evidence."""
    return tuple(f"{name} {version}" for name, version in there.items() if version)
