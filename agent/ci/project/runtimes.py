"""The runtimes of other languages: those that a plan needs, the versions in the sandbox, and how they differ from those wanted.

The sandbox fetches no runtime, so a note names the version that ran.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agent.contract.verdicts import Check
from sandbox.base import Command, DeadlinePassed, Workspace

SECONDS = 20.0  # for all of them
_ASKED = {"Node.js": "node --version", "Go": "go version", "Rust": "rustc --version", "Java": "java -version"}
_READERS = {"javascript": "Node.js", "go": "Go", "rust": "Rust", "java": "Java"}
_PROGRAMS = {
    "Node.js": re.compile(r"(?<![\w./-])(?:node|npm|npx|yarn|pnpm|corepack)(?![\w./-])"),
    "Go": re.compile(r"(?<![\w./-])go (?:test|build|run|vet|generate|install)\b"),
    "Rust": re.compile(r"(?<![\w./-])(?:cargo|rustc)(?![\w./-])"),
    "Java": re.compile(r"(?<![\w./-])(?:\./)?(?:mvnw?|gradlew?|javac?)(?![\w./-])"),
}


def needed(checks: Sequence[Check], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """The runtimes that the checks call, and those that the job asks for by version."""
    called = {_READERS[check.reader] for check in checks if check.reader in _READERS}
    called |= {name for name, sign in _PROGRAMS.items() if any(sign.search(check.commands) for check in checks)}
    return tuple(name for name in _ASKED if name in called or name in wanted)


async def versions(workspace: Workspace, names: Sequence[str]) -> dict[str, str]:
    """Name → "20.20.2" as the runtime reports it; "" for a missing one. Raises `SandboxError`."""
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
    """The version in "v20.20.2", "go version go1.22.1 linux/amd64", "rustc 1.70.0 (…)", 'openjdk version "17.0.9" …'."""
    found = re.search(r"(?:\bv|version (?:go|\")|rustc )(\d+(?:\.\d+)*)", line)
    return found[1] if found else ""


def version_notes(wanted: Mapping[str, str], there: Mapping[str, str]) -> tuple[str, ...]:
    """Notes on versions that differ from those the job asks for. Any version meets a range or a name ("lts/*", "stable")."""
    notes = []
    for name, version in wanted.items():
        exact = re.fullmatch(r"[v^~=]?\s*(\d+(?:\.\d+)*)(?:\.[xX*])*(?:-\w+)?", version.strip())
        if not there.get(name):
            notes.append(f"{name} {version} is required, but the sandbox has no {name}")
        elif exact and not f"{there[name]}.".startswith(f"{exact[1]}."):
            notes.append(f"{name} {there[name]} is used instead of {version}")
    return tuple(notes)


def in_words(there: Mapping[str, str]) -> tuple[str, ...]:
    """ "Node.js 20.20.2" for the evidence."""
    return tuple(f"{name} {version}" for name, version in there.items() if version)
