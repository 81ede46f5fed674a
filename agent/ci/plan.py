"""Decides what to run to see the failure, and what to install for it.

In this order: the command line, the repository's configuration, the failed jobs' own steps, detection. Knows files in a
workspace, not GitHub's API. Every guess and omission becomes a note.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, replace

from agent.checks.services import available_services
from agent.ci.expressions.hash_files import MatchedFiles
from agent.ci.job.choice import JobKind, choose_job, shortened, title_of
from agent.ci.job.leg import FailingStep, Leg, StepOutcome, TraversalResult
from agent.ci.job.refusals import needs_services, unreadable_workflow
from agent.ci.job.replay import Replayer
from agent.ci.job.selection import AnyJob, ChosenJob, RequestedJob, select_leg
from agent.ci.job.traversal import read_steps
from agent.ci.project import detection, ecosystems, runtimes
from agent.ci.project.asking import ask
from agent.ci.project.commands import read_command, tools_of
from agent.ci.project.configuration import NO_CONFIGURATION, Configuration, TestCommand
from agent.ci.project.detection import Project
from agent.ci.project.install_commands import merge
from agent.ci.project.locked_sources import locked_sources
from agent.ci.runners.default_tests import detected, packages_of_tox, stated
from agent.ci.runners.dispatch import follow_script
from agent.ci.workflows.document import WorkflowProblem
from agent.contract.outcome import Outcome
from agent.contract.verdicts import Check, CheckRun, Service
from agent.guest.text import one_line
from agent.report.endings import TEST_OPTION, Ending
from sandbox.base import Packages, Sandbox, Workspace

_LOCKED = {"uv.lock": "uv sync", "poetry.lock": "poetry install", "pdm.lock": "pdm install"}  # what installs from a lock file
READING = 20.0  # seconds for reading the workflows of all jobs; an ordinary one takes milliseconds
NO_CHECKS = Ending(
    Outcome.NOTHING_FAILED,
    "The repository has no tests that Selfheal can find, and no failing step that can be run again.",
    f"Name the command that shows the failure under `test:` in `.github/selfheal.yml`. {TEST_OPTION}",
)


@dataclass(frozen=True, slots=True)
class PlannedLeg:
    """A job to replay, and the result of reading it."""

    leg: Leg
    result: TraversalResult


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run and what to install. If there are no `checks`, and no `asks` that a replay can answer, `ending` says why."""

    checks: tuple[Check, ...]
    packages: Packages
    notes: tuple[str, ...] = ()
    ending: Ending = NO_CHECKS
    legs: tuple[PlannedLeg, ...] = ()
    project: Project | None = None
    seen: tuple[CheckRun, ...] = ()  # runs of checks, from a replay
    absent: tuple[str, ...] = ()  # as in `Check`
    pins: tuple[str, ...] = ()  # those of the `packages` that a lock file adds although no job asks for it

    def other(self, jobs: tuple[RequestedJob, ...], ending: Ending) -> tuple[RequestedJob, ...]:
        """The request for another job than the planned one, which was refused; empty if this job was asked for by name."""
        (asked,) = jobs if len(jobs) == 1 else (None,)
        if not isinstance(asked, AnyJob) or not self.legs:
            return ()
        return (replace(asked, refused=(*asked.refused, (title_of(self.legs[0].leg), shortened(ending)))),)

    @property
    def asks(self) -> tuple[str, ...]:
        """What only running the steps can show, for people."""
        return tuple(f"{planned.leg.source}, to see {planned.result.asks}" for planned in self.legs if planned.result.asks)

    @property
    def services(self) -> tuple[Service, ...]:
        """Servers that a check or a replay needs."""
        asked = [service for check in self.checks for service in check.services]
        asked += [service for planned in self.legs if planned.result.asks for service in planned.leg.wanted.services]
        return tuple(service for at, service in enumerate(asked) if service not in asked[:at])

    @property
    def runtimes(self) -> dict[str, str]:
        """Other languages, with the versions that the jobs request."""
        return {name: version for planned in self.legs for name, version in planned.result.runtimes.items()}

    @property
    def is_open(self) -> bool:
        return bool(self.checks or self.asks)

    @property
    def steps(self) -> tuple[tuple[str, tuple[StepOutcome, ...]], ...]:
        """The outcome of each job's steps."""
        return tuple((planned.leg.source, planned.result.steps) for planned in self.legs)


