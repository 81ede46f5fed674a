"""Real git plumbing over one bare repository; the only place of the stand-in that runs git."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

#: git sees nothing of the machine's own configuration and hooks.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C.UTF-8",
}
SHA = re.compile("[0-9a-f]{40}")


class GitError(Exception):
    """A git command failed; the message is its standard error."""


@dataclass(frozen=True, slots=True)
class Signature:
    name: str
    email: str
    date: datetime


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str


@dataclass(frozen=True, slots=True)
class Entry:
    mode: str
    kind: str  # blob | tree | commit
    sha: str
    size: int | None
    path: str


@dataclass(frozen=True, slots=True)
class Change:
    status: str  # added | removed | modified | renamed | changed (only its mode or kind)
    path: str
    sha: str
    additions: int
    deletions: int
    old_path: str | None = None  # of a renamed file
    patch: str | None = None  # hunks; None where git shows none: binary, or no line changed


async def git(*args: str, cwd: Path, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """Run git and return its standard output; its whole process group dies with us. Raises `GitError`."""
    process = await asyncio.create_subprocess_exec(
        "git",
        "-c",
        "safe.directory=*",
        *args,
        cwd=cwd,
        env={**ENVIRONMENT, **(env or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = await process.communicate(stdin)
    except asyncio.CancelledError:  # the folder is about to be removed
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()  # until all of the group are gone
        raise
    if process.returncode != 0:
        raise GitError(f"git {' '.join(args[:3])}: {err.decode(errors='replace').strip()}")
    return out


class BareRepository:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[tuple[str, ...], bytes] = {}

    async def run(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        return await git(*args, cwd=self.path, stdin=stdin, env=env)

    async def _run_once(self, names: Sequence[str], *args: str) -> bytes:
        """As `run`, remembered if all these names are shas: what git says of objects never changes once they are there."""
        if args in self._known:
            return self._known[args]
        out = await self.run(*args)
        if all(map(SHA.fullmatch, names)):
            self._known[args] = out
        return out

    async def create(self, default_branch: str) -> None:
        self.path.mkdir(parents=True)
        await self.run("init", "--bare", "--quiet", "--template=", f"--initial-branch={default_branch}")

    async def resolve(self, revision: str, kind: str = "commit") -> str | None:
        """The full name of a commit (or tree, blob) that a branch, tag or sha names, or None."""
        if revision.startswith("-"):
            return None
        wanted = f"{revision}^{{{kind}}}"
        try:
            out = await self._run_once([revision], "rev-parse", "--verify", "--quiet", "--end-of-options", wanted)
        except GitError:
            return None
        return out.decode().strip()

    async def refs(self, prefix: str = "refs/") -> dict[str, str]:
        """Sha by name, read from git's own files: each ref has one, except those that git has packed."""
        packed = self.path / "packed-refs"
        lines = packed.read_text().splitlines() if packed.exists() else []
        found = {name: sha for sha, _, name in (line.partition(" ") for line in lines) if SHA.fullmatch(sha)}
        for file in (self.path / "refs").rglob("*"):
            if file.suffix != ".lock" and file.is_file():
                with contextlib.suppress(FileNotFoundError):  # deleted in the meantime
                    found[file.relative_to(self.path).as_posix()] = file.read_text().strip()
        return {name: found[name] for name in sorted(found) if name.startswith(prefix)}

    async def ref(self, name: str) -> str | None:
        return (await self.refs(name)).get(name)

    async def set_ref(self, name: str, sha: str, old: str | None = None) -> None:
        await self.run("update-ref", name, sha, *([old] if old is not None else []))

    async def create_ref(self, name: str, sha: str) -> None:
        await self.run("update-ref", name, sha, "0" * 40)

    async def delete_ref(self, name: str) -> None:
        await self.run("update-ref", "-d", name)

    async def commit(self, sha: str) -> Commit:
        fields = "%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"
        out = (await self._run_once([sha], "log", "-1", "--no-show-signature", f"--format={fields}", sha)).decode(
            errors="replace"
        )
        name, tree, parents, an, ae, ai, cn, ce, ci, message = out.split("\0", 9)
        author = Signature(an, ae, datetime.fromisoformat(ai))
        committer = Signature(cn, ce, datetime.fromisoformat(ci))
        return Commit(name, tree, tuple(parents.split()), author, committer, message.rstrip("\n"))

    async def commits(self, revisions: str, limit: int = 250) -> list[Commit]:
        asked = ("rev-list", f"--max-count={limit}", "--end-of-options", revisions)
        names = (await self._run_once(revisions.split(".."), *asked)).decode().split()
        return [await self.commit(name) for name in names]

    async def entries(self, tree: str, recursive: bool = False) -> list[Entry]:
        out = await self._run_once([tree], "ls-tree", "-l", "-z", *(["-r", "-t"] if recursive else []), tree)
        found = []
        for record in out.decode(errors="surrogateescape").split("\0")[:-1]:
            facts, path = record.split("\t", 1)
            mode, kind, sha, size = facts.split()
            found.append(Entry(mode, kind, sha, None if size == "-" else int(size), path))
        return found

    async def entry(self, commit: str, path: str) -> Entry | None:
        """The file or folder at a path of a commit; folders come without a trailing slash."""
        out = await self._run_once([commit], "ls-tree", "-l", "-z", commit, "--", path.rstrip("/"))
        if not out:
            return None
        facts, name = out.decode(errors="surrogateescape").split("\0")[0].split("\t", 1)
        mode, kind, sha, size = facts.split()
        return Entry(mode, kind, sha, None if size == "-" else int(size), name)

    async def blob(self, sha: str) -> bytes:
        return await self.run("cat-file", "blob", sha)

    async def write_blob(self, content: bytes) -> str:
        return (await self.run("hash-object", "-w", "--stdin", stdin=content)).decode().strip()

    async def write_tree(self, base: str | None, changes: Mapping[str, tuple[str, str] | None]) -> str:
        """A tree made of `base` and path -> (mode, sha), None deleting the path. Raises `GitError` for unknown objects."""
        with tempfile.TemporaryDirectory() as folder:
            env = {"GIT_INDEX_FILE": f"{folder}/index"}
            await self.run("read-tree", *([base] if base else ["--empty"]), env=env)
            lines = []
            for path, change in changes.items():
                mode, sha = change if change is not None else ("0", "0" * 40)
                lines.append(f"{mode} {sha}\t{path}\0")
            await self.run("update-index", "-z", "--index-info", stdin="".join(lines).encode(), env=env)
            return (await self.run("write-tree", env=env)).decode().strip()

    async def write_commit(
        self, tree: str, parents: tuple[str, ...], message: str, author: Signature, committer: Signature
    ) -> str:
        env = {}
        for role, who in (("AUTHOR", author), ("COMMITTER", committer)):
            env |= {f"GIT_{role}_NAME": who.name, f"GIT_{role}_EMAIL": who.email, f"GIT_{role}_DATE": who.date.isoformat()}
        links = [part for parent in parents for part in ("-p", parent)]
        return (await self.run("commit-tree", tree, *links, stdin=message.encode(), env=env)).decode().strip()

    async def merge(self, base: str, head: str) -> str | None:
        """A commit that merges `head` into `base`, or None if they conflict."""
        try:
            tree = (await self.run("merge-tree", "--write-tree", base, head)).decode().split()[0]
        except GitError:
            return None
        who = Signature("GitHub", "noreply@github.com", datetime.now().astimezone())
        return await self.write_commit(tree, (base, head), f"Merge {head} into {base}", who, who)

    async def merge_base(self, one: str, other: str) -> str | None:
        try:
            return (await self._run_once([one, other], "merge-base", one, other)).decode().strip()
        except GitError:
            return None

    async def is_ancestor(self, old: str, new: str) -> bool:
        return await self.merge_base(old, new) == old

    async def new_commits(self, sha: str) -> list[Commit]:
        """The ancestors of a commit, and itself, that no branch contains yet."""
        names = (await self.run("rev-list", sha, "--not", "--branches")).decode().split()
        return [await self.commit(name) for name in names]

    async def branches_with(self, sha: str) -> dict[str, str]:
        """Name and head of the branches that contain a commit."""
        out = await self.run("for-each-ref", f"--contains={sha}", "--format=%(objectname) %(refname:strip=2)", "refs/heads/")
        pairs = (line.split(" ", 1) for line in out.decode().splitlines())
        return {name: head for head, name in pairs}

    async def count(self, revisions: str) -> int:
        return int(await self._run_once(revisions.split(".."), "rev-list", "--count", "--end-of-options", revisions))

    async def changes(self, old: str, new: str) -> list[Change]:
        """What differs between two trees, with renames found as GitHub does, in git's order."""
        compared = await self._run_once([old, new], "diff-tree", "-r", "-M", "--patch", old, new)
        patches = compared.decode(errors="replace")
        parts = iter(("\n" + patches).split("\ndiff --git ")[1:])
        # Names are quoted there where they are unusual, so they are read from the other form.
        named = await self._run_once([old, new], "diff-tree", "-r", "-M", "--raw", "--abbrev=40", "-z", old, new)
        raw = iter(named.decode().split("\0"))
        found = []
        for facts in filter(None, raw):
            modes, (before, after, status) = facts.split()[:2], facts.split()[2:]
            paths = [next(raw) for _ in range(2 if status[0] == "R" else 1)]
            part = next(parts)
            if status[0] == "T":
                next(parts)  # a file that became another kind is shown as removed and added
            _, start, hunks = part.partition("\n@@ ")
            patch = (start + hunks)[1:].removesuffix("\n") if start and status[0] != "T" else None
            signs = [line[:1] for line in (patch or "").split("\n")]
            is_mode_only = status == "T" or (modes[0].strip(":") != modes[1] and before == after)
            word = {"A": "added", "D": "removed", "R": "renamed"}.get(status[0], "changed" if is_mode_only else "modified")
            old_path = paths[0] if len(paths) > 1 else None
            sha = before if status == "D" else after
            found.append(Change(word, paths[-1], sha, signs.count("+"), signs.count("-"), old_path, patch))
        return found

    async def diff(self, old: str, new: str) -> str:
        return (await self.run("diff", "--no-color", old, new)).decode(errors="replace")
