"""Follows a nox command line: which sessions it runs, and what they run in the one prepared environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.ci.project.tables import read_toml
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed
from agent.ci.runners.nox import noxfile
from agent.ci.runners.nox import session as nox_session
from agent.ci.runners.nox.noxfile import NoxFile, NoxSession
from agent.ci.runners.options import Options, split_names
from agent.ci.runners.selection import one_of_each
from agent.ci.runners.subshells import joined

_SESSIONS = 30  # run by one command line
_SHORT = {
    "-s": "--sessions", "--session": "--sessions", "-e": "--sessions",
    "-p": "--pythons", "--python": "--pythons", "-P": "--pythons", "--force-python": "--pythons",
    "-t": "--tags", "--tag": "--tags", "-k": "--keywords",
    "-f": "--noxfile", "-l": "--list", "--list-sessions": "--list", "-h": "--help",
}  # fmt: skip


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    at = words.index("--") if "--" in words else len(words)
    options = _options(words[1:at])
    if options.has("--list", "--version", "--help"):
        raise Unfollowed(f"`{' '.join(words)[:60]}` runs no tests")
    path = options.value("--noxfile", default="noxfile.py")
    text = context.text(path)
    if not text:
        raise Unfollowed(f"there is no {path} in {context.cwd}")
    file = noxfile.read(text, context.env, read_toml(context.text("pyproject.toml")) or {})
    chosen, notes = _select(file, options, context)
    if not chosen:
        names = ", ".join(options.values("--sessions", "--tags", "--keywords"))
        raise Unfollowed(f"noxfile.py has no session {names[:80] or 'to run'}")
    parts: list[Followed] = []
    waiting, seen = list(chosen), set[str]()
    while waiting and len(parts) < _SESSIONS:
        session = waiting.pop(0)
        if session.signature in seen:
            continue
        seen.add(session.signature)
        script = nox_session.script(file, session, list(words[at + 1 :]), context.steps)
        waiting += [one for name in script.notified for one in _named(file, name)[:1]]
        inner = again(script.text, replace(context, python=session.python or context.python))
        parts.append(replace(inner, python=session.python or inner.python, notes=(*script.notes, *inner.notes)))
    found = joined(parts, context, notes)
    if not any(part.command or part.packages for part in parts):
        raise Unfollowed("; ".join(found.notes)[:300] or f"session {chosen[0].signature} runs nothing")
    return replace(found, packages=replace(found.packages, python=found.python))


def _options(words: Sequence[str]) -> Options:
    """Each option with all the words up to the next one."""
    given: dict[str, list[str]] = {}
    values: list[str] = []
    for word in words:
        if word.startswith("-"):
            option, equals, value = word.partition("=")
            values = given.setdefault(_SHORT.get(option, option), [])
            values += [value] if equals else []
        else:
            values.append(word)
    return Options(given)


def _select(file: NoxFile, options: Options, context: ShellContext) -> tuple[list[NoxSession], list[str]]:
    wanted = options.values("--sessions") or split_names([context.env.get("NOXSESSION", "")])
    tags, keywords, pythons = (options.values(f"--{name}") for name in ("tags", "keywords", "pythons"))
    of_file = file.options.get("sessions")
    if wanted:
        sessions = [session for name in wanted for session in _named(file, name)]
    elif tags or keywords or pythons:
        sessions = list(file.sessions)
    elif isinstance(of_file, list):
        sessions = [session for name in of_file for session in _named(file, str(name))]
    elif "sessions" in file.options:
        raise Unfollowed("which sessions it runs is only known when it is run")
    else:
        sessions = [session for session in file.sessions if session.default]
    sessions = [
        session
        for session in sessions
        if (not tags or set(tags) & set(session.tags))
        and (not keywords or _matches(" ".join(keywords), session))
        and (not pythons or session.python in pythons)
    ]
    signatures = [session.signature for session in sessions]
    kinds = [
        (one if one in wanted else session.any_python, session.python) for session in sessions for one in [session.signature]
    ]
    chosen, left_out = one_of_each(signatures, kinds, context.python)
    notes = [f"sessions of nox for other Pythons are left out: {left_out}"] if left_out else []
    if len(chosen) > _SESSIONS:
        notes.append(f"only the first {_SESSIONS} sessions of nox are followed")
    return [session for session in sessions if session.signature in chosen][:_SESSIONS], notes


def _named(file: NoxFile, name: str) -> list[NoxSession]:
    """By its name, with or without its Python and parameters."""
    return [
        session
        for session in file.sessions
        if name in (session.name, session.signature, session.signature.partition("(")[0], session.any_python)
    ]


def _matches(expression: str, session: NoxSession) -> bool:
    """`-k "tests and not slow"`: words of the signature or the tags, joined by and, or, not."""
    text = f"{session.signature} {' '.join(session.tags)}".lower()
    return any(
        all((word.removeprefix("not ").strip().lower() in text) is not word.startswith("not ") for word in part.split(" and "))
        for part in " ".join(expression.split()).split(" or ")
    )
