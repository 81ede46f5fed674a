"""Follows pre-commit: it fetches its own environments by git, so its hooks are run from packages (`agent.ci.project.hooks`)."""

from __future__ import annotations

from collections.abc import Sequence

from agent.ci.project.hooks import PATH, read_hooks
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed
from agent.guest.text import one_line
from sandbox.base import Packages


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    if "run" not in words:
        return None
    plain = [word for word in words[words.index("run") + 1 :] if not word.startswith("-")]
    hooks = read_hooks(context.text(PATH), plain[0] if plain else "")
    if not hooks.command:
        raise Unfollowed("its hooks are fetched by git, and the sandbox has no network")
    notes = [f"`{one_line(' '.join(words), 80)}` is approximated by its hooks, installed from packages"]
    if hooks.left_out:
        notes.append(f"hooks that are not run: {one_line(', '.join(hooks.left_out), 200)}")
    packages = context.packages(Packages(requirements=hooks.installs))
    return context.result(hooks.command, packages, notes=notes)
