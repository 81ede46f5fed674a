"""Each flag of the local sandbox's recipe is dropped in turn, on real bubblewrap: the proof has to say what no longer holds.

A flag that nothing can miss is listed with its reason, and where two protect from the same thing both are dropped together.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandbox import local
from sandbox.base import Limits, SandboxUnavailable
from sandbox.host import job, launch
from sandbox.host.job import Mount
from sandbox.jail import bubblewrap, cgroup, confinement, seccomp, stage
from sandbox.jail.cgroup import Group
from sandbox.jail.confinement import Confinement
from sandbox.proof import canaries
from sandbox.proof.canaries import Canaries
from sandbox.proof.findings import ATTACKS, Finding, Part
from sandbox.proof.prove import CALLS, MORE_CALLS, HostAssets, prove
from tests.sandbox.conftest import make
from tests.sandbox.proof.recipe import Drop, Patch, options, recipe_without
from tests.tiers import long_but

CHEAP: frozenset[Part] = frozenset({"environment", "files", "network", "uid", "processes", "kernel"})


def root_kept(*dropped: str, instead: Mapping[str, Sequence[str]] | None = None) -> Drop:
    """What drops root, without some of it."""

    def drop(patch: Patch) -> None:
        whole = Confinement._drop_root

        def arguments(self: Confinement) -> tuple[str, ...]:
            program, *rest = whole(self)
            kept = [program]
            for option in options(rest):
                kept += (instead or {}).get(option[0], () if option[0] in dropped else option)
            return () if "setpriv" in dropped else tuple(kept)

        patch.setattr(Confinement, "_drop_root", arguments)

    return drop


def bounds_without(*dropped: str) -> Drop:
    def drop(patch: Patch) -> None:
        whole = job.with_limits

        def bounded(limits: Limits, argv: Sequence[str], *, processes: bool = True) -> tuple[str, ...]:
            count = len(whole(limits, (), processes=processes))
            told = whole(limits, argv, processes=processes)
            return (*(word for word in told[:count] if not word.startswith(dropped)), *told[count:])

        patch.setattr(confinement, "with_limits", bounded)

    return drop


def no_filter(patch: Patch) -> None:
    """An empty filter: bubblewrap is given one that lets everything through."""
    import pyseccomp

    with tempfile.TemporaryFile() as file:
        pyseccomp.SyscallFilter(pyseccomp.ALLOW).export_bpf(file)
        file.seek(0)
        everything = file.read()
    patch.setattr(seccomp, "program", lambda: everything)


def filter_without(**values: Any) -> Drop:
    def drop(patch: Patch) -> None:
        for name, value in values.items():
            patch.setattr(seccomp, name, value)
        seccomp.program.cache_clear()
        narrower = seccomp.program()
        seccomp.program.cache_clear()
        patch.setattr(seccomp, "program", lambda: narrower)

    return drop


def call_allowed(name: str) -> Drop:
    return filter_without(DENIED=tuple(each for each in seccomp.DENIED if each != name))


def launched(**changes: Callable[[launch.Launch], Any]) -> Drop:
    """The start of the chain, with some of what is handed to it changed."""

    def drop(patch: Patch) -> None:
        from dataclasses import replace

        whole = launch.run

        async def run(told: launch.Launch) -> launch.ProcessResult:
            if bubblewrap.BWRAP in told.argv:
                told = replace(told, **{name: change(told) for name, change in changes.items()})
            return await whole(told)

        patch.setattr(launch, "run", run)

    return drop


def with_a_descriptor(told: launch.Launch) -> tuple[int, ...]:
    return (*told.descriptors, os.open("/", os.O_RDONLY))


def no_groups(patch: Patch) -> None:
    patch.setattr(cgroup, "make", lambda *_: None)


def no_env_i(patch: Patch) -> None:
    whole = Group.join.fget
    assert whole is not None
    patch.setattr(Group, "join", property(lambda self: whole(self)))
    run = launch.run

    async def without(told: launch.Launch) -> launch.ProcessResult:
        from dataclasses import replace

        argv = tuple(word for word in told.argv if word not in ("/usr/bin/env", "-i"))
        return await run(replace(told, argv=argv) if bubblewrap.BWRAP in told.argv else told)

    patch.setattr(launch, "run", without)


def both(*drops: Drop) -> Drop:
    def drop(patch: Patch) -> None:
        for each in drops:
            each(patch)

    return drop


def writable_mounts(patch: Patch) -> None:
    recipe_without(instead={"--ro-bind /usr ": ("--bind", "/usr", "/usr")})(patch)


def readable_shell(patch: Patch) -> None:
    patch.setattr(stage, "_SET_UP", stage._SET_UP.replace("0111", "0555"))


def every_environment(told: launch.Launch) -> Mapping[str, str]:
    return dict(os.environ)


SEEN: dict[str, tuple[Drop, str]] = {
    "--unshare-pid and --as-pid-1": (recipe_without("--unshare-pid", "--as-pid-1"), "other processes"),
    "--unshare-ipc": (recipe_without("--unshare-ipc"), "shared memory"),
    "--unshare-uts and --hostname": (recipe_without("--unshare-uts", "--hostname"), "host name"),
    "--hostname": (recipe_without("--hostname"), "host name"),
    "--unshare-net": (recipe_without("--unshare-net"), "loopback of the machine"),
    "--unshare-cgroup": (recipe_without("--unshare-cgroup"), "control groups"),
    "--new-session": (recipe_without("--new-session"), "session"),
    "--disable-userns, its check and the filter": (
        both(recipe_without("--disable-userns", "--assert-userns-disabled"), no_filter),
        "user namespaces",
    ),
    "--clearenv and the empty environment": (
        both(recipe_without("--clearenv"), no_env_i, launched(env=every_environment)),
        "own environment",
    ),
    "--as-pid-1": (recipe_without("--as-pid-1"), "first process"),
    "the shell that cannot be read": (readable_shell, "first process"),
    "--ro-bind /usr": (writable_mounts, "system files"),
    "--remount-ro /": (recipe_without("--remount-ro / "[:-1]), "system files"),
    "--remount-ro /dev": (recipe_without("--remount-ro /dev"), "system files"),
    "--dev": (recipe_without(instead={"--dev /dev": ("--dev-bind", "/dev", "/dev")}), "devices"),
    "--proc": (recipe_without("--proc"), "other processes"),
    "--size": (recipe_without("--size"), "disk"),
    "--tmpfs /tmp": (
        recipe_without("--size", "--perms", instead={"--tmpfs /tmp": ("--bind", "/tmp", "/tmp")}),
        "files of the worker",
    ),
    "setpriv": (root_kept("setpriv"), "owner"),
    "--reuid and --bounding-set": (root_kept("--reuid", "--bounding-set"), "owner"),
    "--regid": (root_kept("--regid"), "owner"),
    "--clear-groups": (root_kept(instead={"--clear-groups": ("--groups", "0")}), "groups"),
    "--seccomp": (no_filter, "system calls"),
    **{
        f"the filter's {name}": (call_allowed(name), "system calls") for name in ("keyctl", "ptrace", "io_uring_setup", "setns")
    },
    "the filter's TIOCSTI": (filter_without(TIOCSTI=0x5498), "terminal input"),
    "the filter's sockets": (filter_without(SOCKETS=(1, 2, 10, 16)), "sockets"),
    "closed descriptors": (launched(descriptors=with_a_descriptor), "descriptors"),
    "--nproc and the group": (both(bounds_without("--nproc"), no_groups), "processes"),
    "the group": (no_groups, "memory"),
    "--fsize": (bounds_without("--fsize"), "file size"),
    "--nofile": (bounds_without("--nofile"), "open files"),
    "--cpu": (bounds_without("--cpu"), "processor time"),
    "--core": (bounds_without("--core"), "core dumps"),
    "--memlock": (bounds_without("--memlock"), "locked memory"),
}

REFUSED: dict[str, tuple[Drop, str]] = {
    "--unshare-user": (recipe_without("--unshare-user"), "--unshare-user"),
    "--unshare-pid": (recipe_without("--unshare-pid"), "--unshare-pid"),
    "--unshare-uts": (recipe_without("--unshare-uts"), "--unshare-uts"),
    "--disable-userns": (recipe_without("--disable-userns"), "user namespace"),
    "--reuid": (root_kept("--reuid"), "namespaces"),
    "--clear-groups": (root_kept("--clear-groups"), "--clear-groups"),
}
"""Without these the rest of the recipe does not start, and its own words say why."""

OF_ROOT = ("setpriv", "--reuid and --bounding-set", "--regid", "--clear-groups", "--reuid")
"""How a worker that is root gives it up."""


def droppable(names: Iterable[str]) -> list[str]:
    """Those of them that this user's worker has."""
    return [name for name in names if os.geteuid() == 0 or name not in OF_ROOT]


