"""The workspace as `actions/checkout` leaves it: a git repository of one commit, without history.

Its newest tag, if known, is on that commit, so that tools which derive the version from tags find one.

The sandbox's own git commits the archive's files before any code of the repository runs: git on the host never sees them, and a
checkout's own `.git`, whose configuration may hold tokens, is never copied.
"""

from __future__ import annotations

import re

from agent.ci.job.contexts import PULLS, Run
from agent.guest.text import one_line
from sandbox.base import Command, DeadlinePassed, Sandbox

SECONDS = 30.0  # a tree of 5,000 files takes one or two; a much larger one is not committed
_ALREADY, _NO_GIT = 10, 11
_REPOSITORY = re.compile(r"[A-Za-z0-9-]{1,39}/[\w.-]{1,100}", re.ASCII)
WITHOUT = "the workspace is not a git repository here"

# All content goes into one pack, as after a fetch. Candidates are copies with other inodes and change times, so git compares
# size and modification time only; otherwise commands that do not refresh the index would report changes.
_SCRIPT = f"""
[ ! -e .git ] || exit {_ALREADY}
git --version >/dev/null 2>&1 || exit {_NO_GIT}
set -e
branch=$1 origin=$2 tag=$3
if [ -n "$branch" ]; then git check-ref-format "refs/heads/$branch" || branch=; fi
git init -q --template=
git config core.checkStat minimal
git config core.trustctime false
git config gc.auto 0
git symbolic-ref HEAD "refs/heads/${{branch:-main}}"
git -c core.bigFileThreshold=1 -c core.compression=1 -c core.safecrlf=false add --all --force .
git commit -q --allow-empty --no-verify --no-gpg-sign -m "The commit under test, without its history"
commit=$(git rev-parse HEAD)
echo "$commit" > .git/shallow
if [ -n "$branch" ]; then
    git update-ref "refs/remotes/origin/$branch" "$commit"
else
    git update-ref --no-deref HEAD "$commit"
    git update-ref -d refs/heads/main
fi
if [ -n "$tag" ] && git check-ref-format "refs/tags/$tag"; then git tag -a -m "$tag" -- "$tag" || :; fi
[ -n "$origin" ] || exit 0
git config remote.origin.url "$origin"
git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'
"""
_DATE = "2000-01-01T00:00:00Z"
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "CI",
    "GIT_AUTHOR_EMAIL": "ci@localhost",
    "GIT_AUTHOR_DATE": _DATE,
    "GIT_COMMITTER_NAME": "CI",
    "GIT_COMMITTER_EMAIL": "ci@localhost",
    "GIT_COMMITTER_DATE": _DATE,
}


async def commit_workspace(sandbox: Sandbox, run: Run) -> str:
    """Commit the base. `run` gives its branch and repository, if known; without a branch, HEAD is detached.

    Returns a note if the commit failed, else "". Raises `SandboxError`.
    """
    branch = "" if run.event in PULLS else run.branch
    origin = f"{run.server_url}/{run.repository}" if _REPOSITORY.fullmatch(run.repository) else ""
    argv = ("/bin/sh", "-c", _SCRIPT, "commit", branch, origin, run.tag)
    try:
        ended = await sandbox.amend(Command(argv, SECONDS, env=_ENVIRONMENT))
    except DeadlinePassed:
        why = f"committing so many files took longer than {SECONDS:.0f} s"
    else:
        if ended.exit_code in (0, _ALREADY):
            return ""
        if ended.exit_code == _NO_GIT:
            return f"{WITHOUT}: the sandbox has no git"
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        why = f"git failed ({one_line(said[-1], 200) if said else f'exit code {ended.exit_code}'})"
    await sandbox.amend(Command(("/bin/rm", "-rf", ".git"), SECONDS))
    return f"{WITHOUT}: {why}"
