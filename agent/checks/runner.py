"""Runs a check inside a workspace and reads its verdicts.

Knows the sandbox and the guest that observes the run from inside; knows nothing of repairs. The guest runs next to hostile
code, so its reports are validated, cleaned and bounded here. A missing or invalid report makes the run "crashed", never passed.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Literal, NamedTuple

import msgspec

from agent.checks import printed
from agent.checks.findings import read_findings, read_traceback
from agent.checks.guest_bundle import guest_bundle
from agent.checks.oracle import MARKS_LIMIT, merge
from agent.contract import words
from agent.contract.verdicts import EXIT, Check, CheckRun, Conditions, Failure, Frame, Service, Step, Verdict, VerdictId
from agent.guest.text import ID_LIMIT, RUNNING, clean, identity, one_line
from agent.source.protected import DECIDING
from sandbox.base import MIB, Command, Completed, DeadlinePassed, LimitExceeded, Sandbox, Workspace

GRACE = 10.0  # seconds after the check's limit in which the guest's supervisor can still report
OUTPUT_LIMIT = 20_000  # characters of what a test run printed
FINDINGS_LIMIT = 2_000_000  # the same limit if verdicts are read from the output
REPORT_LIMIT = 16 * MIB  # bytes of the guest's answer
MARK_LIMIT = 500  # characters of one tampering mark
PREPARED_LIMIT = 2_001  # reported effects of the steps before a check
MESSAGE_LIMIT, DETAILS_LIMIT, FRAMES_LIMIT = 500, 8_000, 50

TESTS = 100_000  # verdicts read from the output
RED = (Verdict.FAILED, Verdict.ERROR)
UNINFORMATIVE = (0, 126, 127)  # exit codes that say nothing about the code: success, or the program is missing
NO_TESTS = 5  # exit code of pytest without a test that it could collect
_TOOLS = {"RUFF_OUTPUT_FORMAT": "concise"}  # one line per finding


class _Failure(msgspec.Struct):
    message: str = ""
    details: str = ""
    frames: list[tuple[str, int, str]] = []

    def failure(self, name: str) -> Failure:
        frames = (
            Frame(clean(path, ID_LIMIT), line, clean(function, 200)) for path, line, function in self.frames[-FRAMES_LIMIT:]
        )
        return Failure(VerdictId(name), self.message, self.details, tuple(frames))


class _Report(msgspec.Struct):
    """The guest supervisor's answer."""

    ending: Literal["finished", "timeout", "crashed"]
    exit_code: int | None
    seconds: float
    observed: bool
    verdicts: dict[str, tuple[Verdict, float]]
    failures: dict[str, _Failure]
    output: str
    notes: list[str]
    marks: list[str] = []
    prepared: list[str] = []
    told_all: bool = False
    stopped_at: str = ""
    left: dict[str, str] = {}
    hung: float = 0.0


WATCH: ContextVar[Callable[[str], None] | None] = ContextVar("WATCH", default=None)
"""Gets the id of a test that takes long, and "" once it has ended, from every run in this context, if the sandbox can tell it.
A command line sets it, to show what it waits for; nothing depends on it."""


class StepResult(NamedTuple):
    """A check's run, and what it exported to later steps: "env", "path", "output" → text."""

    run: CheckRun
    exports: Mapping[str, str]


class GuestReply(NamedTuple):
    """The guest's output for a command other than `run`; it may be hostile. `problem` says why it is incomplete."""

    output: bytes
    problem: str = ""