UNSEEN = {
    "--disable-userns": "the filter refuses new user namespaces too: both are dropped together above",
    "--assert-userns-disabled": "a check of --disable-userns, no protection of its own",
    "--die-with-parent": "what a killed worker leaves running is looked for by the tests of the contract (test_life)",
    "--clearenv": "bubblewrap is started with an empty environment: both are dropped together above",
    "--reuid": "bubblewrap is refused by a root without capabilities: dropped together with --bounding-set above",
    "--cap-drop": "bubblewrap, which is no root, gives none; that there are none is tried all the same",
    "--bounding-set": "bubblewrap empties it as well; that it is empty is tried all the same",
    "--inh-caps": "bubblewrap empties them as well; that they are empty is tried all the same",
    "--no-new-privs": "bubblewrap sets it as well; that it is set is tried all the same",
    "--nproc": "a control group bounds it too, where one can be had: both are dropped together above",
    "--uid": "no protection: the code's uid outside is the slot's; inside it has one that /etc/passwd knows",
    "--gid": "no protection: as --uid",
    "--setenv": "no protection: what the code is given",
    "--symlink": "no protection: the names of system folders",
    "--ro-bind": "each of those mounts is looked at: /usr stands for all above",
    "--ro-bind-try": "as --ro-bind",
    "--perms": "no protection: whoever runs inside may write /tmp",
    "--chdir": "no protection: where the command starts",
    "--bind": "what may be written",
}
"""What no attack can miss alone, and why."""


