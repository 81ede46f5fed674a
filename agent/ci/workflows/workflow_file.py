"""Reads the text of a workflow file into a `Workflow`, or the first `WorkflowProblem` for which GitHub would refuse it too."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from agent.ci.workflows import schema
from agent.ci.workflows.document import Keys, KeyValue, Node, Scalar, WorkflowError, WorkflowProblem, plain, read_document
from agent.ci.workflows.fields import check_id, flag, listed, number, steps, text, texts, word, words
from agent.ci.workflows.model import Container, Input, Job, RunDefaults, RunsOn, ServiceContainer, Strategy, Workflow
from agent.ci.workflows.shapes import check, expressions

_STEPS = {"run": schema.RUN_STEP, "uses": schema.USES_STEP}
_NO_KEYS = Keys((), 0)


def read_workflow(source: str) -> Workflow | WorkflowProblem:
    """The workflow that the text of a file describes."""
    document = read_document(source)
    if isinstance(document, WorkflowProblem):
        return document
    try:
        check(document, schema.WORKFLOW)
        return _workflow(_keys(document))
    except WorkflowError as refused:
        return refused.problem


def _workflow(root: Keys) -> Workflow:
    taken: set[str] = set()
    entries = _keys(root.get("jobs")).entries
    jobs = tuple(_job(entry, taken) for entry in entries)
    if not jobs:
        raise WorkflowError("The workflow must contain at least one job.", root.line)
    _check_needs({job.id: job for job in jobs})
    on = root.get("on")
    call, dispatch = (_keys(_keys(on).get(event)) for event in ("workflow_call", "workflow_dispatch"))
    return Workflow(
        jobs=jobs,
        events=tuple(entry.key for entry in on.entries) if isinstance(on, Keys) else listed(on),
        name=text(root.get("name")) or None,
        env=texts(root.get("env")),
        defaults=_defaults(root),
        call_inputs=_inputs(call),
        call_outputs={entry.key: text(_keys(entry.value).get("value")) or "" for entry in _keys(call.get("outputs")).entries},
        dispatch_inputs=_inputs(dispatch),
    )


def _job(entry: KeyValue, taken: set[str]) -> Job:
    check_id(entry.key, taken, entry.line)
    node = _keys(entry.value)
    calls = node.get("uses") is not None
    check(node, schema.CALLING_JOB if calls else schema.JOB)
    secrets = node.get("secrets")
    return Job(
        id=entry.key,
        name=text(node.get("name")) or None,
        needs=listed(node.get("needs")),
        condition=text(node.get("if")),
        env=texts(node.get("env")),
        defaults=_defaults(node),
        strategy=_strategy(node.get("strategy")),
        container=_container(node.get("container")),
        services=tuple(_service(service) for service in _keys(node.get("services")).entries),
        steps=steps(node.get("steps"), _STEPS),
        runs_on=None if calls else _runs_on(node.get("runs-on")),
        timeout_minutes=number(node.get("timeout-minutes")),
        continue_on_error=flag(node.get("continue-on-error"), otherwise=False),
        outputs=texts(node.get("outputs")),
        uses=text(node.get("uses")),
        inputs=words(node.get("with")),
        secrets=None if isinstance(secrets, Scalar) else texts(secrets),
        line=entry.line,
    )


def _strategy(node: Node | None) -> Strategy | str:
    if isinstance(node, Scalar):
        return text(node) or ""
    keys = _keys(node)
    matrix = keys.get("matrix")
    parallel = number(keys.get("max-parallel"))
    return Strategy(None if matrix is None else plain(matrix), flag(keys.get("fail-fast"), otherwise=True), parallel)


def _container(node: Node | None) -> Container | None:
    if node is None or (isinstance(node, Scalar) and not text(node)):
        return None  # an empty image of a job is none
    keys = _keys(node)
    image = text(node if isinstance(node, Scalar) else keys.get("image")) or ""
    if not image:
        raise WorkflowError("Container image cannot be empty.", node.line)
    ports, volumes = (_list_or_template(keys.get(key)) for key in ("ports", "volumes"))
    return Container(image, texts(keys.get("env")), ports, volumes, text(keys.get("options")) or "")


def _service(entry: KeyValue) -> ServiceContainer:
    container = _container(entry.value)
    assert container is not None
    keys = _keys(entry.value)
    return ServiceContainer(entry.key, container, text(keys.get("entrypoint")) or "", text(keys.get("command")) or "")


def _list_or_template(node: Node | None) -> tuple[str, ...] | str:
    return text(node) or "" if isinstance(node, Scalar) else listed(node)


def _runs_on(node: Node | None) -> RunsOn:
    if isinstance(node, Keys):
        return RunsOn(listed(node.get("labels")), text(node.get("group")))
    return RunsOn(listed(node))


def _defaults(owner: Keys) -> RunDefaults:
    run = _keys(_keys(owner.get("defaults")).get("run"))
    return RunDefaults(text(run.get("shell")), text(run.get("working-directory")))


def _inputs(event: Keys) -> tuple[Input, ...]:
    return tuple(_input(entry.key, _keys(entry.value), entry.line) for entry in _keys(event.get("inputs")).entries)


def _input(name: str, node: Keys, line: int) -> Input:
    kind = text(node.get("type")) or "string"
    default = node.get("default")
    value = word(default)
    options = listed(node.get("options"))
    if kind == "boolean" and default is not None and not isinstance(value, bool) and not _is_template(value):
        raise WorkflowError(f"The default of the input '{name}' must be true or false.", default.line)
    if kind == "choice" and not options:
        raise WorkflowError("Missing 'options' for choice input.", line)
    if kind != "choice" and options:
        raise WorkflowError("Input type is not 'choice', but 'options' is defined.", line)
    return Input(name, kind, word(node.get("required")) is True, value, options)


def _is_template(value: object) -> bool:
    return isinstance(value, str) and any(True for _ in expressions(value))


def _check_needs(jobs: dict[str, Job]) -> None:
    """Raises `WorkflowError` where jobs need unknown ones or each other in a circle."""
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


def _keys(node: Node | None) -> Keys:
    return node if isinstance(node, Keys) else _NO_KEYS
