"""Reads the text of an `action.yml` into an `Action`, or a `WorkflowProblem`."""

from __future__ import annotations

from agent.ci.workflows import schema
from agent.ci.workflows.document import Keys, WorkflowError, WorkflowProblem, read_document
from agent.ci.workflows.fields import steps, text, word
from agent.ci.workflows.model import Action, Input
from agent.ci.workflows.shapes import check

_STEPS = {"run": schema.COMPOSITE_RUN_STEP, "uses": schema.COMPOSITE_USES_STEP}
# Kinds of actions, and the key that each must have; node12 and node16 are old, but still read.
_NEEDED = {"composite": "steps", "docker": "image", "node12": "main", "node16": "main", "node20": "main", "node24": "main"}


def read_action(source: str) -> Action | WorkflowProblem:
    """The action that the text of a file describes."""
    document = read_document(source)
    if isinstance(document, WorkflowProblem):
        return document
    try:
        check(document, schema.ACTION)
        assert isinstance(document, Keys)
        return _action(document)
    except WorkflowError as refused:
        return refused.problem


def _action(root: Keys) -> Action:
    runs = root.get("runs")
    assert isinstance(runs, Keys)
    using = text(runs.get("using")) or ""
    if using not in _NEEDED:
        raise WorkflowError(f"Unexpected value '{using[:100]}' of runs.using.", runs.line)
    if runs.get(_NEEDED[using]) is None:
        raise WorkflowError(f"Required property is missing: {_NEEDED[using]}.", runs.line)
    if using != "composite" and runs.get("steps") is not None:
        raise WorkflowError("Unexpected value 'steps'.", runs.line)
    inputs, outputs = root.get("inputs"), root.get("outputs")
    return Action(
        using=using,
        name=text(root.get("name")),
        inputs=tuple(_input(entry.key, entry.value) for entry in inputs.entries) if isinstance(inputs, Keys) else (),
        outputs={entry.key: text(entry.value.get("value")) or "" for entry in outputs.entries if isinstance(entry.value, Keys)}
        if isinstance(outputs, Keys)
        else {},
        steps=steps(runs.get("steps"), _STEPS),
    )


def _input(name: str, node: object) -> Input:
    keys = node if isinstance(node, Keys) else Keys((), 0)
    required = word(keys.get("required"))
    return Input(name, required=required is True or required == "true", default=text(keys.get("default")))
