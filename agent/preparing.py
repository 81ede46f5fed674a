"""Makes a task from a commit's files: unpack, plan the checks, install, replay the steps before them.

Knows sandboxes and plans, but not GitHub, attempts or repairs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent.case import Case, Prepared, Uninstalled, without_a_run
from agent.checks.runner import Runner
from agent.ci.job.commit import commit_workspace
from agent.ci.job.contexts import Run
from agent.ci.job.replay import Replayer
from agent.ci.job.selection import FailedJob
from agent.ci.plan import Plan, complete, plan
from agent.ci.project import install_failure, runtimes
from agent.ci.project.detection import absent_submodules
from agent.ci.project.imports import with_imported
from agent.ci.project.optional import from_elsewhere, optional_names
from agent.contract.budget import Budget
from agent.contract.events import Emit, StepDone, StepStarted
from agent.contract.outcome import ConfirmedFailure, NoRepair, Outcome
from agent.contract.task import Policy, Task
from agent.contract.verdicts import Check, CheckRun, Oracle
from agent.guest.text import one_line
from agent.report.endings import Ending
from agent.source.distributions import modules_of
from sandbox.base import Installed, InstallFailed, LimitExceeded, Sandbox, UnsafeArchive
from sandbox.install.python.interpreters import runs_as

LEFT_OUT = 5  # optional distributions that one installation may lack


async def prepare(
    case: Case, sandbox: Sandbox, emit: Emit, *, policy: Policy, budget: Budget
) -> Prepared | Uninstalled | NoRepair:
    """Everything before the first run of a check."""
    started = time.monotonic()
    await emit(StepStarted(step="unpack", text="Unpacking the repository"))
    try:
        await sandbox.unpack(case.archive)
    except UnsafeArchive as error:
        return without_a_run(
            Outcome.REFUSED,
            f"The repository's archive is not safe to unpack: {error.reason}.",
            "Remove links and paths that point outside the repository from this commit, then try again.",
        )
    except LimitExceeded as error:
        return _too_small(error)
    planned = await plan(
        sandbox.base, jobs=case.jobs, configuration=case.configuration, command=case.command, image=case.image, sandbox=sandbox
    )
    planned = replace(planned, notes=(*case.notes, *planned.notes))
    await emit(StepDone(step="unpack", text=_understood(planned), seconds=time.monotonic() - started))
    if not planned.is_open:
        return _ended(planned)
    try:
        run = next((job.run for job in case.jobs if isinstance(job, FailedJob)), Run())
        run = replace(run, tag=next((job.run.tag for job in case.jobs), ""))
        if said := await commit_workspace(sandbox, run):
            planned = replace(planned, notes=(*planned.notes, said))
    except LimitExceeded as error:
        return _too_small(error)
    planned = await asyncio.to_thread(_with_declared, planned, case)
    started = time.monotonic()
    await emit(StepStarted(step="install", text="Installing the dependencies"))
    try:
        planned, installed = await _install(case, planned, sandbox)
    except InstallFailed as error:
        said = install_failure.in_words(error)
        await emit(StepDone(step="install", text=f"Installing failed: {said}", seconds=time.monotonic() - started))
        return _uninstalled(case, planned, error)
    except LimitExceeded as error:
        return _too_small(error)
    await emit(StepDone(step="install", text=_installed(installed), seconds=time.monotonic() - started))
    try:
        planned = await _replayed(planned, sandbox, emit, budget.seconds / 2)
    except LimitExceeded as error:
        return _too_small(error)
    if not planned.checks:
        return _ended(planned)
    isolation = sandbox.isolation
    there = await runtimes.versions(sandbox.base, runtimes.needed(planned.checks, planned.runtimes))
    planned = replace(planned, notes=(*planned.notes, *runtimes.version_notes(planned.runtimes, there)))
    failed = [job for job in case.jobs if isinstance(job, FailedJob)]
    task = Task(
        id=case.id,
        sandbox=sandbox,
        checks=tuple(replace(check, absent=planned.absent) for check in planned.checks),
        policy=policy,
        budget=budget,
        hints=case.hints,
        environment=f"{_ran_on(planned, installed, there)}, sandbox {isolation.name}, "
        f"{'no network' if isolation.untrusted else 'with network and the files of its user'}",
        approximated=planned.notes,
        packages=planned.packages,
        reported_ids=tuple(dict.fromkeys(id_ for job in failed for id_ in job.reported_ids)),
        failed_in_ci=bool(failed),
        seed=next((job.seed for job in failed if job.seed is not None), None),
        clock=next((job.started for job in failed if job.started is not None), None),
        replayed=planned.seen,
        heals_flakiness=case.heals_flakiness,
    )
    return Prepared(task, planned, installed)


async def _install(case: Case, planned: Plan, sandbox: Sandbox) -> tuple[Plan, Installed]:
    """Install the packages, without optional ones that cannot be had here. Raises `InstallFailed`, and `SandboxError`."""
    failed = [job for job in case.jobs if isinstance(job, FailedJob)]
    # CI may have failed for the same reason, unless its log names tests.
    is_strict = planned.project is None or (failed and not any(job.reported_ids for job in failed))
    for _ in range(LEFT_OUT):
        try:
            return planned, await sandbox.install(planned.packages)
        except InstallFailed as error:
            if is_strict or planned.project is None:
                raise
            optional = optional_names(planned.project, planned.packages).difference(planned.packages.without)
            name = install_failure.culprit(error, optional, states=bool(planned.legs) and not failed)
            if not name:
                raise
            why = f"cannot be installed here, so tests that import it are skipped: {install_failure.in_words(error)}"
            planned = _without_package(planned, name, why)
    return planned, await sandbox.install(planned.packages)


def _without_package(planned: Plan, name: str, why: str) -> Plan:
    return replace(
        planned,
        packages=replace(planned.packages, without=(*planned.packages.without, name)),
        notes=(*planned.notes, f"`{name}` {why}"),
        absent=(*planned.absent, *modules_of(name)),
    )


def _with_declared(planned: Plan, case: Case) -> Plan:
    """The plan with what the project declares: packages that its tests import, and submodules that are not here."""
    project = planned.project
    if project is None:
        return planned
    folders = absent_submodules(project)
    notes = [
        f"the submodule {one_line(name, 100)} is not here, so tests that read it are skipped"
        for name in folders
        if not any(f"the submodule {one_line(name, 100)} " in note for note in planned.notes)
    ]
    packages, more = planned.packages, tuple[str, ...]()
    if not any(isinstance(job, FailedJob) for job in case.jobs):  # otherwise CI may have failed for want of them
        packages, more = with_imported(project, packages)
    planned = replace(planned, packages=packages, notes=(*planned.notes, *notes, *more))
    for name in from_elsewhere(project, packages):
        planned = _without_package(planned, name, "is not from a package index, so tests that import it are skipped")
    return replace(planned, absent=(*planned.absent, *(f"{name}/" for name in folders)))


def _uninstalled(case: Case, planned: Plan, error: InstallFailed) -> Uninstalled | NoRepair:
    run = install_failure.run_of(error)
    if run is None:
        return _without(install_failure.out_of_reach(error), planned.notes)
    was_met = any(isinstance(job, FailedJob) and job.reported_ids for job in case.jobs)  # its log names tests, so they ran
    ended = _without(install_failure.unmet(error, was_met=was_met), planned.notes)
    if was_met:
        return ended
    source = next((check.source for check in planned.checks), next((source for source, _ in planned.steps), "detected"))
    check = install_failure.check(source)
    oracle = Oracle((check,), {check.name: run.red}, {check.name: run.green})
    return Uninstalled(planned, ConfirmedFailure(oracle, (run,)), ended)


async def _replayed(planned: Plan, sandbox: Sandbox, emit: Emit, seconds: float) -> Plan:
    """The plan, completed by running the steps before the failing one."""
    if not (planned.asks or planned.services):
        return planned
    started = time.monotonic()
    await emit(StepStarted(step="replay", text="Replaying the steps of the failing job"))

    async def ran(check: Check, run: CheckRun) -> None:
        how = "passed" if run.exit_code == 0 else "failed" if run.ending == "finished" else run.ending
        which = f"Step `{check.name}`{', with the steps before it' if check.before else ''}"
        await emit(StepDone(step="replay", text=f"{which}: {how} ({run.seconds:.1f} s)", seconds=run.seconds))

    stage = Replayer(sandbox, Runner(sandbox), ran, time.monotonic() + seconds, planned.absent)
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
        "Raise the sandbox's limits in the settings, or make the repository's checkout smaller.",
    )


def _understood(planned: Plan) -> str:
    if not planned.checks:
        return planned.ending.reason if not planned.asks else "Will replay " + ", ".join(planned.asks)
    return "Will run " + ", ".join(f"`{check.command.strip().splitlines()[0]}` ({check.source})" for check in planned.checks)


def _python(planned: Plan, installed: Installed) -> str:
    wanted = planned.packages.python
    return f"Python {installed.python}" + ("" if runs_as(wanted, installed.python) else f" instead of {wanted}")


def _ran_on(planned: Plan, installed: Installed, there: Mapping[str, str]) -> str:
    """The runtimes that matter. Every sandbox has Python, so it is named only if the repository uses it."""
    others, wanted = runtimes.in_words(there), planned.packages
    is_python = any(check.is_python for check in planned.checks) or bool(replace(wanted, node=()) or wanted.python)
    return ", ".join((*((_python(planned, installed),) if is_python or not others else ()), *others))


def _installed(installed: Installed) -> str:
    built = f", built {', '.join(installed.built)}" if installed.built else ""
    return f"Python {installed.python} is ready{built}" + "".join(f". {note.rstrip('.')}" for note in installed.notes)