def test_every_flag_is_dropped_or_has_its_reason() -> None:
    mounts = (Mount("/a", "/b"), Mount("/c", "/d", writable=True))
    recipe = bubblewrap.isolation_arguments(Limits(), mounts, {"A": "b"}, "/repo")
    flags = {option[0] for option in options(recipe)} | {option[0] for option in options(root_dropped()[1:-1])}
    flags |= {word.partition("=")[0] for word in job.with_limits(Limits(), ()) if word.startswith("--") and word != "--"}
    told = {word.rstrip(",") for name in SEEN for word in name.split()} | set(UNSEEN) | set(REFUSED)
    assert {flag for flag in flags if flag not in told} == set()


def root_dropped() -> tuple[str, ...]:
    """What a worker that is root gives it up with, whoever runs the tests."""
    return Confinement._drop_root(cast(Confinement, SimpleNamespace(uid=10001)))


@pytest.mark.parametrize("name", droppable(REFUSED))
async def test_without_it_nothing_starts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drop, words = REFUSED[name]
    drop(monkeypatch)
    with pytest.raises(SandboxUnavailable, match=words):
        await proven(tmp_path, frozenset({"uid"}))


async def proven(folder: Path, parts: frozenset[Part] | None = None) -> dict[str, Finding]:
    sandboxes = make("local", folder)
    secret = folder / "secret"
    secret.write_text("s3cr3t")
    return {found.name: found async for found in prove(sandboxes, HostAssets((folder, Path("/tmp")), (secret,)), parts)}


