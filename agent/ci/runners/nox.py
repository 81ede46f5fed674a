"""Follows a nox command line: nox itself says in the sandbox what its sessions would install and run."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources

import msgspec

from agent.ci.project.tables import read_toml, strings
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed, one_of_each
from agent.ci.runners.subshells import joined, subshell
from agent.guest.text import one_line

_SESSIONS = 30  # maximum for one command line
_NEEDS = 20  # maximum number of requirements for one noxfile


class NoxCall(msgspec.Struct):
    """One `session.install` or `session.run`, with paths as seen from `cwd`."""

    installs: bool
    words: list[str]
    env: dict[str, str]
    cwd: str
    codes: list[int]


class NoxSession(msgspec.Struct):
    """One session that nox chose; `ended` says why it ended, if it ended early."""

    name: str  # "tests-3.11(django='4.2')"
    python: str
    calls: list[NoxCall]
    ended: str

    @property
    def kind(self) -> str:
        """The name without the Python."""
        return self.name.replace(f"-{self.python}", "") if self.python else self.name

    @property
    def version(self) -> str | None:
        found = re.fullmatch(r"(?:python|cpython-)?(\d\.\d{1,2})\w*", self.python)
        return found[1] if found else None

    def script(self) -> str:
        """The calls as shell text."""
        lines: list[str] = []
        for call in self.calls:
            line = shlex.join([*(("pip", "install") if call.installs else ()), *call.words])
            if call.env and not call.installs:
                line = " ".join([*(f"{name}={shlex.quote(value)}" for name, value in call.env.items()), line])
            if call.codes not in ([], [0]):
                line = f"{line} || case $? in {'|'.join(map(str, call.codes))}) ;; *) exit 1 ;; esac"
            lines.append(subshell(line, {}, None if call.cwd == "." else call.cwd))
        return "\n".join(lines)


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    found = sessions(words[1:], context)
    kinds = [(one.name if one.name in words else one.kind, one.version) for one in found]
    names, left_out = one_of_each([one.name for one in found], kinds, context.python)
    notes = [f"nox sessions for other Python versions are left out: {left_out}"] if left_out else []
    if len(names) > _SESSIONS:
        notes.append(f"only the first {_SESSIONS} nox sessions are followed")
    chosen = [one for one in found if one.name in names][:_SESSIONS]
    notes += [f"nox session {one_line(one.name, 60)} ended early: {one_line(one.ended, 100)}" for one in chosen if one.ended]
    parts: list[Followed] = []
    for one in chosen:
        inner = again(one.script(), replace(context, python=one.version or context.python))
        parts.append(replace(inner, python=one.version or inner.python))
    followed = joined(parts, context, notes)
    if not any(part.command or part.packages for part in parts):
        raise Unfollowed("; ".join(followed.notes)[:300] or f"session {chosen[0].name[:60]} runs nothing")
    return replace(followed, packages=replace(followed.packages, python=followed.python))


def sessions(arguments: Sequence[str], context: ShellContext) -> list[NoxSession]:
    """The sessions that nox runs, at least one. Raises `Unfollowed`."""
    path = next((value for word, value in itertools.pairwise(arguments) if word in ("-f", "--noxfile")), "noxfile.py")
    text = context.text(path)
    if not text:
        raise Unfollowed(f"there is no {path[:60]} in {context.cwd}")
    recorder = resources.files("agent.guest").joinpath("nox_sessions.py").read_text()
    answer = context.ask(("python", "-c", recorder, *arguments), _requirements(text))
    try:
        found = msgspec.json.decode(answer.text.rpartition("\0")[2], type=list[NoxSession])
    except (msgspec.MsgspecError, RecursionError):
        found = []
    if not found:
        said = (answer.errors.strip() or "nox runs no session").splitlines()[-1]
        raise Unfollowed(f"nox says: {one_line(said.removeprefix('nox > '), 200)}")
    return found


def _requirements(text: str) -> tuple[str, ...]:
    """nox, the plugins that a noxfile imports, and the dependencies that it declares."""
    plugins = re.findall(r"^(?:from|import) (nox_\w+)", text, re.MULTILINE)
    block = f"\n{text}".partition("\n# /// script\n")[2].partition("\n# ///\n")[0]  # PEP 723
    script = read_toml(re.sub(r"^# ?", "", block, flags=re.MULTILINE)) or {}
    declared = [one for one in strings(script.get("dependencies")) if "://" not in one]
    return tuple(dict.fromkeys(["nox", *(name.replace("_", "-") for name in plugins), *declared]))[:_NEEDS]
