"""Runs one command inside bubblewrap and interprets how it ended; assigns a uid to each open sandbox if the worker is root.

worker → sh (joins the control group) → nsenter (the stage) → setpriv (drops root) → bwrap. Each replaces the one before,
so there is one process to kill, and bwrap dies with the worker. Inside: sh (process 1, `bubblewrap.FIRST`) → prlimit → command.

Per-user limits apply to everything under one uid, so each sandbox gets its own. Workers on one machine coordinate by file
locks, which the kernel releases when a worker dies.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from sandbox.base import Completed, DeadlinePassed, LimitExceeded, Limits, SandboxLost, SandboxUnavailable
from sandbox.host import launch
from sandbox.host.job import Job, with_limits
from sandbox.jail import bubblewrap, seccomp
from sandbox.jail.cgroup import Group
from sandbox.jail.stage import Stage

# A range that no distribution assigns: above ordinary users, below systemd's dynamic users (61184).
FIRST_UID = 60_600
SLOTS = 500
LOCKS = Path("/run/selfheal-slots")


@contextmanager
def uid_of_a_free_slot(locks: Path = LOCKS) -> Iterator[int]:
    """A uid exclusive to this context on this machine. Raises `SandboxUnavailable`."""
    locks.mkdir(mode=0o700, exist_ok=True)
    for slot in range(SLOTS):
        descriptor = os.open(locks / str(slot), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        try:
            yield FIRST_UID + slot
        finally:
            os.close(descriptor)
        return
    raise SandboxUnavailable(f"all {SLOTS} sandbox slots of this machine are in use", retry_after=30.0)


@dataclass(frozen=True, slots=True)
class Confinement:
    """What all commands of one sandbox share. `uid` is the slot's uid if the worker is root, else None."""

    stage: Stage
    uid: int | None
    group: Group | None
    limits: Limits

    async def run(self, job: Job) -> Completed:
        """Run `job`. Raises `DeadlinePassed`, `LimitExceeded`, `SandboxLost`, `SandboxUnavailable`."""
        group = None
        try:
            if self.group is not None:
                group = await asyncio.to_thread(self.group.child, token_hex(6))
            with ExitStack() as opened:
                return await self._run(job, group, opened)
        except OSError as error:
            raise SandboxLost(f"the sandbox's files are gone: {error}", tuple(job.argv)) from error
        finally:
            if group is not None:
                await asyncio.shield(asyncio.to_thread(group.remove))

    async def _run(self, job: Job, group: Group | None, opened: ExitStack) -> Completed:
        hosts = _memory_file(opened, bubblewrap.hosts_file(job.hosts).encode()) if job.hosts else None
        options = bubblewrap.isolation_arguments(self.limits, job.mounts, job.env, job.cwd, hosts)
        arguments = _memory_file(opened, "\0".join(options).encode() + b"\0")
        filter_ = _memory_file(opened, seccomp.program())
        # bwrap writes a few short lines; the pipe buffers them until it ends.
        reading, status = os.pipe()
        opened.callback(os.close, reading)
        closing = opened.enter_context(ExitStack())
        closing.callback(os.close, status)
        argv = (
            *(() if group is None else (*group.join, "/usr/bin/env", "-i")),  # the shell in `join` exports PWD
            *self.stage.enter,
            *self._drop_root(),
            *(bubblewrap.BWRAP, "--args", str(arguments), "--seccomp", str(filter_), "--json-status-fd", str(status), "--"),
            *(f"{bubblewrap.INIT}/sh", "-c", bubblewrap.FIRST, "sh"),
            *with_limits(self.limits, job.argv),
        )
        ended = await launch.run(
            launch.Launch(
                argv,
                {},
                job.timeout,
                job.stdin,
                job.output_limit,
                (arguments, filter_, status, *(() if hosts is None else (hosts,))),
                cwd="/",
                started=job.started,
                heard=job.heard,
            )
        )
        closing.close()
        os.set_blocking(reading, False)
        return self._classify(job, ended, os.read(reading, 1 << 16), group)

    def _classify(self, job: Job, ended: launch.ProcessResult, status: bytes, group: Group | None) -> Completed:
        """If the command itself ended, that is a result; anything else is an infrastructure failure."""
        if ended.timed_out:
            raise DeadlinePassed(job.timeout, ended.stdout, ended.stderr)
        code, starved = bubblewrap.exit_code(status), group is not None and group.memory_kills() > 0
        if code is not None:
            return Completed(code, ended.stdout, ended.stderr, ended.seconds, ended.truncated, starved)
        if starved:
            raise LimitExceeded("memory", self.limits.memory)
        if ended.returncode < 0:
            raise SandboxLost(f"the sandbox was killed from outside (signal {-ended.returncode})", tuple(job.argv))
        raise SandboxUnavailable(bubblewrap.why_it_failed(ended.stderr.decode(errors="replace")))

    def _drop_root(self) -> tuple[str, ...]:
        if self.uid is None:
            return ()
        uid = str(self.uid)
        return (
            *("/usr/bin/setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"),
            *("--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs", "--"),
        )


def _memory_file(opened: ExitStack, content: bytes) -> int:
    descriptor = os.memfd_create("arguments")
    opened.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