class Runner:
    """Runs checks in the workspaces of one sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._guest: str | None = None

    @property
    def guest(self) -> str:
        """Path of the guest's zipapp inside the sandbox. Raises `RuntimeError` before `prepare`."""
        if self._guest is None:
            raise RuntimeError("the runner is not prepared: call `prepare` first")
        return self._guest

    async def prepare(self) -> None:
        """Put the guest into the sandbox, once. Raises `SandboxError`."""
        if self._guest is None:
            self._guest = await self._sandbox.provide("selfheal-guest.zip", guest_bundle())

    async def run(
        self, workspace: Workspace, check: Check, *, only: frozenset[VerdictId] | None = None, timeout: float | None = None
    ) -> CheckRun:
        """Run one check and read its verdicts.

        `only` limits a test run to these ids; if an id is a file, the tests in it run too. An id that disappears when fixed (an
        uncollectable file, a finding) counts as passed once a run no longer reports it. Raises `SandboxError`, except
        `DeadlinePassed`: a timeout is an ending of the run, not an infrastructure error.
        """
        return (await self.step(workspace, check, only=only, timeout=timeout)).run

    async def step(
        self,
        workspace: Workspace,
        check: Check,
        *,
        only: frozenset[VerdictId] | None = None,
        timeout: float | None = None,
        path: Sequence[str] = (),
    ) -> StepResult:
        """As `run`, for callers that run more steps in the same workspace. The folders in `path` come first on PATH."""
        seconds = check.timeout if timeout is None else timeout
        series = [replace(check, conditions=(each,)) for each in check.conditions] or [check]
        ran: list[StepResult] = []
        for one in series:
            ran.append(await self._step(workspace, one, only, seconds, path))
            if ran[-1].run.ending != "finished":
                break
        return StepResult(merge([each.run for each in ran]), ran[-1].exports)

    async def _step(
        self, workspace: Workspace, check: Check, only: frozenset[VerdictId] | None, seconds: float, path: Sequence[str]
    ) -> StepResult:
        await self.prepare()
        nonce = secrets.token_hex(16)
        request = {
            "nonce": nonce,
            "guest": self.guest,
            **_program(check),
            **prelude_of(check, path),
            "reader": check.reader,
            "root": workspace.root,
            # If the command failed as a whole, it hid every test, so all of them run.
            "only": None if only is None or EXIT in only else sorted(only),
            "absent": list(check.absent),
            "timeout": seconds,
            "output_limit": FINDINGS_LIMIT if check.reader in ("findings", *printed.READERS) else OUTPUT_LIMIT,
        }
        command = Command(
            argv=(workspace.python, "-I", "-S", self.guest, "run"),  # without the environment's .pth files, code of others
            timeout=seconds + GRACE,
            stdin=json.dumps(request).encode(),
            output_limit=REPORT_LIMIT,
            hosts=_hosts(check),
            heard=_listener(),
        )
        try:
            completed = await workspace.run(command)
        except DeadlinePassed as passed:
            return StepResult(CheckRun(check.name, "timeout", {}, (), passed.seconds, output=_printed(passed.stderr)), {})
        # Parsing and cleaning a large report takes seconds.
        return await asyncio.to_thread(_read, completed, nonce, check, workspace.root, only)

    async def ask(
        self, workspace: Workspace, guest_command: str, stdin: bytes, seconds: float, *, check: Check | None = None
    ) -> GuestReply:
        """Run another guest command, with the environment of `check`. Raises `SandboxError`, except for exceeded limits."""
        await self.prepare()
        argv = (workspace.python, self.guest, guest_command)
        env, hosts = ({}, ()) if check is None else ({**check.outer, **check.env, **_conditions(check).env}, _hosts(check))
        command = Command(argv, max(1.0, seconds), env=env, stdin=stdin, output_limit=REPORT_LIMIT, hosts=hosts)
        try:
            return GuestReply((await workspace.run(command)).stdout)
        except DeadlinePassed as passed:
            return GuestReply(passed.stdout, "timed out")
        except LimitExceeded as exceeded:
            return GuestReply(b"", str(exceeded))


