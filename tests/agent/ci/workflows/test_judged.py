"""Our reading of workflow files is GitHub's own: held against `@actions/workflow-parser` on a corpus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Container, Job, Workflow, WorkflowStep
from agent.ci.workflows.workflow_file import read_action, read_workflow
from tests.judges.node import Judge

DATA = Path(__file__).resolve().parents[3] / "data" / "workflows"
VALID = {
    str(path.relative_to(DATA)): path.read_bytes().decode()
    for folder in ("ten", "valid")
    for path in sorted((DATA / folder).glob("*.yml"))
    if not path.name.endswith(".action.yml")
}
INVALID = {str(path.relative_to(DATA)): path.read_bytes().decode() for path in sorted((DATA / "invalid").glob("*.yml"))}


@pytest.fixture(scope="module")
def judged(judge: Judge) -> Mapping[str, Any]:
    corpus = {**VALID, **INVALID}
    answers = judge.answer("workflows.mjs", [{"kind": "workflow", "text": text} for text in corpus.values()])
    return dict(zip(corpus, answers, strict=True))


def test_the_corpus_is_large_enough() -> None:
    assert len(VALID) >= 25
    assert len(INVALID) >= 60


@pytest.mark.parametrize("name", VALID)
def test_a_workflow_is_read_as_github_reads_it(name: str, judged: Mapping[str, Any]) -> None:
    theirs = judged[name]
    assert theirs["errors"] == []
    ours = read_workflow(VALID[name])
    assert isinstance(ours, Workflow), str(ours)
    tree = theirs["tree"]
    assert _told({"name": ours.name, "env": ours.env, **_defaults(ours)}) == _told(
        {key: tree.get(key) or None for key in ("name", "env", "defaults")}
    )
    assert [job.id for job in ours.jobs] == list(tree["jobs"])
    for job in ours.jobs:
        assert _told(_job(job)) == _told(_theirs(tree["jobs"][job.id])), job.id


@pytest.mark.parametrize("name", INVALID)
def test_what_github_refuses_is_a_problem(name: str, judged: Mapping[str, Any]) -> None:
    errors = judged[name]["errors"]
    assert errors
    ours = read_workflow(INVALID[name])
    assert isinstance(ours, WorkflowProblem)
    assert ours.sentence.endswith(".")
    if name.removeprefix("invalid/") not in {"empty.yml", "comment.yml"}:
        assert ours.line is not None


def test_the_composite_action_of_the_ten_is_read_as_github_reads_it(judge: Judge) -> None:
    text = (DATA / "ten" / "composite.action.yml").read_text()
    [theirs] = judge.answer("workflows.mjs", [{"kind": "action", "text": text}])
    assert theirs["errors"] == []
    ours = read_action(text)
    assert not isinstance(ours, WorkflowProblem)
    tree = theirs["tree"]
    assert {one.id: one.default for one in ours.inputs} == {key: value.get("default") for key, value in tree["inputs"].items()}
    assert _told(ours.outputs) == _told({key: value["value"] for key, value in tree["outputs"].items()})
    assert _told([_step(step) for step in ours.steps]) == _told(tree["runs"]["steps"])


# What is compared; a value that is not there and one that is empty say the same.
_IGNORED = (
    "permissions", "concurrency", "environment", "snapshot", "if", "timeout-minutes", "continue-on-error", "outputs", "secrets"
)  # fmt: skip


def _theirs(tree: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in tree.items() if key not in _IGNORED}
    if isinstance(container := kept.get("container"), dict):
        container.pop("credentials", None)
    if isinstance(kept.get("runs-on"), dict) and set(kept["runs-on"]) & {"group", "labels"}:
        kept["runs-on"] = kept["runs-on"].get("labels")
    if isinstance(kept.get("runs-on"), str | dict):
        kept["runs-on"] = [kept["runs-on"]]
    if isinstance(kept.get("strategy"), dict) and "expression" not in kept["strategy"]:
        kept["strategy"] = {"matrix": kept["strategy"].get("matrix")}
    if isinstance(kept.get("needs"), str):
        kept["needs"] = [kept["needs"]]
    return kept


def _job(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "needs": job.needs,
        "env": job.env,
        **_defaults(job),
        "strategy": job.strategy or {"matrix": job.matrix},
        "container": _container(job.container),
        "services": {name: _container(service) for name, service in job.services.items()},
        "steps": [_step(step) for step in job.steps],
        "runs-on": job.labels,
        "uses": job.uses,
        "with": job.inputs,
    }


def _defaults(owner: Workflow | Job) -> dict[str, Any]:
    run = {"shell": owner.defaults.shell, "working-directory": owner.defaults.working_directory}
    return {"defaults": {"run": run}}


def _container(container: Container | None) -> Any:
    if container is None:
        return None
    return {
        "image": container.image,
        "env": container.env,
        "ports": container.ports,
        "volumes": container.volumes,
        "options": container.options,
        "entrypoint": container.entrypoint,
        "command": container.command,
    }


def _step(step: WorkflowStep) -> dict[str, Any]:
    return {
        "id": step.id,
        "name": step.name,
        "if": step.condition,
        "run": step.run,
        "uses": step.uses,
        "with": step.inputs,
        "env": step.env,
        "shell": step.shell,
        "working-directory": step.working_directory,
        "continue-on-error": step.continue_on_error,
        "timeout-minutes": step.timeout_minutes,
    }


def _told(value: Any) -> Any:
    """One form for both: templates as GitHub compiles them, nothing that says nothing."""
    return json.loads(json.dumps(_normal(value)))


def _normal(value: Any) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"expression"}:
            return _squeezed(value["expression"])
        default = {"continue-on-error": False}  # what is meant where nothing is said
        inner = {key: _normal(item) for key, item in value.items()}
        inner = {key: item for key, item in inner.items() if item not in (None, "", [], {}) and default.get(key) != item}
        return inner["image"] if set(inner) == {"image"} else inner or None
    if isinstance(value, list | tuple):
        return [_normal(item) for item in value]
    return _compiled(value) if isinstance(value, str) else value


def _compiled(template: str) -> str:
    """A template as one expression: `a ${{ b }}` is `format('a {0}', b)`; text without expressions stays."""
    pieces, arguments, rest = [], [], template
    while "${{" in rest:
        before, _, after = rest.partition("${{")
        end, quoted = 0, False
        while quoted or not after.startswith("}}", end):
            quoted ^= after[end] == "'"
            end += 1
        pieces.append(before)
        arguments.append(after[:end].strip())
        rest = after[end + 2 :]
    if not arguments:
        return template
    if len(arguments) == 1 and not pieces[0] and not rest:
        return _literal(arguments[0]) or _squeezed(arguments[0])
    text = ""
    for i, piece in enumerate(pieces):
        text += _escaped(piece) + f"{{{i}}}"
    return _squeezed(f"format('{text}{_escaped(rest)}', {', '.join(arguments)})")


def _squeezed(expression: str) -> str:
    """Without white space: of a block scalar with expressions the judge keeps the indentation, for its positions."""
    return "".join(expression.split())


def _escaped(text: str) -> str:
    return text.replace("'", "''").replace("{", "{{").replace("}", "}}")


def _literal(expression: str) -> str | None:
    """What GitHub makes of an expression that is one quoted text: the text itself."""
    inner = expression[1:-1]
    whole = len(expression) > 1 and expression[0] == expression[-1] == "'" and "'" not in inner.replace("''", "")
    return inner.replace("''", "'") if whole else None
