"""Decides what is run to see the failure, and what must be installed for it.

In this order: the command a person gave, the repository's configuration, the failed jobs' own steps, detection. Knows files
inside a workspace; knows nothing of GitHub's API. Everything that was guessed or left out is said in a note.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent.ci import detect, ecosystems
from agent.ci.actions import command_of
from agent.ci.commands import LINTERS, Reading, merge, read_command
from agent.ci.configuration import NO_CONFIGURATION, Configuration, TestCommand
from agent.ci.detect import Project
from agent.ci.hooks import PATH as HOOKS
from agent.ci.hooks import read_hooks
from agent.ci.workflow import Job, Step, read_job
from agent.guest.text import one_line
from agent.task import Check
from sandbox.base import Packages, Workspace

NO_CHECKS = "No tests were found in the repository, and no failing step that can be run again."
NO_CHECKS_NEXT = "Name the command that shows the failure under `test:` in `.github/selfheal.yml`, or pass it with `--test`."


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that failed in CI: what is known of it. Texts come from outside and are data only."""

    name: str  # as GitHub shows it, "tests (3.11)"
    workflow: str | None  # text of its workflow file at the failing commit
    workflow_path: str = ""
    failed_step: str | None = None  # as GitHub shows it


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run and what to install. Without checks, `reason` and `next_step` say why and what a person can do."""

    checks: tuple[Check, ...]
    packages: Packages
    notes: tuple[str, ...] = ()
    reason: str = ""
    next_step: str = ""


async def plan(
    workspace: Workspace,
    *,
    jobs: tuple[FailedJob, ...] = (),
    configuration: Configuration = NO_CONFIGURATION,
    command: str | None = None,
) -> Plan:
    """Raises `SandboxError`; whatever the repository's files hold ends in a plan or a reason."""
    planner = _Planner(await detect.read_project(workspace))
    if command is not None:
        planner.add_command(TestCommand(run=command), "command line")
    elif configuration.tests:
        for test in configuration.tests:
            planner.add_command(test, "configuration")
    else:
        for job in jobs:
            planner.add_job(job)
    return planner.finish(configuration)


