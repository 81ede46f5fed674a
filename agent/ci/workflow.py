"""Reads a GitHub Actions workflow file far enough to know what the steps of one job run.

Knows the file, not the API, and runs nothing. It is an approximation: expressions beyond `env` and `matrix` are left in the
text, and whoever uses a step asks `Step.unresolved`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from sandbox.base import KIB

SIZE_LIMIT = 512 * KIB
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a job; `run` is empty where it uses an action."""

    number: int  # from 1, as written in the file
    name: str  # as GitHub shows it
    run: str
    cwd: str
    env: Mapping[str, str]
    uses: str = ""
    inputs: Mapping[str, str] | None = None

    @property
    def unresolved(self) -> bool:
        """Whether its text still holds an expression that only GitHub can evaluate."""
        return bool(_EXPRESSION.search(self.run))


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    steps: tuple[Step, ...]
    python: str | None  # what setup-python was asked for, "3.12"
    services: bool = False

    def step(self, name: str | None) -> Step | None:
        """The step that GitHub shows under `name`."""
        if name is None:
            return None
        wanted = " ".join(name.split())
        for step in self.steps:
            if step.name == wanted or (wanted.endswith("…") and step.name.startswith(wanted[:-1])):
                return step
        return None


def read_job(text: str, name: str) -> Job | str:
    """The job that GitHub shows as `name` ("tests", "tests (3.11, ubuntu-latest)"), or why it cannot be read, as a clause."""
    if len(text) > SIZE_LIMIT:
        return "the workflow file is too large"
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=yaml.SafeLoader)):
            return "the workflow file uses YAML aliases"
        workflow = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError):
        return "the workflow file is not valid YAML"
    jobs = workflow.get("jobs") if isinstance(workflow, dict) else None
    if not isinstance(jobs, dict):
        return "the workflow file has no jobs"
    for key, job in jobs.items():
        if isinstance(job, dict):
            matrix = _matrix(job, str(key), name)
            if matrix is not None:
                return _job(str(key), job, _mapping(workflow.get("env")), matrix, _defaults(workflow))
    return f"the workflow file has no job named {name[:100]!r}"


class _Loader(yaml.SafeLoader):
    """Plain scalars stay text: `3.10` is no number and `on` no truth value here."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _matrix(job: Mapping[str, object], key: str, shown: str) -> dict[str, str] | None:
    """The matrix values of the run that GitHub shows as `shown`; None when it is no run of this job."""
    title = str(job.get("name") or key)
    axes = _axes(job)
    if _EXPRESSION.search(title):
        # A title with expressions: each stands for one value.
        names: list[str] = []
        pattern, position = "", 0
        for match in _EXPRESSION.finditer(title):
            pattern += re.escape(title[position : match.start()]) + "(.*?)"
            names.append(match[1].removeprefix("matrix."))
            position = match.end()
        found = re.fullmatch(pattern + re.escape(title[position:]), shown, re.DOTALL)
        if found is None:
            return None
        return {**{axis: values[0] for axis, values in axes.items() if values}, **dict(zip(names, found.groups(), strict=True))}
    bare, _, values = shown.partition(" (")
    if shown != title and bare != title:
        return None
    told = [value.strip() for value in values.removesuffix(")").split(",")] if values else []
    first = {axis: values[0] for axis, values in axes.items() if values}
    return {**first, **dict(zip(axes, told, strict=False))}


def _axes(job: Mapping[str, object]) -> dict[str, list[str]]:
    matrix = _mapping(_mapping(job.get("strategy")).get("matrix"))
    axes = {str(axis): [str(v) for v in values] for axis, values in matrix.items() if isinstance(values, list)}
    for special in ("include", "exclude"):
        axes.pop(special, None)
    included = matrix.get("include")
    if not axes and isinstance(included, list) and included and isinstance(included[0], dict):
        axes = {str(axis): [str(value)] for axis, value in included[0].items()}
    return axes


def _job(key: str, job: Mapping[str, object], env: Mapping[str, object], matrix: Mapping[str, str], folder: str | None) -> Job:
    outer = {**env, **_mapping(job.get("env"))}
    folder = _defaults(job) or folder or "."
    steps: list[Step] = []
    python: str | None = None
    raw = job.get("steps")
    for number, step in enumerate(raw if isinstance(raw, list) else [], start=1):
        if not isinstance(step, dict):
            continue
        variables = {str(k): str(v) for k, v in {**outer, **_mapping(step.get("env"))}.items() if v is not None}
        variables = {k: _resolve(v, variables, matrix) for k, v in variables.items()}
        run = _resolve(str(step.get("run") or ""), variables, matrix)
        uses = str(step.get("uses") or "")
        shown = step.get("name") or ("Run " + (uses or run.strip().split("\n")[0]))
        inputs = {str(k): _resolve(str(v), variables, matrix) for k, v in _mapping(step.get("with")).items()}
        if "setup-python" in uses or "setup-uv" in uses:
            python = _version(inputs.get("python-version", "")) or python
        steps.append(
            Step(
                number=number,
                name=" ".join(_resolve(str(shown), variables, matrix).split()),
                run=run,
                cwd=_resolve(str(step.get("working-directory") or folder), variables, matrix),
                env={k: v for k, v in variables.items() if not _EXPRESSION.search(v)},
                uses=uses,
                inputs=inputs,
            )
        )
    return Job(key, tuple(steps), python, services=bool(job.get("services")))


def _defaults(owner: Mapping[str, object]) -> str | None:
    folder = _mapping(_mapping(owner.get("defaults")).get("run")).get("working-directory")
    return str(folder) if folder else None


def _resolve(text: str, env: Mapping[str, str], matrix: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        kind, _, name = match[1].partition(".")
        known = {"matrix": matrix, "env": env}.get(kind, {}).get(name)
        if known is None and match[1] == "github.workspace":
            known = "."
        return match[0] if known is None else known

    return _EXPRESSION.sub(value, text)


def _version(text: str) -> str | None:
    found = re.search(r"\b3\.\d{1,2}\b", text)
    return found[0] if found else None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
