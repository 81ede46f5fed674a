"""The door to the runners: a command line, or shell text, and what it comes to in the one prepared environment.

Runners may call runners (make → tox → pytest); how deep and how often is bounded. Nothing is executed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agent.ci.detect import Project
from agent.ci.installing import installs, merge
from agent.ci.provisioning import provisions
from agent.ci.python_call import module_of
from agent.ci.runners import hatch, just, make, nox, pdm, pipenv, pipx, poetry, precommit, project_tasks, shell, tox, uv
from agent.ci.runners.followed import DEPTH, TEXT_LIMIT, Again, Followed, Place, Result, TooMuch, Unfollowed
from agent.guest.text import one_line
from sandbox.base import Packages

_CALL = 100  # steps that following one runner counts as
_RUNNERS: dict[str, Callable[[Sequence[str], Place, Again], Result]] = {
    "tox": tox.follow,
    "nox": nox.follow,
    "make": make.follow,
    "gmake": make.follow,
    "pre-commit": precommit.follow,
    "just": just.follow,
    "task": project_tasks.task,
    "poe": project_tasks.poe,
    "poethepoet": project_tasks.poe,
    "invoke": project_tasks.invoke,
    "inv": project_tasks.invoke,
    "rye": project_tasks.rye,
    "uv": uv.follow,
    "uvx": uv.follow,
    "pipx": pipx.follow,
    "poetry": poetry.follow,
    "pdm": pdm.follow,
    "pipenv": pipenv.follow,
    "hatch": hatch.follow,
}


def follow(
    words: Sequence[str], project: Project, env: Mapping[str, str], cwd: str = ".", python: str | None = None
) -> Followed | Unfollowed | None:
    """What one command line comes to; None where it is no runner's. `python` is the Python wanted so far ("3.12")."""
    return _follow(list(words), Place(project, dict(env), cwd, python))


def follow_script(text: str, project: Project, env: Mapping[str, str], cwd: str = ".", python: str | None = None) -> Followed:
    """The same for shell text, of a workflow's step say: installs are taken out, runners are followed, all else stays.

    A runner that cannot be followed stays as it is, with a note.
    """
    return _again(text, Place(project, dict(env), cwd, python))


def _follow(words: list[str], place: Place) -> Result:
    env, words = shell.assignments(words)
    place = place.with_env(env)
    words = module_of(words) or words
    if not words:
        return None
    name = words[0].rsplit("/", 1)[-1]
    runner = _RUNNERS.get(name)
    if runner is None or (words[0].startswith("./") and name not in ("gradlew", "mvnw")):
        return None
    if place.depth >= DEPTH:
        return Unfollowed(f"runners call each other more than {DEPTH} deep")
    try:
        place.steps.take(_CALL)
        found = runner([name, *words[1:]], place, lambda text, inner: _again(text, replace(inner, depth=place.depth + 1)))
    except TooMuch:
        return Unfollowed("its parts call each other too often")
    if isinstance(found, Followed) and len(found.command) > TEXT_LIMIT:
        return Unfollowed("what it runs is too long")
    return found


