"""Reads the text of a workflow or an action file into values, or the first `WorkflowProblem` for which GitHub refuses it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from agent.ci.workflows import schema
from agent.ci.workflows.document import (
    Items,
    Keys,
    KeyValue,
    Node,
    Scalar,
    Word,
    WorkflowError,
    WorkflowProblem,
    plain,
    read_document,
    text_of,
)
from agent.ci.workflows.model import Action, Container, Input, Job, RunDefaults, Workflow, WorkflowStep
from agent.ci.workflows.shapes import Shape, check, expressions

T = TypeVar("T")
_STEPS = {"run": schema.RUN_STEP, "uses": schema.USES_STEP}
_COMPOSITE_STEPS = {"run": schema.COMPOSITE_RUN_STEP, "uses": schema.COMPOSITE_USES_STEP}
# Kinds of actions, and the key that each must have; node12 and node16 are old, but still read.
_NEEDED = {"composite": "steps", "docker": "image", "node12": "main", "node16": "main", "node20": "main", "node24": "main"}
_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,98}", re.ASCII)
_NO_KEYS = Keys((), 0)


def read_workflow(source: str) -> Workflow | WorkflowProblem:
    """The workflow that the text of a file describes."""
    return _read(source, schema.WORKFLOW, _workflow)


def read_action(source: str) -> Action | WorkflowProblem:
    """The action that the text of an `action.yml` describes."""
    return _read(source, schema.ACTION, _action)


def _read(source: str, shape: Shape, build: Callable[[Keys], T]) -> T | WorkflowProblem:
    document = read_document(source)
    if isinstance(document, WorkflowProblem):
        return document
    try:
        check(document, shape)
        return build(_keys(document))
    except WorkflowError as refused:
        return refused.problem


def _workflow(root: Keys) -> Workflow:
    taken: set[str] = set()
    jobs = tuple(_job(entry, taken) for entry in _keys(root.get("jobs")).entries)
    if not jobs:
        raise WorkflowError("The workflow must contain at least one job.", root.line)
    _check_needs({job.id: job for job in jobs})
    on = root.get("on")
    push = _keys(_keys(on).get("push"))
    # A dispatch's inputs are only checked.
    call_inputs, _ = (_inputs(_keys(_keys(on).get(event))) for event in ("workflow_call", "workflow_dispatch"))
    return Workflow(
        jobs=jobs,
        events=tuple(entry.key for entry in on.entries) if isinstance(on, Keys) else _listed(on),
        name=_text(root.get("name")) or None,
        env=_variables(root.get("env")),
        defaults=_defaults(root),
        call_inputs=call_inputs,
        only_tags=any(map(push.get, ("tags", "tags-ignore"))) and not any(map(push.get, ("branches", "branches-ignore"))),
    )


def _job(entry: KeyValue, taken: set[str]) -> Job:
    _check_id(entry.key, taken, entry.line)
    node = _keys(entry.value)
    check(node, schema.JOB if node.get("uses") is None else schema.CALLING_JOB)
    strategy, runs_on = node.get("strategy"), node.get("runs-on")
    matrix = _keys(strategy).get("matrix")
    return Job(
        id=entry.key,
        name=_text(node.get("name")) or None,
        needs=_listed(node.get("needs")),
        env=_variables(node.get("env")),
        defaults=_defaults(node),
        strategy=_text(strategy),
        matrix=None if matrix is None else plain(matrix),
        container=_container(node.get("container")),
        services=_services(node.get("services")),
        steps=_steps(node.get("steps"), _STEPS),
        labels=_listed(runs_on.get("labels") if isinstance(runs_on, Keys) else runs_on),
        uses=_text(node.get("uses")),
        inputs={each.key: _word(each.value) for each in _keys(node.get("with")).entries},
        line=entry.line,
    )


def _container(node: Node | None) -> Container | None:
    if node is None or (isinstance(node, Scalar) and not _text(node)):
        return None  # an empty image means no container
    keys = _keys(node)
    image = _text(node if isinstance(node, Scalar) else keys.get("image"))
    if not image:
        raise WorkflowError("Container image cannot be empty.", node.line)
    lists = map(keys.get, ("ports", "volumes"))  # or a template of one
    ports, volumes = (_text(each) or "" if isinstance(each, Scalar) else _listed(each) for each in lists)
    options, entrypoint, command = (_text(keys.get(key)) or "" for key in ("options", "entrypoint", "command"))
    return Container(image, _texts(keys.get("env")), ports, volumes, options, entrypoint, command)


def _services(node: Node | None) -> dict[str, Container]:
    entries = _keys(node).entries
    return {entry.key: container for entry in entries if (container := _container(entry.value)) is not None}


def _defaults(owner: Keys) -> RunDefaults:
    run = _keys(_keys(owner.get("defaults")).get("run"))
    return RunDefaults(_text(run.get("shell")), _text(run.get("working-directory")))


def _inputs(event: Keys) -> tuple[Input, ...]:
    return tuple(_input(entry.key, _keys(entry.value), entry.line) for entry in _keys(event.get("inputs")).entries)


def _input(name: str, node: Keys, line: int) -> Input:
    kind = _text(node.get("type")) or "string"
    default = node.get("default")
    value = _word(default)
    is_template = isinstance(value, str) and bool(expressions(value))
    if kind == "boolean" and default is not None and not isinstance(value, bool) and not is_template:
        raise WorkflowError(f"The default of the input '{name}' must be true or false.", default.line)
    if kind == "choice" and not _listed(node.get("options")):
        raise WorkflowError("Missing 'options' for choice input.", line)
    if kind != "choice" and _listed(node.get("options")):
        raise WorkflowError("Input type is not 'choice', but 'options' is defined.", line)
    return Input(name, kind, _word(node.get("required")) is True, value)


def _check_needs(jobs: Mapping[str, Job]) -> None:
    """Raises `WorkflowError` if a job needs an unknown job, or jobs need each other in a cycle."""
    for job in jobs.values():
        for need in job.needs:
            if need not in jobs:
                raise WorkflowError(f"Job '{job.id}' depends on unknown job '{need}'.", job.line)
    try:
        TopologicalSorter({job.id: job.needs for job in jobs.values()}).prepare()
    except CycleError as error:
        needed, job_id = error.args[1][:2]  # each is needed by the next
        sentence = f"Job '{job_id}' depends on job '{needed}' which creates a cycle in the dependency graph."
        raise WorkflowError(sentence, jobs[job_id].line) from None


def _action(root: Keys) -> Action:
    runs = _keys(root.get("runs"))
    using = _text(runs.get("using")) or ""
    if using not in _NEEDED:
        raise WorkflowError(f"Unexpected value '{using[:100]}' for runs.using.", runs.line)
    if runs.get(_NEEDED[using]) is None:
        raise WorkflowError(f"Required property is missing: {_NEEDED[using]}.", runs.line)
    if using != "composite" and runs.get("steps") is not None:
        raise WorkflowError("Unexpected value 'steps'.", runs.line)
    inputs, outputs = _keys(root.get("inputs")).entries, _keys(root.get("outputs")).entries
    return Action(
        using=using,
        inputs=tuple(Input(entry.key, default=_text(_keys(entry.value).get("default"))) for entry in inputs),
        outputs={entry.key: _text(_keys(entry.value).get("value")) or "" for entry in outputs},
        steps=_steps(runs.get("steps"), _COMPOSITE_STEPS),
    )


def _steps(node: Node | None, shapes: Mapping[str, Shape]) -> tuple[WorkflowStep, ...]:
    """The steps of a job or an action; `shapes` has one for those with `run` and one for those with `uses`."""
    taken: set[str] = set()
    return tuple(_step(item, i, shapes, taken) for i, item in enumerate(node.nodes, 1)) if isinstance(node, Items) else ()


def _step(item: Node, number: int, shapes: Mapping[str, Shape], taken: set[str]) -> WorkflowStep:
    node = _keys(item)
    kind = next((key for key in ("run", "uses") if node.get(key) is not None), None)
    if kind is None:
        raise WorkflowError("A step needs one of these properties: run, uses.", node.line)
    check(node, shapes[kind])
    own = node.get("id")
    if own is not None:
        _check_id(_text(own) or "", taken, own.line)
    may_fail, minutes = _word(node.get("continue-on-error")), _word(node.get("timeout-minutes"))
    return WorkflowStep(
        number=number,
        id=_text(own),
        name=_text(node.get("name")),
        condition=_text(node.get("if")),
        run=_text(node.get("run")),
        uses=_text(node.get("uses")),
        inputs=_texts(node.get("with")),
        env=_variables(node.get("env")),
        shell=_text(node.get("shell")),
        working_directory=_text(node.get("working-directory")),
        continue_on_error=may_fail if isinstance(may_fail, bool | str) else False,
        timeout_minutes=minutes,
    )


def _check_id(name: str, taken: set[str], line: int) -> None:
    """Raises `WorkflowError` for an id of a job or a step that GitHub would not accept; adds it to `taken`."""
    if not _ID.fullmatch(name):
        raise WorkflowError(
            f"The identifier '{name[:100]}' is invalid: it may contain only letters, digits, '_' and '-',"
            " must begin with a letter or '_', and must be shorter than 100 characters.",
            line,
        )
    if name.startswith("__"):
        raise WorkflowError(f"The identifier '{name}' is invalid: identifiers that begin with '__' are reserved.", line)
    if name in taken:
        raise WorkflowError(f"The identifier '{name}' may not be used more than once.", line)
    taken.add(name)


def _keys(node: Node | None) -> Keys:
    return node if isinstance(node, Keys) else _NO_KEYS


def _word(node: Node | None) -> Word:
    return node.value if isinstance(node, Scalar) else None


def _text(node: Node | None) -> str | None:
    return text_of(node.value) if isinstance(node, Scalar) else None


def _texts(node: Node | None) -> dict[str, str]:
    return {entry.key: _text(entry.value) or "" for entry in _keys(node).entries}


def _variables(node: Node | None) -> dict[str, str] | str:
    return _text(node) or "" if isinstance(node, Scalar) else _texts(node)


def _listed(node: Node | None) -> tuple[str, ...]:
    """The texts of a list, or the only one."""
    if isinstance(node, Items):
        return tuple(_text(item) or "" for item in node.nodes)
    return () if node is None else (_text(node) or "",)
