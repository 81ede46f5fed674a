"""Targets that touch the disk or the service: trees, archives and webhooks."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.routing import Route

from app.service.web import create_app, create_webhooks
from app.settings import load
from sandbox.base import MIB, Command, Limits, SandboxError, UnsafeArchive, Workspace
from sandbox.host.archive import ArchiveLimits, unpack
from sandbox.host.tree import Tree
from sandbox.install import folder_cache
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.install.python import environments, interpreters
from sandbox.install.python.environments import TREE, EnvironmentRecipe
from sandbox.install.python.requirements import RequirementLines
from sandbox.local import LocalSandboxes
from tests.fuzz import mutate
from tests.fuzz.target import Attempt, Target
from tests.sandbox.conftest import chunks, tarball
from tests.webhooks.test_triggers import CHECK, COMMENT, PULL, RUN, STATUS, SUITE

# Makes a tree as its input says, below its working folder; what a kernel or a limit refuses is left out.
GROW = """
import json, os, socket, sys
NEW = os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW  # some trees are made outside of a sandbox: never write through a link
top = os.open(".", os.O_RDONLY)
for what, name, number in json.load(sys.stdin):
    name = name.encode("utf-8", "surrogateescape")
    here = os.dup(top)
    try:
        if what == "deep":
            for _ in range(number):
                os.mkdir(name, dir_fd=here)
                below = os.open(name, os.O_RDONLY, dir_fd=here)
                os.close(here)
                here = below
            open(os.open("leaf", NEW, dir_fd=here), "w").close()
        elif what == "many":
            for at in range(number):
                os.close(os.open(name + b"%d" % at, NEW, dir_fd=here))
        elif what == "folder":
            os.mkdir(name, dir_fd=here)
            os.close(os.open(name + b"/inside", NEW, dir_fd=here))
            os.chmod(name, number, dir_fd=here)
        elif what == "file":
            file = os.open(name, NEW, dir_fd=here)
            os.fchmod(file, number)
            os.close(file)
        elif what == "hole":
            file = os.open(name, NEW, dir_fd=here)
            os.ftruncate(file, number)
            os.close(file)
        elif what == "link":
            os.symlink(("/etc/passwd", "..", ".", "../" * 50, "missing", name, "/proc/self/root", "x" * 4000)[number % 8], name, dir_fd=here)
        elif what == "hard":
            os.link("leaf-%d" % number, name, src_dir_fd=here, dst_dir_fd=here)
        elif what == "pipe":
            os.mkfifo(name, 0o600, dir_fd=here)
        elif what == "socket":
            os.fchdir(here)
            socket.socket(socket.AF_UNIX).bind(name)
    except (OSError, ValueError, OverflowError) as error:
        print(what, name[:20], error)
    finally:
        os.close(here)
"""
NAMES = (
    "a", "d", ".git", ".git", "node_modules", ".selfheal-installed", "-rf", "a\nb", "\udcff\udcfe", "x" * 255, "x" * 256, " ", "a b", "*", "lib",
    "con", "\x1b[31m", "ü", "..a", "\u202e", "sitecustomize.py", "leaf-1",
)  # fmt: skip
MODES = (0o000, 0o300, 0o100, 0o400, 0o444, 0o555, 0o777, 0o1777, 0o4755, 0o2755, 0o6000)
LIMITS = Limits(memory=512 * MIB, processes=64, file_size=64 * MIB, open_files=256, disk=64 * MIB, cpu_seconds=20)


def _tree(chance: random.Random) -> dict[str, Any]:
    def one() -> tuple[str, str, int]:
        what = chance.choice(("deep", "many", "folder", "folder", "file", "hole", "link", "hard", "pipe", "socket"))
        number = {
            "deep": chance.choice((3, 199, 201, 400, 1_200, 3_000)), "many": chance.choice((10, 300, 3_000)), "folder": chance.choice(MODES),
            "file": chance.choice(MODES), "hole": chance.choice((1, 2**20, 2**40, 2**62)), "link": chance.randrange(8), "hard": 1,
        }.get(what, 0)  # fmt: skip
        return what, chance.choice(NAMES), number

    return {
        "grown": [one() for _ in range(chance.choice((1, 3, 12)))],
        "where": chance.choice(("base", "candidate", "dead", "environment")),
    }


@asynccontextmanager
async def _growing() -> AsyncIterator[Attempt]:
    with tempfile.TemporaryDirectory(prefix="fuzz-trees-") as name:
        top = Path(name)
        store = PackageStore(top / "packages", IndexAccess((), frozenset()))
        sandboxes, again = (LocalSandboxes(top / "open", store) for _ in range(2))

        async def grow(case: dict[str, Any]) -> None:
            if case["where"] == "environment":
                await _environment(top / "environments", case["grown"])
                return
            if case["where"] == "dead":
                (dead := top / "open" / "dead-0" / "repo").mkdir(parents=True)
                _grow(dead, case["grown"])
            async with sandboxes.open("fuzz", LIMITS) as sandbox:
                await sandbox.unpack(tarball({"leaf-1": b"1", "pkg/a.py": b"x = 1\n"}))
                command = Command((interpreters.own().path, "-I", "-c", GROW), 15.0, stdin=json.dumps(case["grown"]).encode())
                if case["where"] == "candidate":
                    async with sandbox.candidate() as candidate:
                        with suppress(SandboxError):  # such as one that fills the disk
                            await candidate.run(command)
                        await _look(candidate)
                else:
                    with suppress(SandboxError):
                        await sandbox.amend(command)
                    await _look(sandbox.base)
                    async with sandbox.candidate() as candidate:
                        await _look(candidate)
            async with again.open("after", LIMITS):
                pass
            assert not (left := os.listdir(top / "open")), left

        yield grow
        subprocess.run(["rm", "-rf", "--", str(top)], check=False)


async def _look(workspace: Workspace) -> None:
    """All that the host does with files; the documented refusals are `ValueError`, a missing file, and the sandbox's own."""
    paths = ["leaf-1", "a", "d/d", *NAMES]
    with suppress(SandboxError):
        paths += [entry.path for entry in (await workspace.files())[:20]]
    for path in paths:
        with suppress(SandboxError, ValueError, FileNotFoundError):
            await workspace.read(path, 1000)
    with suppress(SandboxError, ValueError):
        await workspace.write("d/new", b"new")
    with suppress(SandboxError, ValueError):
        await workspace.remove("a")