async def plan(
    workspace: Workspace,
    *,
    jobs: tuple[RequestedJob, ...] = (),
    configuration: Configuration = NO_CONFIGURATION,
    command: str | None = None,
    image: str | None = None,
    sandbox: Sandbox | None = None,
) -> Plan:
    """`image` is the requested image that the workspace's code runs in; tools are asked in `sandbox` what they would run.

    Raises `SandboxError`; whatever the repository's files contain, the result is a plan or a reason."""
    project = await detection.read_project(workspace)
    until = time.monotonic() + READING
    while True:
        planner = _Planner(project, MatchedFiles(project.paths, workspace.root))
        planner.until = until
        if command is not None:
            planner.add_command(TestCommand(run=command), "command line")
        elif configuration.test and not any(isinstance(job, ChosenJob) for job in jobs):
            for test in configuration.test:
                planner.add_command(test, "configuration")
        else:
            for job in jobs:
                await planner.add_job(job, workspace.root, image)
        planned = await asyncio.to_thread(planner.finish, configuration)
        asked = time.monotonic()
        if sandbox is None or not await ask(project.answers, sandbox):
            return planned
        until += time.monotonic() - asked


async def complete(planned: Plan, stage: Replayer) -> Plan:
    """The plan completed in the prepared sandbox: its servers are checked, its open jobs replayed. Raises `SandboxError`."""
    assert planned.project is not None
    base = stage.sandbox.base
    planner = _Planner(planned.project, MatchedFiles((entry.path for entry in await base.files() if not entry.link), base.root))
    planner.checks, planner.notes = list(planned.checks), list(planned.notes)
    missing: list[Service] = []
    if planned.services:
        there = await available_services(stage.runner, base, planned.services)
        planner.notes += there.notes
        if there.missing:
            missing = [service for service, _ in there.missing]
            planner.refused = needs_services(there.sentence)
            planner.notes.append(there.sentence)
            planner.checks = [check for check in planner.checks if not any(one in missing for one in check.services)]
    for known in planned.legs:
        if any(one in missing for one in known.leg.wanted.services):
            continue
        if not known.result.asks:
            planner.legs.append(known)
            continue
        planner.take(known.leg, await stage.replay(known.leg, planned.project, planner.files))
    ending = planner.ending() or planned.ending
    return replace(
        planned,
        checks=tuple(planner.checks),
        notes=tuple(dict.fromkeys(planner.notes)),
        ending=ending,
        legs=tuple(planner.legs),
        seen=tuple(planner.seen),
    )