class _Planner:
    """Gathers checks, packages and notes of one plan."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.checks: list[Check] = []
        self.packages = Packages()
        self.notes: list[str] = []

    def add_command(self, test: TestCommand, source: str) -> None:
        reading = self._expanded(read_command(test.run, self._script))
        self.packages = merge(self.packages, reading.packages)
        command = reading.command or test.run
        self._add(Check(test.name, command, test.kind or reading.reader, timeout=test.timeout, source=source), reading.tool)

    def add_job(self, failed: FailedJob) -> None:
        where = f"workflow {failed.workflow_path or '?'}, job {one_line(failed.name, 100)}"
        job = read_job(failed.workflow, failed.name) if failed.workflow is not None else "the workflow file is not known"
        if isinstance(job, str):
            self.notes.append(f"{where}: {job}; the tests were detected instead")
            return
        if job.services:
            self.notes.append(f"{where}: it starts services, which the sandbox does not have")
        packages = Packages(python=job.python)
        steps: list[tuple[Step, Reading]] = []
        for step in job.steps:
            if text := step.run or command_of(step.uses, step.inputs):
                reading = self._expanded(read_command(text, _in_folder(self._script, step.cwd)))
                packages = merge(packages, _moved(reading.packages, step.cwd))
                steps.append((step, reading))
        chosen = self._choose(job, failed, steps, where)
        self.packages = merge(self.packages, packages)
        for step, reading in chosen:
            source = f"{where}, step {step.number}"
            if step.unresolved:
                self.notes.append(f"{source}: it uses an expression that only GitHub can evaluate; detection takes its place")
                continue
            name = self._free_name("tests" if reading.reader not in ("exit", "findings") else reading.tool or step.name)
            env = {key: value for key, value in step.env.items() if not key.startswith(("GITHUB_", "RUNNER_"))}
            self._add(Check(name, reading.command, reading.reader, cwd=step.cwd, env=env, source=source), reading.tool)

    def finish(self, configuration: Configuration) -> Plan:
        if not self.checks:
            found = detect.detect_check(self.project)
            if found is None and (other := ecosystems.detect(self.project.paths, self.project.texts)) is not None:
                found = other.check
                self.packages = merge(self.packages, other.packages)
                self.notes += other.notes
            if found is None:
                return Plan((), Packages(python=configuration.python), tuple(self.notes), NO_CHECKS, NO_CHECKS_NEXT)
            self._add(found, found.reader)
        packages = self.packages
        if configuration.packages is not None:
            packages = merge(configuration.packages, Packages(requirements=packages.requirements))
            detected = detect.detect_packages(self.project)
            packages = merge(packages, Packages(projects=() if packages.projects else detected.projects))
        elif not (packages.requirement_files or packages.groups or packages.projects):
            packages = merge(packages, detect.detect_packages(self.project))
        if not packages.node:
            packages = merge(packages, Packages(node=tuple(c.cwd for c in self.checks if c.reader == "javascript")))
        packages = self._existing(packages)
        return Plan(
            tuple(self.checks),
            replace(packages, python=configuration.python or packages.python or detect.detect_python(self.project)),
            tuple(dict.fromkeys(self.notes)),
        )

    def _choose(self, job: Job, failed: FailedJob, steps: list[tuple[Step, Reading]], where: str) -> list[tuple[Step, Reading]]:
        """The step that failed, else those of the job that run tests."""
        step = job.step(failed.failed_step)
        for one, reading in steps:
            if one is step and reading.command:
                return [(one, reading)]
        if step is not None and step.uses:
            self.notes.append(f"{where}: the failing step uses the action {one_line(step.uses, 100)}, which is not run here")
            return []
        if step is not None:
            self.notes.append(f"{where}: the failing step only installs; the job's tests are run instead")
        return [(one, reading) for one, reading in steps if reading.command and reading.reader not in ("exit", "findings")]

    def _expanded(self, reading: Reading) -> Reading:
        """What makes environments of its own, from an index: what tox and pre-commit would run is read from their files, nox is
        detected.
        """
        if reading.tool == "pre-commit":
            return self._with_hooks(reading)
        if reading.tool not in ("tox", "nox"):
            return reading
        commands = detect.tox_commands(self.project) if reading.tool == "tox" else ""
        inner = read_command(commands, self._script)
        if inner.reader not in ("pytest", "unittest", "findings"):
            found = detect.detect_check(self.project)
            if found is None:
                return reading
            inner = Reading(found.command, found.reader, Packages(), found.reader)
        self.notes.append(f"`{one_line(reading.command, 80)}` is approximated by `{one_line(inner.command, 80)}`")
        packages = merge(merge(reading.packages, inner.packages), detect.detect_packages(self.project))
        if reading.tool == "tox":
            packages = merge(packages, detect.tox_packages(self.project))
        return replace(inner, packages=packages)

    def _with_hooks(self, reading: Reading) -> Reading:
        words = reading.command.split()
        plain = [word for word in words[words.index("run") + 1 :] if not word.startswith("-")] if "run" in words else []
        hooks = read_hooks(self._script(HOOKS), plain[0] if plain else "")
        if not hooks.command:
            self.notes.append(
                f"`{one_line(reading.command, 80)}` needs hooks that are fetched by git, which the sandbox cannot do"
            )
            return reading
        self.notes.append(f"`{one_line(reading.command, 80)}` is approximated by its hooks as packages bring them")
        if hooks.left_out:
            self.notes.append(f"hooks that are not run here: {one_line(', '.join(hooks.left_out), 200)}")
        inner = read_command(hooks.command, self._script)
        return replace(inner, packages=merge(merge(reading.packages, inner.packages), Packages(requirements=hooks.installs)))

    def _add(self, check: Check, tool: str) -> None:
        if any(other.command == check.command and other.cwd == check.cwd for other in self.checks):
            return  # the same job on several Pythons
        self.checks.append(check)
        needed = "pytest" if check.reader == "pytest" else LINTERS.get(tool, "")
        if needed:
            self.packages = merge(self.packages, Packages(requirements=(needed,)))

    def _free_name(self, wanted: str) -> str:
        taken = {check.name for check in self.checks}
        wanted = one_line(wanted, 60) or "step"
        return next(name for number in range(1, 1000) if (name := wanted if number == 1 else f"{wanted} {number}") not in taken)

    def _script(self, path: str) -> str:
        return self.project.texts.get(path, "")

    def _existing(self, packages: Packages) -> Packages:
        """Without the files and projects that the repository does not have."""
        paths = self.project.paths

        def is_there(path: str) -> bool:
            if path in paths:
                return True
            self.notes.append(f"{one_line(path, 100)} is named in an install step but is not in the repository")
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


def _in_folder(script: Callable[[str], str], cwd: str) -> Callable[[str], str]:
    return (lambda path: script(path)) if cwd in (".", "") else (lambda path: script(f"{cwd.removeprefix('./')}/{path}"))


def _moved(packages: Packages, cwd: str) -> Packages:
    """Paths as seen from the repository's root."""
    if cwd in (".", ""):
        return packages
    folder = cwd.removeprefix("./").rstrip("/")

    def move(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            folder + path[1:] if path.startswith((".[", "./")) or path == "." else f"{folder}/{path}" for path in paths
        )

    return replace(
        packages,
        requirement_files=move(packages.requirement_files),
        constraint_files=move(packages.constraint_files),
        projects=move(packages.projects),
        node=tuple(folder if path == "." else f"{folder}/{path}" for path in packages.node),
    )


def _joined(projects: tuple[str, ...]) -> tuple[str, ...]:
    """One entry a project, with the extras of all: "." and ".[test]" are ".[test]"."""
    extras: dict[str, list[str]] = {}
    for project in projects:
        folder, _, named = project.partition("[")
        extras.setdefault(folder, []).extend(name.strip() for name in named.rstrip("]").split(",") if name.strip())
    return tuple(f"{folder}[{','.join(dict.fromkeys(names))}]" if names else folder for folder, names in extras.items())