async def _environment(cache: Path, grown: list[tuple[str, str, int]]) -> None:
    """The shelf of shared environments, to which a hostile wheel adds a tree."""
    recipe = EnvironmentRecipe(
        interpreters.own(), ("fuzz",), RequirementLines((hashlib.sha256(repr(grown).encode()).hexdigest(),)), ()
    )

    async def make(folder: Path) -> bool:
        _grow(folder / TREE, grown)
        return True

    for _ in range(2):  # the second finds the first
        with suppress(OSError):  # documented, and costs this attempt only
            if (held := await environments.prepared(cache, recipe, make)) is not None:
                folder_cache.release(held)
    folder_cache.prune(cache)
    assert not (left := [path.name for path in cache.glob("new-*")]), left
    if random.Random(repr(grown)).random() < 0.2:  # nobody's folder is too odd to be superseded
        for folder in cache.iterdir():
            folder.rename(cache / f"new-{folder.name}")
        folder_cache.remove_unfinished(cache)
        assert not (left := os.listdir(cache)), left


def _grow(folder: Path, grown: list[tuple[str, str, int]]) -> None:
    (folder / "leaf-1").touch()
    subprocess.run(
        [sys.executable, "-I", "-c", GROW], input=json.dumps(grown).encode(), cwd=folder, check=True, capture_output=True
    )


trees = Target("trees", _tree, _growing)

_MEMBERS = (
    "top/a.txt",
    "top/pkg/b.py",
    "top",
    "top/pkg",
    "top/link",
    "top/.git/config",
    "other/a",
    "/etc/x",
    "top/../x",
    "../x",
    "top/" + "d/" * 300 + "x",
)
_KINDS = (*[tarfile.REGTYPE] * 6, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.GNUTYPE_SPARSE, b"Z")  # fmt: skip
_TARGETS = ("a.txt", "..", "../..", "/etc/passwd", "pkg/../a.txt", "", "x" * 5000, "link", "\udcff")
_PAX = (
    "size",
    "path",
    "linkpath",
    "mtime",
    "uid",
    "GNU.sparse.size",
    "GNU.sparse.map",
    "GNU.sparse.major",
    "GNU.sparse.name",
    "hdrcharset",
    "comment",
)


def _archive(chance: random.Random) -> bytes:
    buffer = io.BytesIO()
    form = chance.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for _ in range(chance.choice((1, 3, 10, 300))):
            header = tarfile.TarInfo(
                chance.choice(_MEMBERS) + chance.choice(("", "", str(chance.randrange(400)), *mutate.NASTY[:16]))
            )
            header.type, header.mode, content = (
                chance.choice(_KINDS),
                chance.choice(MODES),
                b"content" * chance.choice((0, 1, 5_000)),
            )
            header.linkname = chance.choice(_TARGETS) if header.type in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            header.size = len(content) if header.type == tarfile.REGTYPE else 0
            if chance.random() < 0.1:
                header.pax_headers = {chance.choice(_PAX): chance.choice((*mutate.HUGE, "1,2,3", "top/x", "../x", "a\nb"))}
            with suppress(ValueError, UnicodeError):  # what Python's own writer refuses
                tar.addfile(header, io.BytesIO(content))
    content = buffer.getvalue()
    if chance.random() < 0.5:
        content = _sealed(mutate.raw(chance, content)) if chance.random() < 0.6 else mutate.raw(chance, content)
    if chance.random() < 0.02:  # a bomb
        content = content[:512] + b"\0" * chance.choice((80, 300)) * MIB
    packed = gzip.compress(content, 1)
    return mutate.raw(chance, packed) if chance.random() < 0.2 else packed