def prelude_of(check: Check, path: Sequence[str] = ()) -> dict[str, object]:
    """The part of a guest request that prepares a check's tests: servers, steps, environment."""
    conditions = _conditions(check)
    return {
        "outer": {**_TOOLS, **check.outer},
        "env": {**check.env, **conditions.env},
        "path": list(path),
        "deciding": DECIDING if check.before else (),
        "services": [service_request(service) for service in check.services],
        "before": [_program(step) for step in check.before],
        "conditions": {"shuffle": conditions.shuffle, "seed": conditions.seed, "clock": conditions.clock},
    }


def _conditions(check: Check) -> Conditions:
    return check.conditions[0] if check.conditions else Conditions()


def service_request(service: Service) -> dict[str, object]:
    return {
        "kind": service.kind, "port": service.port, "name": service.name, "image": service.image, "env": dict(service.env)
    }  # fmt: skip


def _listener() -> Callable[[bytes], None] | None:
    """Passes on the tests that the guest's supervisor names."""
    watch, rest = WATCH.get(), b""
    if watch is None:
        return None

    def heard(chunk: bytes) -> None:
        nonlocal rest
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(RUNNING.encode()):
                watch(one_line(line.decode("utf-8", "replace").removeprefix(RUNNING), ID_LIMIT))

    return heard


def _hosts(check: Check) -> tuple[str, ...]:
    return tuple(service.host for service in check.services if service.host != "localhost")


def _program(step: Check | Step) -> dict[str, object]:
    return {
        "name": step.name, "script": step.command, "shell": step.shell, "cwd": step.cwd, "timeout": step.timeout,
        "outer": {**_TOOLS, **step.outer}, "env": dict(step.env), "may_fail": isinstance(step, Step) and step.may_fail,
    }  # fmt: skip


def _read(completed: Completed, nonce: str, check: Check, root: str, only: frozenset[VerdictId] | None) -> StepResult:
    report = _report(completed, nonce)
    if report is None:
        ending: Literal["crashed", "out_of_memory"] = "out_of_memory" if completed.out_of_memory else "crashed"
        return StepResult(CheckRun(check.name, ending, {}, (), completed.seconds, output=_printed(completed.stderr)), {})
    return StepResult(_check_run(check, report, root, only, completed.out_of_memory), report.left)


def _report(completed: Completed, nonce: str) -> _Report | None:
    """The supervisor's report, or None if it is missing or not authentic, or if the supervisor did not end by itself."""
    if completed.exit_code:
        return None
    start, space, rest = completed.stdout.partition(b" ")
    if not space or not secrets.compare_digest(start, nonce.encode()):
        return None
    try:
        # Not msgspec's own parser: escaped lone surrogates are accepted here and cleaned later.
        return msgspec.convert(json.loads(rest), _Report)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None


