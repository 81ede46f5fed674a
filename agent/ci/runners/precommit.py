"""pre-commit: its own environments come by git, so its hooks are run as packages bring them (`agent.ci.hooks`)."""

from __future__ import annotations

from collections.abc import Sequence

from agent.ci.project.hooks import PATH, read_hooks
from agent.ci.runners.context import Again, Followed, Place, Result, Unfollowed
from agent.guest.text import one_line
from sandbox.base import Packages


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    if "run" not in words:
        return None
    plain = [word for word in words[words.index("run") + 1 :] if not word.startswith("-")]
    hooks = read_hooks(place.text(PATH), plain[0] if plain else "")
    if not hooks.command:
        return Unfollowed("it needs hooks that are fetched by git, which the sandbox cannot do")
    notes = [f"`{one_line(' '.join(words), 80)}` is approximated by its hooks as packages bring them"]
    if hooks.left_out:
        notes.append(f"hooks that are not run here: {one_line(', '.join(hooks.left_out), 200)}")
    packages = place.packages(Packages(requirements=hooks.installs))
    return Followed(hooks.command, packages, place.env, place.cwd, notes=tuple(notes))
