"""A local checkout: pack its files for the engine, and apply a verified change to it.

Only files that git tracks or does not ignore are packed, so ignored files (a `.env` with secrets, environments, data) are left
out. Only `apply` writes, and only inside the checkout.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from agent.ci.job.contexts import Run
from agent.contract.proposal import Edits
from agent.guest.text import one_line
from sandbox.base import MIB
from sandbox.host import git as host_git
from sandbox.host.archive import ArchiveLimits, leads_outside

# Folders that are left out of a checkout without git.
_NEVER = frozenset(
    {".git", ".hg", ".tox", ".nox", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
# Files of a project of its own inside a checkout, such as a package of a monorepo.
_PROJECT = (
    "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "package.json", "Cargo.toml", "go.mod", "pom.xml",
    "build.gradle", "build.gradle.kts", "Makefile", ".github", "requirements.txt", "pytest.ini", "manage.py",
)  # fmt: skip
UNTRACKED_LIMIT = 20 * MIB  # of an untracked file: a larger one is data, a model or a core dump
_SECRETS = (".env", ".env.local")
_REPOSITORY = re.compile(r"[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")  # in the URL of a remote


class NotACheckout(Exception):
    """The path has no files to work on; the message says what to pass instead."""


class CheckoutUnreadable(Exception):
    """A file of the checkout cannot be read. `path` is relative to the checkout."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} cannot be read: {reason}")
        self.path = path


class CheckoutUnwritable(Exception):
    """The repair could not be written; the checkout is unchanged. `path` is relative to the checkout."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path


class CheckoutChanged(CheckoutUnwritable):
    """The checkout changed since it was packed."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "changed during the repair, so nothing was written; run the command again")


@dataclass(frozen=True, slots=True)
class CheckoutFiles:
    """The files to pack, by their path from the root; None: all files of a folder that is not a git checkout.

    `notes` say what is missing, for people.
    """

    names: tuple[str, ...] | None
    notes: tuple[str, ...] = ()


async def root_of(path: Path, command: str) -> tuple[Path, str]:
    """The folder to work on, and a sentence if it is not the path: a folder that is no project of its own belongs to its
    repository. `command` is the one to type instead. Raises `NotACheckout`.
    """
    call = f"selfheal {command}"
    root, problem = await asyncio.to_thread(_folder, path, call)
    if problem:
        raise NotACheckout(f"{path} {problem}")
    kind = await git(root, "rev-parse", "--is-inside-git-dir", "--is-bare-repository")
    if kind == b"true\ntrue\n":
        clone = shlex.quote(f"{root.stem}-checkout")
        how = f"clone it, and pass the clone: `git clone {shlex.quote(str(path))} {clone} && {call} {clone}`"
        raise NotACheckout(f"{path} is a bare repository, which has no files; {how}")
    if kind == b"true\nfalse\n":
        whole = shlex.quote(str(root.parent))
        raise NotACheckout(f"{path} belongs to git; pass the folder of the checkout, such as `{call} {whole}`")
    shown = await git(root, "rev-parse", "--show-toplevel")
    top = root if shown is None else Path(os.fsdecode(shown.rstrip(b"\n")))
    is_own = top == root or any((root / name).exists() for name in _PROJECT)
    if is_own or not await git(root, "ls-files", "-z", "--", "."):  # an untracked folder may lie in a home that git keeps
        return root, ""
    return top, f"{path} is a folder of the checkout {top} and no project of its own, so the whole checkout is used"


def _folder(path: Path, call: str) -> tuple[Path, str]:
    """The absolute path, and what is wrong with it, or ""."""
    try:
        if not path.exists():
            return path, "does not exist; pass the folder of a checkout"
        if not path.is_dir():
            return path, f"is a file; pass the folder of its checkout, such as `{call} {shlex.quote(str(path.parent))}`"
        if not any(each.name != ".git" for each in path.iterdir()):
            return path, "is empty; pass the folder of a checkout"
    except OSError as error:
        return path, f"cannot be read: {error.strerror}"
    return path.resolve(), ""


async def list_files(root: Path) -> CheckoutFiles:
    """What git tracks, with the submodules that are there, and untracked files that are neither ignored nor large."""
    tracked = await git(root, "ls-files", "-z", "--cached", "--recurse-submodules")
    untracked = await git(root, "ls-files", "-z", "--others", "--exclude-standard")
    if tracked is None or untracked is None:
        return CheckoutFiles(None, ("this is no git checkout: all of its files are used, and no earlier commit is known",))
    notes, names = [], {*paths_of(tracked)}
    others = paths_of(untracked)
    sizes = await asyncio.to_thread(lambda: [_size(root / name) for name in others])
    for name, size in zip(others, sizes, strict=True):
        if size > UNTRACKED_LIMIT:
            notes.append(f"the untracked file {one_line(name, 100)} is left out: it has {size // MIB} MiB")
        else:
            names.add(name)
    shown = await git(root, "rev-parse", "--show-toplevel")
    if shown is not None and (top := Path(os.fsdecode(shown.rstrip(b"\n")))) != root:
        notes.append(f"only this folder is used, without the workflows and settings of its checkout; pass {top} to use them")
    return CheckoutFiles(tuple(sorted(names)), tuple(notes))


async def packed(root: Path, files: CheckoutFiles | None = None) -> AsyncIterator[bytes]:
    """The files (default: those of `list_files`) as a gzipped tar with one top folder, in chunks, without links that point
    outside it. Raises `CheckoutUnreadable`.
    """
    names = (files or await list_files(root)).names
    with tempfile.TemporaryFile() as archive:
        await asyncio.to_thread(_write_archive, archive, root, names)
        archive.seek(0)
        while chunk := await asyncio.to_thread(archive.read, MIB):
            yield chunk