class _Planner:
    """Gathers checks, packages and notes of one plan."""

    def __init__(self, project: Project, files: MatchedFiles) -> None:
        self.project, self.files = project, files
        self.checks: list[Check] = []
        self.legs: list[PlannedLeg] = []
        self.seen: list[CheckRun] = []
        self.packages = Packages()
        self.pins: tuple[str, ...] = ()
        self.notes: list[str] = []
        self.refused: Ending | None = None
        self.until = time.monotonic() + READING

    def add_command(self, test: TestCommand, source: str) -> None:
        followed = follow_script(test.run, self.project, {})
        self.packages = merge(self.packages, followed.packages)
        self.notes += followed.notes
        reading = read_command(followed.command or test.run, self._script)
        self._add(
            Check(
                test.name, followed.command or test.run, test.kind or reading.reader, test.timeout, followed.cwd, followed.env,
                source,
            ),
            reading.tool,
        )  # fmt: skip

    async def add_job(self, asked: RequestedJob, root: str, image: str | None) -> None:
        if isinstance(asked, AnyJob):
            await self._add_any_job(asked, root, image)
            return
        leg = await asyncio.to_thread(select_leg, asked, self.project, root)
        if isinstance(leg, WorkflowProblem):
            where = f"workflow {asked.workflow_path or '?'}"
            if isinstance(asked, ChosenJob):
                self.refused = Ending(
                    Outcome.REFUSED, f"{where}: {leg}", "Choose another job or other values, or fix the workflow file."
                )
            else:
                job = one_line(asked.name, 100)
                self.notes.append(f"{where}, job {job}: {str(leg).rstrip('.')}; the tests were detected instead")
            return
        self._add_leg(leg, await asyncio.to_thread(read_steps, leg, self.project, self.files, until=self.until), image)

    async def _add_any_job(self, asked: AnyJob, root: str, image: str | None) -> None:
        choice = await asyncio.to_thread(choose_job, asked, self.project, self.files, root, until=self.until)
        chosen = next(iter(choice.jobs), None)
        if chosen is not None and chosen.kind >= JobKind.OTHER_TESTS and (asked.refused or self._detects_tests()):
            chosen = None
        self.notes += [f"skipped an unreadable workflow: {problem}" for problem in choice.unreadable]
        self.notes += [note] if (note := choice.note(chosen)) else []
        if chosen is not None:
            self._add_leg(chosen.leg, chosen.result, image)
        elif choice.unreadable:
            self.refused = unreadable_workflow(choice.unreadable[0])

    def _add_leg(self, leg: Leg, result: TraversalResult, image: str | None) -> None:
        if leg.image is not None and leg.image != image:
            other = one_line(leg.image, 100)
            self.notes.append(f"the job runs in the image {other} in CI, but on the sandbox's own system here")
        self.packages = merge(self.packages, result.packages)
        self.take(leg, result)

    def _detects_tests(self) -> bool:
        return (
            detection.detect_check(self.project) is not None
            or ecosystems.detect(self.project.paths, self.project.texts) is not None
        )

    def take(self, leg: Leg, result: TraversalResult) -> None:
        self.legs.append(PlannedLeg(leg, result))
        self.notes += result.notes
        if isinstance(result.end, FailingStep):
            check, tool, seen = result.end.check, result.end.tool, result.end.seen
            name = self._free_name("tests" if check.runs_tests else tool if check.reader == "findings" else check.name)
            self.seen += [replace(seen, check=name)] if seen is not None else []
            self._add(replace(check, name=name), tool)

    def ending(self) -> Ending | None:
        return self.refused or next((planned.result.ending for planned in self.legs if planned.result.ending is not None), None)

    def finish(self, configuration: Configuration) -> Plan:
        ending = self.ending()
        if not self.checks and ending is None and not any(planned.result.asks for planned in self.legs):
            found = detection.detect_check(self.project)
            other = ecosystems.detect(self.project.paths, self.project.texts)
            if found is None and other is None and not self._takes_stated(configuration):
                return Plan((), Packages(python=configuration.python), tuple(self.notes), legs=tuple(self.legs))
            if found is not None:
                self._add(self._as_written_down(found, configuration), found.reader)
            elif other is not None:
                self._add(other.check, other.check.reader)
                self.packages = merge(self.packages, other.packages)
                self.notes += other.notes
        packages = self.packages
        if configuration.packages is not None:
            packages = merge(configuration.packages, Packages(requirements=packages.requirements))
            detected = detection.detect_packages(self.project)
            packages = merge(packages, Packages(projects=() if packages.projects else detected.projects))
        elif not (packages.requirement_files or packages.groups or packages.projects):
            detected = merge(packages, self._detected_packages())
            python = configuration.python or packages.python or detection.detect_python(self.project)
            packages = detected if self.legs else merge(self._locked(detected, python), detected)
        if not packages.node:
            packages = merge(
                packages, Packages(node=tuple(c.cwd for c in self.checks if runtimes.needed((c,), {}) == ("Node.js",)))
            )
        reached = [*self.checks, *(check for planned in self.legs for check in planned.result.checks)]
        sources, notes = locked_sources(reached, self.project)
        self.notes += notes
        packages = self._existing(merge(packages, sources))
        return Plan(
            tuple(self.checks),
            replace(packages, python=configuration.python or packages.python or detection.detect_python(self.project)),
            tuple(dict.fromkeys(self.notes)),
            ending or NO_CHECKS,
            tuple(self.legs),
            self.project,
            pins=self.pins,
        )

    def _locked(self, packages: Packages, python: str | None) -> Packages:
        """What the project's lock file installs beside these packages, for a command that no job prepares."""
        for lock, command in _LOCKED.items():
            if lock in self.project.paths:
                found = follow_script(command, self.project, {}, python=python)
                lines = [line for line in found.packages.requirements if line not in packages.requirements]
                self.pins = tuple(line for line in lines if "==" in line)
                says = f"no job says what to install, so the versions are those of {lock}"
                self.notes += [*([says] if self.pins else []), *found.notes]
                return found.packages
        return Packages()

    def _detected_packages(self) -> Packages:
        self.notes += detection.contradictions(self.project)
        return detection.detect_packages(self.project)

    def _takes_stated(self, configuration: Configuration) -> bool:
        """Add what the repository names its tests, if it names any."""
        python = configuration.python or detection.detect_python(self.project)
        if (own := stated(self.project, python)) is None:
            return False
        followed, line = own
        self.packages = merge(self.packages, followed.packages)
        self.notes += [f"no test files were recognized, so `{one_line(line, 80)}` counts as the tests", *followed.notes]
        reading = read_command(followed.command, self._script)
        self._add(
            Check("tests", followed.command, reading.reader, cwd=followed.cwd, env=followed.env, source="detected"),
            reading.tool,
        )
        return True

    def _as_written_down(self, found: Check, configuration: Configuration) -> Check:
        """The detected tests as the repository's own runner runs them, if that is one command."""
        python = configuration.python or detection.detect_python(self.project)
        own = detected(self.project, python)
        if own is None:
            if (of_tox := packages_of_tox(self.project, python)) != Packages():
                self._add_packages(of_tox)
            return found
        followed, line = own
        self._add_packages(followed.packages)
        self.packages = replace(self.packages, python=detection.detect_python(self.project) or self.packages.python)
        self.notes += [f"the tests were detected from `{one_line(line, 80)}`", *followed.notes]
        if "\n" in followed.command:
            return found  # it is not certain that a report or a coverage threshold is what failed
        reader = read_command(followed.command).reader
        return replace(found, command=followed.command, reader=reader, cwd=followed.cwd, env={**found.env, **followed.env})

    def _add_packages(self, packages: Packages) -> None:
        """Of the repository's own runner; with what is detected, if it does not say what the tests need."""
        self.packages = merge(self.packages, packages)
        if not _names_what_tests_need(packages):
            self.packages = merge(self.packages, self._detected_packages())

    def _add(self, check: Check, tool: str) -> None:
        same = next(
            (one for one in self.checks if (one.command, one.cwd, one.shell) == (check.command, check.cwd, check.shell)), None
        )
        if same is not None:  # usually the same job on several Python versions
            other = sorted(name for name in {*same.env, *check.env} if same.env.get(name) != check.env.get(name))
            named = f", except for the variables {one_line(', '.join(other), 100)}" if other else ""
            self.notes.append(f"{check.source}: skipped, because it runs the same command as {same.source}{named}")
            return
        self.checks.append(check)
        self.packages = merge(self.packages, tools_of(check, tool))

    def _free_name(self, wanted: str) -> str:
        taken = {check.name for check in self.checks}
        wanted = one_line(wanted, 60) or "step"
        return next(name for number in range(1, 1000) if (name := wanted if number == 1 else f"{wanted} {number}") not in taken)

    def _script(self, path: str) -> str:
        return self.project.texts.get(path, "")

    def _existing(self, packages: Packages) -> Packages:
        """The packages without files and projects that the repository does not have."""
        paths = self.project.paths

        def is_there(path: str) -> bool:
            if path in paths:
                return True
            self.notes.append(f"{one_line(path, 100)} is named in an install step but missing from the repository")
            return False

        def is_project(path: str) -> bool:
            folder = path.partition("[")[0].rstrip("/")
            prefix = "" if folder in (".", "") else folder + "/"
            return any(prefix + name in paths for name in ("pyproject.toml", "setup.py", "setup.cfg"))

        def is_node(path: str) -> bool:
            return ("package.json" if path == "." else f"{path}/package.json") in paths

        groups = self.project.table("dependency-groups")
        return replace(
            packages,
            requirement_files=tuple(path for path in packages.requirement_files if is_there(path)),
            constraint_files=tuple(path for path in packages.constraint_files if is_there(path)),
            projects=_joined(tuple(path for path in packages.projects if is_project(path))),
            node=tuple(dict.fromkeys(path for path in packages.node if is_node(path))),
            groups=tuple(name for name in packages.groups if name in groups),
        )


def _names_what_tests_need(packages: Packages) -> bool:
    """Whether a runner says what it installs. More, such as the pins of another environment, could contradict it."""
    named = {re.split(r"[^\w-]", line)[0] for line in packages.requirements} - {"pytest", "setuptools", "wheel"}
    return bool(named or packages.requirement_files or packages.groups or any("[" in one for one in packages.projects))


def _joined(projects: tuple[str, ...]) -> tuple[str, ...]:
    """One entry per project, with all its extras: "." and ".[test]" become ".[test]"."""
    extras: dict[str, list[str]] = {}
    for project in projects:
        folder, _, named = project.partition("[")
        extras.setdefault(folder, []).extend(name.strip() for name in named.rstrip("]").split(",") if name.strip())
    return tuple(f"{folder}[{','.join(dict.fromkeys(names))}]" if names else folder for folder, names in extras.items())