def _sealed(content: bytes) -> bytes:
    """Headers with right checksums, so that what was changed in them is read."""
    blocks = [content[at : at + 512] for at in range(0, len(content), 512)]
    for at, block in enumerate(blocks):
        if len(block) == 512 and block[257:262] == b"ustar":
            total = sum(block[:148]) + 8 * 32 + sum(block[156:])
            blocks[at] = block[:148] + b"%06o\0 " % total + block[156:]
    return b"".join(blocks)


@asynccontextmanager
async def _unpacking() -> AsyncIterator[Attempt]:
    limits = ArchiveLimits(packed=64 * MIB, unpacked=200 * MIB, entries=200, ratio_from=16 * MIB)

    async def one(packed: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="fuzz-archives-") as name:
            (inside := Path(name) / "inside").mkdir()
            folder = os.open(inside, os.O_RDONLY | os.O_DIRECTORY)
            before = len(os.listdir("/proc/self/fd"))
            try:
                with suppress(UnsafeArchive):
                    await unpack(chunks(packed), Tree(folder), limits)
                assert len(os.listdir("/proc/self/fd")) == before, "a descriptor is left"
            finally:
                os.close(folder)
            assert os.listdir(name) == ["inside"]
            for path in inside.rglob("*"):
                assert path.is_symlink() or path.is_dir() or path.is_file(), path
                assert not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(inside), path

    yield one


archives = Target("archives", _archive, _unpacking)

_INSTALLATION = {"action": "created", "installation": {"id": 1, "account": {"login": "a"}, "permissions": {"checks": "write"}}, "repositories": [{"id": 7, "full_name": "a/b"}]}  # fmt: skip
_EVENTS: tuple[tuple[str, Any], ...] = (
    ("workflow_run", RUN), ("check_run", CHECK), ("check_suite", SUITE), ("status", STATUS), ("issue_comment", COMMENT),
    ("pull_request", PULL), ("installation", _INSTALLATION), ("installation_repositories", _INSTALLATION), ("ping", {"zen": "x"}), ("star", {"action": "created"}),
)  # fmt: skip
_SECRET = b"hush"
_ANSWERS = (202, 400, 401, 413, 415)


def _delivery(chance: random.Random) -> dict[str, Any]:
    event, payload = chance.choice(_EVENTS)
    payload = mutate.value(chance, payload) if chance.random() < 0.8 else payload
    try:
        body = json.dumps(payload, ensure_ascii=chance.random() < 0.7).encode("utf-8", "surrogatepass")
    except ValueError:
        body = b"null"
    if chance.random() < 0.3:
        body = mutate.raw(chance, body)
    if chance.random() < 0.05:
        body = b'{"a":' * 100_000 if chance.random() < 0.5 else b"[" * chance.choice((1_000, 3_000_000))
    is_signed = chance.random() < 0.85
    headers = {
        "x-hub-signature-256": "sha256=" + hmac.new(_SECRET if is_signed else b"hash", body, hashlib.sha256).hexdigest(),
        "x-github-event": chance.choice((event, event, event, _EVENTS[0][0])),
        "x-github-delivery": f"{chance.randrange(10**6)}-{chance.randrange(10**9)}",
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    if is_odd := chance.random() < 0.15:
        headers[chance.choice(sorted(headers))] = mutate.text(chance, ["application/json; charset=x", "sha256=00", "1"], 3_000)
    return {"headers": headers, "body": body, "is_right": is_signed and not is_odd, "parts": chance.choice((1, 1, 1, 7))}


@asynccontextmanager
async def _receiving() -> AsyncIterator[Attempt]:
    with tempfile.TemporaryDirectory(prefix="fuzz-webhooks-") as name:
        settings = load(data_dir=Path(name), github_webhook_secret=_SECRET.decode(), port=0, pages_port=0)
        route = Route("/webhooks/github", create_webhooks(settings), methods=["POST"])
        app = create_app(settings)
        async with app.router.lifespan_context(app) as state:

            async def post(case: dict[str, Any]) -> None:
                body, size = case["body"], len(case["body"]) // case["parts"] + 1
                parts = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
                asked = [{"type": "http.request", "body": part, "more_body": True} for part in parts] + [
                    {"type": "http.request"}
                ]
                headers = [(key.encode(), value.encode("utf-8", "surrogatepass")) for key, value in case["headers"].items()]
                scope = {
                    "type": "http", "method": "POST", "path": "/webhooks/github", "root_path": "", "query_string": b"", "headers": headers,
                    "state": dict(state or {}),
                }  # fmt: skip
                messages: list[Any] = []

                async def receive() -> Any:
                    return asked.pop(0) if asked else {"type": "http.disconnect"}

                async def send(message: Any) -> None:
                    messages.append(message)

                await route.handle(scope, receive, send)
                status, answer = messages[0]["status"], json.loads(messages[1]["body"])
                assert status in _ANSWERS, (status, answer)
                assert len(messages[1]["body"]) < 2_000, "a long answer"
                assert case["is_right"] or status != 202 or "content" in str(case["headers"]), status

            yield post


webhooks = Target("webhooks", _delivery, _receiving)