@pytest.mark.long
async def test_the_whole_recipe_holds(tmp_path: Path) -> None:
    found = await proven(tmp_path)
    assert {name.removesuffix(" (install step)") for name in found} == ATTACKS.keys()
    bounded = "memory" in local.isolation_here().promises  # it needs a control group, which not every user can have
    unmet = {name for name, each in found.items() if each.status not in ("ok", "skipped")}
    assert unmet == (set() if bounded else {"memory"}), [found[name].seen for name in unmet]


@pytest.mark.parametrize("name", long_but(droppable(SEEN), "the group", "--size"))
async def test_a_dropped_protection_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drop, expected = SEEN[name]
    drop(monkeypatch)
    parts = CHEAP | {ATTACKS[expected].part}
    found = await proven(tmp_path, parts)
    print({each.name: each.seen for each in found.values() if each.status != "ok"})
    assert found[expected].status == ATTACKS[expected].weight, found[expected].seen
    assert found[expected].fix


async def test_every_call_that_the_filter_lets_through_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is refused for another reason, which would count as the filter's merit."""
    tried = {*CALLS, *MORE_CALLS}
    filter_without(DENIED=tuple(each for each in seccomp.DENIED if each not in tried))(monkeypatch)
    found = (await proven(tmp_path, frozenset({"kernel"})))["system calls"]
    assert found.status == "failed"
    assert set(found.seen.removeprefix("not filtered: ").split(", ")) == tried


async def test_a_file_that_changes_meanwhile_is_known_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = canaries.planted

    @asynccontextmanager
    async def and_changed(folders: Sequence[Path], files: Sequence[Path]) -> AsyncIterator[Canaries]:
        async with planted(folders, files) as found:
            with files[0].open("a") as database:
                database.write("one more row")
            yield found

    monkeypatch.setattr(canaries, "planted", and_changed)
    recipe_without("--size", "--perms", instead={"--tmpfs /tmp": ("--bind", "/tmp", "/tmp")})(monkeypatch)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder, database = Path(name), Path(name, "own.db")
        folder.chmod(0o755)
        database.write_text("a row")
        database.chmod(0o644)
        sandboxes = make("local", folder)
        found = {each.name: each async for each in prove(sandboxes, HostAssets((), (database,)), frozenset({"files"}))}
    assert found["files of the worker"].status == "failed"
    assert str(database) in found["files of the worker"].seen


async def test_nothing_to_look_for_is_no_proof(tmp_path: Path) -> None:
    found = {each.name: each async for each in prove(make("local", tmp_path), HostAssets(), frozenset({"files"}))}
    assert found["files of the worker"].is_decisive
    assert not found["system files"].is_decisive


async def test_a_process_that_runs_out_of_its_own_memory_says_nothing_of_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = job.with_limits

    def bounded(limits: Limits, argv: Sequence[str], *, processes: bool = True) -> tuple[str, ...]:
        program, *rest = whole(limits, argv, processes=processes)
        return (program, "--as=100000000", *rest)

    no_groups(monkeypatch)
    monkeypatch.setattr(confinement, "with_limits", bounded)
    found = (await proven(tmp_path, frozenset({"limits"})))["memory"]
    assert found.status == "skipped", found.seen


async def test_a_folder_of_another_sandbox_is_found_where_the_machine_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        shown = ("--tmpfs", "/tmp", "--ro-bind", str(folder), str(folder))
        recipe_without(instead={"--tmpfs /tmp": shown})(monkeypatch)
        sandboxes = make("local", folder)
        for each in (folder, folder / "open"):
            each.mkdir(exist_ok=True)
            each.chmod(0o755)
        found = [each async for each in prove(sandboxes, HostAssets(sandboxes=folder), frozenset({"other sandboxes"}))]
    assert [each.status for each in found] == ["failed"]
    assert f"a file of another sandbox was read at {folder}" in found[0].seen


async def test_files_of_another_sandbox_that_are_not_found_are_no_proof(tmp_path: Path) -> None:
    grounds = HostAssets(sandboxes=tmp_path / "elsewhere")
    found = [each async for each in prove(make("local", tmp_path), grounds, frozenset({"other sandboxes"}))]
    assert [(each.status, each.seen) for each in found] == [
        ("skipped", "the second sandbox's files were not found on this machine")
    ]