async def commit(root: Path) -> Run:
    """The commit's sha, branch, repository, newest tag and time as CI would know them; "" if git does not know one."""
    sha = await git(root, "rev-parse", "--verify", "-q", "HEAD")
    branch = await git(root, "symbolic-ref", "--short", "-q", "HEAD")
    address = await git(root, "config", "--get", "remote.origin.url")
    tag = await git(root, "describe", "--tags", "--abbrev=0")
    made = (await git(root, "show", "-s", "--format=%ct", "HEAD") or b"").decode().strip()
    origin = _REPOSITORY.search((address or b"").decode("utf-8", "replace").strip())
    return Run(
        sha=(sha or b"").decode().strip(),
        branch=(branch or b"").decode("utf-8", "replace").strip(),
        repository=origin[1] if origin is not None else "",
        tag=(tag or b"").decode("utf-8", "replace").strip(),
        committed=datetime.fromtimestamp(int(made), UTC) if made.isdecimal() and len(made) < 12 else None,
    )


async def apply(root: Path, edits: Edits) -> None:
    """Write all changes to the checkout, or none. Raises `CheckoutChanged`, `CheckoutUnwritable`."""
    await asyncio.to_thread(_apply, root, edits)


async def git(root: Path, *arguments: str, stdin: bytes = b"") -> bytes | None:
    """Git's output; None if it fails, is too long, or git is not installed."""
    told = await host_git.read(root, *arguments, stdin=stdin)
    return told.stdout if told is not None and told.returncode == 0 and not told.truncated else None


def paths_of(listed: bytes) -> list[str]:
    """The entries of git's output with `-z`."""
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def _size(file: Path) -> int:
    """Bytes; 0 for what is no file."""
    try:
        return file.lstat().st_size if file.is_file() and not file.is_symlink() else 0
    except OSError:
        return 0


def _walked(root: Path) -> Iterator[str]:
    """Every file and link of a folder that is not a git checkout."""
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        names += [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if name not in _NEVER and not (here / name).is_symlink() and not (here / name / "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            if name not in _SECRETS:
                yield (here / name).relative_to(root).as_posix()


def _write_archive(archive: IO[bytes], root: Path, names: Sequence[str] | None) -> None:
    # Fast rather than small: the archive only goes from this process to the sandbox.
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as tar:
        top = tarfile.TarInfo("checkout")
        top.type, top.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(top)
        room = ArchiveLimits().unpacked
        for name in _walked(root) if names is None else names:
            try:
                room -= (root / name).lstat().st_size if (root / name).is_file() else 0
                if room < 0:
                    raise CheckoutUnreadable(name, f"the checkout is larger than {ArchiveLimits().unpacked // MIB} MiB")
                _add(tar, root / name, name)
            except OSError as error:
                raise CheckoutUnreadable(name, error.strerror or str(error)) from error


def _add(tar: tarfile.TarFile, full: Path, name: str) -> None:
    if full.is_symlink():
        if not leads_outside(name, str(full.readlink())):
            tar.addfile(tar.gettarinfo(full, f"checkout/{name}"))
        return
    if not full.is_file():  # a file that was removed since git listed it, a submodule, or a pipe
        return
    header = tar.gettarinfo(full, f"checkout/{name}")
    if header.islnk():  # archive a hard link as a separate file
        header.type, header.size = tarfile.REGTYPE, full.stat().st_size
    with full.open("rb") as content:
        tar.addfile(header, content)


def _apply(root: Path, edits: Edits) -> None:
    root = root.resolve()
    for change in edits:
        if _current_text(root, change.path) != change.before:
            raise CheckoutChanged(change.path)
    drafts: list[tuple[Path, Path]] = []
    removed: list[tuple[Path, Path]] = []  # files to remove are moved aside first, which fails where removing would
    try:
        for change in edits:
            file = root / change.path
            if change.after is None:
                removed.append(_moved_aside(file))
            else:
                drafts.append(_draft(file, change.after))
    except OSError as error:
        for draft, _ in drafts:
            draft.unlink()
        for aside, file in removed:
            aside.rename(file)
        reason = f"cannot be written: {error.strerror or error}; nothing was changed"
        raise CheckoutUnwritable(change.path, reason) from error
    for draft, file in drafts:
        draft.replace(file)
    for aside, _ in removed:
        aside.unlink()


def _reserved(folder: Path) -> tuple[int, Path]:
    """A new file in the folder, open for writing. Its name is new too: a repository may contain a link of any name."""
    descriptor, name = tempfile.mkstemp(prefix=".selfheal-", dir=folder)
    return descriptor, Path(name)


def _moved_aside(file: Path) -> tuple[Path, Path]:
    descriptor, aside = _reserved(file.parent)
    os.close(descriptor)
    try:
        return file.replace(aside), file
    except OSError:
        aside.unlink()
        raise


def _draft(file: Path, text: str) -> tuple[Path, Path]:
    """Write the new content next to the file, so that everything is on disk before the first file is replaced."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = _reserved(file.parent)
    try:
        with open(descriptor, "wb") as content:
            content.write(text.encode())
        draft.chmod(file.stat().st_mode & 0o7777 if file.exists() else 0o644)
    except OSError:
        draft.unlink()
        raise
    return draft, file


def _current_text(root: Path, path: str) -> str | None:
    """A file's text, or None if it does not exist. Raises `CheckoutChanged` for links and for files that are not text."""
    file = Path(os.path.normpath(root / path))
    # Never write through a link: a link that points outside the checkout was not part of the sandbox.
    if not file.is_relative_to(root) or file.is_symlink() or os.path.realpath(file.parent) != str(file.parent):
        raise CheckoutChanged(path)
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CheckoutChanged(path) from error