def _check_run(check: Check, report: _Report, root: str, wanted: frozenset[VerdictId] | None, out_of_memory: bool) -> CheckRun:
    only = wanted or frozenset()
    output = clean("\n".join([report.output, *report.notes]).strip("\n"), OUTPUT_LIMIT)
    findings = read_findings(report.output, root, check.cwd)
    frames = [*(frame for finding in findings for frame in finding.frames), *read_traceback(report.output, root, check.cwd)]
    exit_failure = _exit_failure(report, output, frames)
    verdicts: dict[VerdictId, Verdict] = {}
    failures: tuple[Failure, ...] = ()
    durations: dict[VerdictId, float] = {}
    observed = report.observed
    if check.reader in printed.READERS:
        # This alone never proves a pass: the code under test can print the same.
        verdicts, failures = printed.READERS[check.reader](report.output, root)
        verdicts, failures, observed = _cleaned(verdicts), tuple(map(_bounded, failures)), bool(verdicts)
    elif check.runs_tests:
        verdicts = {_id(name): verdict for name, (verdict, _) in report.verdicts.items()}
        durations = {_id(name): seconds for name, (_, seconds) in report.verdicts.items()}
        failures = tuple(raw.failure(name) for name, raw in report.failures.items() if verdicts.get(_id(name)) in RED)
        failures = tuple(map(_bounded, failures))
        if out_of_memory:  # the guest sees only that the process is gone
            failures = tuple(map(_starved, failures))
    if check.runs_tests:
        if not observed and report.ending == "finished" and report.exit_code not in UNINFORMATIVE:
            # Something before the tests failed (a linter, a build), so the tests never ran.
            verdicts, failures = {EXIT: Verdict.ERROR}, (exit_failure,)
        elif observed and report.exit_code == 0 and EXIT in only:
            verdicts[EXIT] = Verdict.PASSED
        elif (wanted is None or EXIT in only) and _fails_as_a_whole(check, report, verdicts):
            verdicts[EXIT], failures = Verdict.FAILED, (exit_failure,)
    elif report.ending == "finished" and report.exit_code == 0:
        # This holds even if findings were printed: the tool is configured to pass.
        verdicts = dict.fromkeys(only or {EXIT}, Verdict.PASSED)
    elif report.ending == "finished":
        failures = (check.reader == "findings" and findings) or (exit_failure,)
        verdicts = {failure.id: Verdict.FAILED for failure in failures}
        if EXIT not in verdicts:
            verdicts |= dict.fromkeys(only - verdicts.keys() - {EXIT}, Verdict.PASSED)
    return CheckRun(
        check=check.name,
        ending="out_of_memory" if out_of_memory else report.ending,
        verdicts=verdicts,
        failures=failures,
        seconds=report.seconds,
        durations=durations,
        exit_code=report.exit_code,
        output=output,
        marks=frozenset(one_line(mark, MARK_LIMIT) for mark in report.marks[:MARKS_LIMIT]),
        prepared=frozenset(one_line(said, MARK_LIMIT) for said in report.prepared[:PREPARED_LIMIT]),
        told_all=report.told_all,
        stopped_at=one_line(report.stopped_at, 200),
        hung=report.hung,
    )


def _cleaned(verdicts: Mapping[VerdictId, Verdict]) -> dict[VerdictId, Verdict]:
    """Clean the ids. If two become equal, the worse verdict counts."""
    ordered = sorted(verdicts.items(), key=lambda item: item[1].red)
    return {_id(name): verdict for name, verdict in ordered[-TESTS:]}


def _starved(failure: Failure) -> Failure:
    return replace(failure, message=words.STARVED) if failure.message.startswith(words.DIED) else failure


def _bounded(failure: Failure) -> Failure:
    return Failure(
        id=_id(failure.id),
        message=one_line(failure.message, MESSAGE_LIMIT),
        details=clean(failure.details, DETAILS_LIMIT),
        frames=failure.frames[-FRAMES_LIMIT:],
    )


def _fails_as_a_whole(check: Check, report: _Report, verdicts: Mapping[VerdictId, Verdict]) -> bool:
    """The command fails although no test does: because of a coverage limit, a later command, or forged verdicts."""
    if check.absent and report.exit_code == NO_TESTS and set(verdicts.values()) == {Verdict.SKIPPED}:
        return False  # every test file needs what the sandbox lacks
    none_is_red = not any(verdict.red for verdict in verdicts.values())
    return report.ending == "finished" and report.exit_code != 0 and bool(verdicts) and none_is_red


def _id(name: str) -> VerdictId:
    return VerdictId(identity(name))


def _exit_failure(report: _Report, output: str, frames: Sequence[Frame]) -> Failure:
    last = next((line for line in reversed(output.split("\n")) if line.strip()), "")
    return _bounded(Failure(EXIT, f"exit code {report.exit_code}: {last}", output, tuple(frames)))


def _printed(stderr: bytes) -> str:
    lines = stderr[-OUTPUT_LIMIT:].decode("utf-8", "replace").splitlines()
    return clean("\n".join(line for line in lines if not line.startswith(RUNNING)), OUTPUT_LIMIT)