def _again(text: str, place: Place) -> Followed:
    """Follows shell text line by line, in a place that `cd` and `export` move."""
    packages = Packages()
    notes: list[str] = []
    kept: list[Followed | str] = []  # in order; text stays as it is
    python: str | None = None
    here = place
    for line in shell.lines(text):
        if not line.strip() or line.strip().startswith("#"):
            continue
        parts = shell.pieces(line)
        done: list[Followed | str] = []
        for part in parts:
            words = shell.words(part) if part not in ("&&", "||", ";", "|") else []
            env, bare = shell.assignments(words)
            if len(parts) == 1 and _is_compound(part):
                notes += [
                    f"`{one_line(part, 80)}` is not followed: it is part of a compound command" for _ in _runners_in(part)
                ]
                done.append(part)
                continue
            if bare[:1] == ["cd"] and len(bare) == 2 and not re.search(r"[$~*-]", bare[1]):
                here = here.moved(bare[1])
            elif bare[:1] == ["export"]:
                here = here.with_env({k: v for k, v in shell.assignments(bare[1:])[0].items() if "$" not in v})
            found = _follow(words, here) if words else None
            if found is None and (installed := installs(shell.expanded(words, here.env))) is not None:
                packages = merge(packages, here.packages(installed))
                done.append("")
                continue
            if found is None and provisions(bare):
                notes.append(f"`{one_line(part, 80)}` makes a machine ready, and is left out")
                if "|" in parts:
                    done = [""]
                    break
                done.append("")
                continue
            if isinstance(found, Unfollowed):
                notes.append(f"`{one_line(part, 80)}` is not followed: {found.reason}")
                found = None
            if found is None:
                done.append(part)
                continue
            packages = merge(packages, found.packages)
            if found.command and place.depth == 0:
                notes.append(f"`{one_line(part, 80)}` is approximated by `{one_line(found.command, 120)}`")
            notes += found.notes
            python = python or found.python
            done.append(replace(found, env=here.added(found.env)) if found.command else "")
        kept += _line(done, here)
    if len(kept) == 1 and isinstance(only := kept[0], Followed):
        env = {**place.env, **only.env}
        return Followed(only.command, packages, env, only.cwd, python, tuple(dict.fromkeys(notes)))
    texts: list[str] = []
    now = place
    for piece in kept:
        if isinstance(piece, str):
            texts.append(piece)
            for part in shell.pieces(piece):
                words = shell.words(part)
                if words[:1] == ["cd"] and len(words) == 2 and not re.search(r"[$~*-]", words[1]):
                    now = now.moved(words[1])
        else:
            texts.append(shell.subshell(piece.command, piece.env, shell.from_folder(now.cwd, piece.cwd)))
    return Followed("\n".join(texts), packages, place.env, place.cwd, python, tuple(dict.fromkeys(notes)))


def _line(done: list[Followed | str], here: Place) -> list[Followed | str]:
    """One line's pieces put together: a runner that stands alone keeps its own environment, others become part of the text."""
    pieces = _without_gaps(done)
    if len(pieces) == 1:
        return pieces
    text: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            text.append(piece)
            continue
        inner = shell.subshell(piece.command, piece.env, shell.from_folder(here.cwd, piece.cwd))
        text.append(inner if "\n" not in inner else f"bash -e -o pipefail -c {shlex.quote(inner)}")
    return [" ".join(text)] if text else []


def _without_gaps(done: list[Followed | str]) -> list[Followed | str]:
    """Without what was taken out, and the operator that joined it."""
    pieces: list[Followed | str] = []
    waiting: str | None = None
    for piece in done:
        if piece in ("&&", "||", ";", "|"):
            waiting = str(piece) if pieces else None
        elif piece != "":
            if waiting is not None:
                pieces.append(waiting)
            pieces.append(piece)
            waiting = None
    return pieces


def _runners_in(part: str) -> list[str]:
    """The runners that a compound command starts, at most one."""
    found = re.search(rf"(?:^|[\s;&|(])({'|'.join(_RUNNERS)})(?=\s|;|$)", part)
    return [found[1]] if found else []


def _is_compound(part: str) -> bool:
    return (
        bool(re.search(r"&&|\|\||;|`|\$\(|^\s*[({]|^\s*(?:if|for|while|case|then|else|elif|fi|do|done|esac)\b", part))
        and len(shell.pieces(part)) == 1
    )


def inline(followed: Followed, env: Mapping[str, str], cwd: str) -> str:
    """Its command as text that can be run in `cwd` with `env`, its own folder and variables set inside."""
    added = {name: value for name, value in followed.env.items() if env.get(name) != value}
    return shell.subshell(followed.command, added, shell.from_folder(cwd, followed.cwd))
