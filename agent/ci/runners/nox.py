"""Follows a nox command line: which sessions it would run, and what they come to in the one prepared environment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent.ci.project.install_commands import merge
from agent.ci.runners import nox_session
from agent.ci.runners.context import Again, Followed, Place, Result, Unfollowed
from agent.ci.runners.nox import noxfile as nox_file
from agent.ci.runners.nox.noxfile import NoxError, NoxFile, Session
from agent.ci.runners.selection import one_of_each
from agent.ci.runners.shell import from_folder, subshell
from agent.ci.runners.tox import config as tox_config
from agent.ci.runners.tox.values import ToxError
from sandbox.base import Packages

_SESSIONS = 30  # run by one command line
_LISTS = {"-s": "sessions", "--session": "sessions", "--sessions": "sessions", "-e": "sessions"}
_LISTS |= {"-p": "pythons", "--python": "pythons", "--pythons": "pythons", "-P": "pythons", "--force-python": "pythons"}
_LISTS |= {"-t": "tags", "--tag": "tags", "--tags": "tags", "-k": "keywords", "--keywords": "keywords"}
_VALUED = (
    "-f",
    "--noxfile",
    "-db",
    "--default-venv-backend",
    "-fb",
    "--force-venv-backend",
    "--envdir",
    "--report",
    "--reuse-venv",
)


@dataclass
class _Asked:
    sessions: list[str] = field(default_factory=list)
    pythons: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)
    posargs: list[str] = field(default_factory=list)
    file: str = "noxfile.py"


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "nox"."""
    asked = _asked(words[1:])
    if isinstance(asked, Unfollowed):
        return asked
    text = place.text(asked.file)
    if not text:
        return Unfollowed(f"there is no {asked.file} in {place.cwd}")
    try:
        toml = tox_config.toml(place.text("pyproject.toml"))
    except ToxError:
        toml = {}
    try:
        file = nox_file.read(text, place.env, toml)
        chosen, notes = _chosen(file, asked, place)
    except (NoxError, RecursionError) as wrong:
        return Unfollowed(str(wrong) or "noxfile.py is nested too deeply")
    if not chosen:
        names = ", ".join([*asked.sessions, *asked.tags, *asked.keywords])
        return Unfollowed(f"noxfile.py has no session {names[:80] or 'to run'}")
    parts: list[Followed] = []
    waiting, seen = list(chosen), set[str]()
    while waiting and len(parts) < _SESSIONS:
        session = waiting.pop(0)
        if session.signature in seen:
            continue
        seen.add(session.signature)
        script = nox_session.script(file, session, asked.posargs, place.steps)
        waiting += [one for name in script.notified for one in _named(file, name)[:1]]
        inner = again(script.text, replace(place, python=session.python or place.python))
        notes += [*script.notes, *inner.notes]
        parts.append(replace(inner, python=session.python or inner.python))
    packages = Packages()
    for part in parts:
        packages = merge(packages, part.packages)
    python = next((part.python for part in parts if part.python), None)
    told = tuple(dict.fromkeys(notes))
    if not any(part.command or part.packages for part in parts):
        return Unfollowed("; ".join(told)[:300] or f"session {chosen[0].signature} runs nothing")
    if len(parts) == 1:
        return replace(parts[0], packages=replace(packages, python=python), python=python, notes=told)
    texts = []
    for part in parts:
        text = subshell(part.command, place.added(part.env), from_folder(place.cwd, part.cwd))
        texts.append(f"(\n{text}\n)" if text == part.command and re.search(r"^cd ", text, re.MULTILINE) else text)
    return Followed(
        "\n".join(text for text in texts if text), replace(packages, python=python), place.env, place.cwd, python, told
    )


def _asked(arguments: Sequence[str]) -> _Asked | Unfollowed:
    asked = _Asked()
    options = list(arguments)
    if "--" in options:
        at = options.index("--")
        options, asked.posargs = options[:at], options[at + 1 :]
    into: list[str] | None = None
    words = iter(options)
    for word in words:
        option, equals, given = word.partition("=")
        if option in _LISTS:
            into = getattr(asked, _LISTS[option])
            if equals:
                into.append(given)
        elif option in ("-l", "--list", "--list-sessions", "--version", "-h", "--help"):
            return Unfollowed(f"`nox {option}` runs no tests")
        elif option in _VALUED:
            following = given if equals else next(words, "")
            if option in ("-f", "--noxfile"):
                asked.file = following
            into = None
        elif word.startswith("-"):
            into = None
        elif into is not None:
            into.append(word)
    return asked


def _chosen(file: NoxFile, asked: _Asked, place: Place) -> tuple[list[Session], list[str]]:
    wanted = asked.sessions or re.split(r"[,\s]+", place.env.get("NOXSESSION", "").strip())
    wanted = [name for name in wanted if name]
    of_file = file.options.get("sessions")
    if wanted:
        sessions = [session for name in wanted for session in _named(file, name)]
    elif asked.tags or asked.keywords or asked.pythons:
        sessions = list(file.sessions)
    elif isinstance(of_file, list):
        sessions = [session for name in of_file for session in _named(file, str(name))]
    elif "sessions" in file.options:
        raise NoxError("which sessions it runs is only known when it is run")
    else:
        sessions = [session for session in file.sessions if session.default]
    if asked.tags:
        sessions = [session for session in sessions if set(asked.tags) & set(session.tags)]
    if asked.keywords:
        sessions = [session for session in sessions if _holds(" ".join(asked.keywords), session)]
    if asked.pythons:
        sessions = [session for session in sessions if session.python in asked.pythons]
    signatures = [session.signature for session in sessions]
    kinds = [
        (
            session.signature if session.signature in wanted else session.signature.replace(f"-{session.python}", ""),
            session.python,
        )
        for session in sessions
    ]
    chosen, left_out = one_of_each(signatures, kinds, place.python)
    notes = [f"sessions of nox for other Pythons are left out: {left_out}"] if left_out else []
    if len(chosen) > _SESSIONS:
        notes.append(f"only the first {_SESSIONS} sessions of nox are followed")
    return [session for session in sessions if session.signature in chosen][:_SESSIONS], notes


def _named(file: NoxFile, name: str) -> list[Session]:
    """By its name, with or without its Python and parameters."""
    return [
        session
        for session in file.sessions
        if name in (session.name, session.signature, session.signature.partition("(")[0])
        or name == session.signature.replace(f"-{session.python}", "")
    ]


def _holds(expression: str, session: Session) -> bool:
    """`-k "tests and not slow"`: words of the signature or the tags, joined by and, or, not."""
    told = f"{session.signature} {' '.join(session.tags)}".lower()
    return any(
        all((word.removeprefix("not ").strip().lower() in told) is not word.startswith("not ") for word in part.split(" and "))
        for part in " ".join(expression.split()).split(" or ")
    )
