"""Makes a task from a commit's files: unpack, plan the checks, install, replay the steps before them.

Knows sandboxes and plans, but not GitHub, attempts or repairs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from agent.case import Case, Prepared, Uninstalled, without_a_run
from agent.checks.runner import Runner
from agent.ci import installation
from agent.ci.job.commit import commit_workspace
from agent.ci.job.contexts import Run
from agent.ci.job.replay import Replayer
from agent.ci.job.selection import FailedJob, RequestedJob
from agent.ci.plan import Plan, complete, plan
from agent.ci.project import install_failure, lfs, runtimes
from agent.ci.project.commands import telling_line
from agent.contract.budget import Budget
from agent.contract.events import Emit, StepDone, StepStarted
from agent.contract.outcome import ConfirmedFailure, NoRepair, Outcome
from agent.contract.task import Policy, Task
from agent.contract.verdicts import Check, CheckRun, Oracle
from agent.edits.originals import read_originals
from agent.report.endings import MORE_TIME, Ending, stopped
from sandbox.base import Installed, InstallFailed, LimitExceeded, Sandbox, UnsafeArchive
from sandbox.install.python.interpreters import runs_as

RECENT = timedelta(days=14)  # packages that were released since then rarely matter, and asking for their dates takes time
OTHERS = 2  # jobs that are tried after one whose replay was refused


@dataclass(frozen=True, slots=True)
class _Ready:
    """A plan whose packages are installed and whose open jobs are replayed; `there` are the runtimes that it calls."""

    planned: Plan
    installed: Installed
    there: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Refused:
    """A plan of which nothing can run here as in CI."""

    planned: Plan
    ending: Ending


async def prepare(
    case: Case, sandbox: Sandbox, emit: Emit, *, policy: Policy, budget: Budget
) -> Prepared | Uninstalled | NoRepair:
    """Everything before the first run of a check."""
    started = time.monotonic()
    await emit(StepStarted(step="unpack", text="Unpacking the repository"))
    try:
        await sandbox.unpack(case.archive)
        planned = await _planned(case, case.jobs, sandbox)
        await emit(StepDone(step="unpack", text=_understood(planned), seconds=time.monotonic() - started))
        if not planned.is_open:
            return _ended(planned)
        run = next((job.run for job in case.jobs if isinstance(job, FailedJob)), Run())
        run = replace(run, tag=next((job.run.tag for job in case.jobs), case.tag))
        is_local = not any(isinstance(job, FailedJob) for job in case.jobs)
        said = [await commit_workspace(sandbox, run)]
        said += [await lfs.note(sandbox.base, planned.project.paths, is_local=is_local)] if planned.project is not None else []
        good, unread = await read_originals(sandbox.base, case.good)
        notes = (*(note for note in said if note), *unread)
        case = replace(case, notes=(*case.notes, *notes), good=good)
        planned = replace(planned, notes=(*planned.notes, *notes))
        ready = await _of_any_job(case, planned, sandbox, emit, budget.seconds / 2)
    except UnsafeArchive as error:
        return without_a_run(
            Outcome.REFUSED,
            f"The repository's archive is not safe to unpack: {error.reason}.",
            "Remove links and paths that point outside the repository from this commit, then try again.",
        )
    except LimitExceeded as error:
        return _too_small(error)
    if isinstance(ready, _Ready):
        return Prepared(_task(case, ready, sandbox, policy, budget), ready.planned, ready.installed)
    return _without(ready.ending, ready.planned.notes) if isinstance(ready, _Refused) else ready


async def _planned(case: Case, jobs: tuple[RequestedJob, ...], sandbox: Sandbox) -> Plan:
    planned = await plan(
        sandbox.base, jobs=jobs, configuration=case.configuration, command=case.command, image=case.image, sandbox=sandbox
    )
    packages = replace(planned.packages, as_of=_day(jobs)) if planned.packages.node else planned.packages
    return replace(planned, notes=(*case.notes, *planned.notes), packages=packages)


def _day(jobs: Sequence[RequestedJob]) -> str | None:
    """The day after CI ran, or after the commit was made; None if that is unknown or recent."""
    known = [job.started if isinstance(job, FailedJob) else job.run.committed for job in jobs]
    when = next((time for time in known if time is not None), None)
    is_old = when is not None and datetime.now(UTC) - when.astimezone(UTC) > RECENT
    return (when.astimezone(UTC) + timedelta(days=1)).date().isoformat() if when is not None and is_old else None


async def _of_any_job(
    case: Case, planned: Plan, sandbox: Sandbox, emit: Emit, seconds: float
) -> _Ready | _Refused | Uninstalled | NoRepair:
    """The plan made ready. If its job was our choice and is refused, another job; if all are refused, the first refusal.

    If that is for want of a program, such as a task runner, the tests are run without a job, as they were detected.
    """
    until, jobs = time.monotonic() + seconds, case.jobs
    ready = first = await _made_ready(case, planned, sandbox, emit, until)
    lacks_program = isinstance(first, _Refused) and any(one.result.absent_program for one in first.planned.legs)
    for _ in range(OTHERS):
        if not isinstance(ready, _Refused) or time.monotonic() > until:
            break
        jobs = ready.planned.other(jobs, ready.ending)
        planned = await _planned(case, jobs, sandbox) if jobs else planned
        if not (jobs and planned.is_open and (planned.legs or lacks_program)):
            break
        await emit(StepDone(step="replay", text=f"{ready.ending.reason} {_understood(planned)}", seconds=0.0))
        ready = await _made_ready(case, planned, sandbox, emit, until)
    return first if isinstance(ready, _Refused) else ready


async def _made_ready(
    case: Case, planned: Plan, sandbox: Sandbox, emit: Emit, until: float
) -> _Ready | _Refused | Uninstalled | NoRepair:
    """Install, and replay the open jobs."""
    kind, texts = sandbox.isolation.name, planned.project.texts if planned.project is not None else {}
    asked = [*planned.checks, *(check for one in planned.legs if one.result.asks for check in one.result.checks)]
    there = await runtimes.versions(sandbox.base, runtimes.needed(asked, planned.runtimes))
    if (lacks := runtimes.without(asked, there, planned.runtimes, texts, kind)) is not None:
        return _Refused(planned, lacks)
    if planned.packages.node and there.get("Node.js"):
        wanted = runtimes.node_version(planned.runtimes, texts, there["Node.js"])
        planned = replace(planned, packages=replace(planned.packages, node_version=wanted or None))
    failed = any(isinstance(job, FailedJob) for job in case.jobs)
    planned = await asyncio.to_thread(installation.with_what_tests_need, planned, failed_in_ci=failed)
    started = time.monotonic()
    await emit(StepStarted(step="install", text="Installing the dependencies"))
    try:
        planned, installed = await installation.install(
            planned, sandbox, failed_in_ci=failed, was_met=_was_met(case), until=until
        )
    except InstallFailed as error:
        said = install_failure.in_words(error)
        await emit(StepDone(step="install", text=f"Installing failed: {said}", seconds=time.monotonic() - started))
        return _uninstalled(case, planned, error)
    await emit(StepDone(step="install", text=_installed(installed), seconds=time.monotonic() - started))
    if (version := planned.packages.node_version) and runtimes.rules_out_node(texts, there["Node.js"]):
        there = await runtimes.versions(sandbox.base, ("Node.js",), planned.packages.node[0], asked)
        node = there.get("Node.js", "")  # the repository's own may be broken, or never answer
        if not node or runtimes.rules_out_node(texts, node):
            return _Refused(planned, runtimes.missing("Node.js", {"Node.js": version}, texts, kind, node))
    planned = await _replayed(planned, sandbox, emit, until)
    if not planned.checks:
        absent = [one.result.absent_program for one in planned.legs if one.result.absent_program]
        # A tool is often missing because the job's own runtime, which would install it, is.
        lacking = [name for name in map(runtimes.runtime_of, absent) if name] + [name for name in there if not there[name]]
        ending = runtimes.missing(lacking[0], planned.runtimes, texts, kind) if absent and lacking else planned.ending
        return _Refused(planned, ending)
    folder = next(iter(planned.packages.node), ".")
    called = runtimes.needed(planned.checks, planned.runtimes)
    there = await runtimes.versions(sandbox.base, called, folder, planned.checks)
    planned = replace(planned, notes=(*planned.notes, *runtimes.version_notes(planned.runtimes, there)))
    return _Ready(planned, installed, there)


def _task(case: Case, ready: _Ready, sandbox: Sandbox, policy: Policy, budget: Budget) -> Task:
    planned, isolation = ready.planned, sandbox.isolation
    failed = [job for job in case.jobs if isinstance(job, FailedJob)]
    return Task(
        id=case.id,
        sandbox=sandbox,
        checks=tuple(replace(check, absent=planned.absent) for check in planned.checks),
        policy=policy,
        budget=budget,
        hints=case.hints,
        environment=f"{_ran_on(planned, ready.installed, ready.there)}, sandbox {isolation.name}, "
        f"{'no network' if isolation.untrusted else 'with network and the files of its user'}",
        approximated=planned.notes,
        packages=planned.packages,
        reported_ids=tuple(dict.fromkeys(id_ for job in failed for id_ in job.reported_ids)),
        failed_in_ci=bool(failed),
        seed=next((job.seed for job in failed if job.seed is not None), None),
        clock=next((job.started for job in failed if job.started is not None), None),
        replayed=planned.seen or case.seen,
        heals_flakiness=case.heals_flakiness,
        good=case.good,
        history=case.history,
    )


def _uninstalled(case: Case, planned: Plan, error: InstallFailed) -> Uninstalled | NoRepair:
    run = install_failure.run_of(error)
    if run is None:
        return _without(install_failure.out_of_reach(error), planned.notes)
    was_met = _was_met(case)
    ended = _without(install_failure.unmet(error, was_met=was_met), planned.notes)
    if was_met:
        return ended
    source = next((check.source for check in planned.checks), next((source for source, _ in planned.steps), "detected"))
    check = install_failure.check(source)
    oracle = Oracle((check,), {check.name: run.red}, {check.name: run.green})
    return Uninstalled(planned, ConfirmedFailure(oracle, (run,)), ended)


def _was_met(case: Case) -> bool:
    """Whether CI could install what its failed jobs need."""
    return any(isinstance(job, FailedJob) and job.reported_ids for job in case.jobs)  # its log names tests, so they ran


async def _replayed(planned: Plan, sandbox: Sandbox, emit: Emit, until: float) -> Plan:
    """The plan, completed by running the steps before the failing one; no step starts after `until`."""
    if not (planned.asks or planned.services):
        return planned
    started = time.monotonic()
    await emit(StepStarted(step="replay", text="Replaying the steps of the failing job"))

    async def ran(check: Check, run: CheckRun) -> None:
        if run.ending == "timeout":
            text = f"Step `{check.name}`: {stopped(run, telling_line(check.command))} {MORE_TIME}"
            await emit(StepDone(step="replay", text=text, seconds=run.seconds))
            return
        how = "passed" if run.exit_code == 0 else "failed" if run.ending == "finished" else run.ending
        which = f"Step `{check.name}`{', with the steps before it' if check.before else ''}"
        await emit(StepDone(step="replay", text=f"{which}: {how} ({run.seconds:.1f} s)", seconds=run.seconds))

    stage = Replayer(sandbox, Runner(sandbox), ran, until, planned.absent)
    planned = await complete(planned, stage)
    await emit(StepDone(step="replay", text=_understood(planned), seconds=time.monotonic() - started))
    return planned


def _ended(planned: Plan) -> NoRepair:
    return _without(planned.ending, planned.notes)


def _without(ending: Ending, notes: Sequence[str]) -> NoRepair:
    return without_a_run(ending.outcome, ending.reason, ending.next_step, *notes)


def _too_small(error: LimitExceeded) -> NoRepair:
    return without_a_run(
        Outcome.INFRASTRUCTURE,
        f"Preparing the repository reached the sandbox's {error.which} limit ({error.limit:,}).",
        "Make the repository's checkout smaller, or ask the operator of Selfheal to raise the sandbox's limits.",
    )


def _understood(planned: Plan) -> str:
    if not planned.checks:
        return "Will replay " + ", ".join(planned.asks) if planned.asks else ""
    return "Will run " + ", ".join(f"`{telling_line(check.command)}` ({check.source})" for check in planned.checks)


def _python(planned: Plan, installed: Installed) -> str:
    wanted = planned.packages.python
    return f"Python {installed.python}" + ("" if runs_as(wanted, installed.python) else f" instead of {wanted}")


def _ran_on(planned: Plan, installed: Installed, there: Mapping[str, str]) -> str:
    """The runtimes that matter. Every sandbox has Python, so it is named only if the repository uses it."""
    others, wanted = runtimes.in_words(there), planned.packages
    is_python = any(check.is_python for check in planned.checks) or bool(
        replace(wanted, node=(), crates=(), go_modules=()) or wanted.python
    )
    return ", ".join((*((_python(planned, installed),) if is_python or not others else ()), *others))


def _installed(installed: Installed) -> str:
    built = f", built {', '.join(installed.built)}" if installed.built else ""
    return f"Python {installed.python} is ready{built}" + "".join(f". {note.rstrip('.')}" for note in installed.notes)
