"""Generated workflow files: ours and GitHub's own parser agree on which are valid and on what they say."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.ci.workflows.document import WorkflowProblem, plain, read_document
from agent.ci.workflows.model import Workflow
from agent.ci.workflows.workflow_file import read_workflow
from tests.judges.node import Judge

DATA = Path(__file__).resolve().parents[3] / "data" / "workflows"
WRONG: list[Any] = [
    None,
    "",
    "x",
    1,
    True,
    [],
    {},
    ["x"],
    [None],
    {"x": "y"},
    {"x": None},
    [["x"]],
    [{"x": "y"}],
    "${{ github.sha }}",
]

# Where we take more than GitHub does, as it changes nothing in what a job runs: a place in the file, by its keys.
TOLERATED = {"on", "permissions", "concurrency", "environment", "credentials", "snapshot"}


def mutations(seed: int, count: int) -> Iterator[tuple[str, Any]]:
    """Valid files with one value replaced by another: where, and the whole."""
    chance = random.Random(seed)
    sources = sorted((DATA / "ten").glob("*.yml")) + sorted((DATA / "valid").glob("*.yml"))
    trees = []
    for path in sources:
        node = read_document(path.read_bytes().decode())
        assert not isinstance(node, WorkflowProblem)
        if "jobs" in (tree := plain(node)):  # type: ignore[operator]
            trees.append((path.name, json.dumps(tree, ensure_ascii=False).replace("Infinity", "1")))
    while count:
        name, text = chance.choice(trees)
        tree = json.loads(text)
        where, holder, key = chance.choice(list(_places(tree)))
        if not TOLERATED & set(where.split("/")):
            holder[key] = chance.choice(WRONG)
            yield f"{name}: {where} = {json.dumps(holder[key])}", tree
            count -= 1


def _places(value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield f"{path}/{key}".removeprefix("/"), value, key
        yield from _places(inner, f"{path}/{key}")


def test_files_with_one_wrong_value_are_judged_alike(judge: Judge) -> None:
    cases = list(mutations(seed=11, count=400))
    texts = [json.dumps(tree, ensure_ascii=False) for _, tree in cases]
    answers = judge.answer("workflows.mjs", [{"kind": "workflow", "text": text} for text in texts])
    apart = []
    refused = 0
    for (where, _), text, answer in zip(cases, texts, answers, strict=True):
        ours = read_workflow(text)
        refused += isinstance(ours, WorkflowProblem)
        if isinstance(ours, WorkflowProblem) and "whole mapping is not supported" in ours.sentence:
            continue  # GitHub takes it for `with` and a container's `env`; we say that we do not
        if isinstance(ours, WorkflowProblem) != bool(answer["errors"]):
            apart.append(
                f"{where}: ours {ours if isinstance(ours, WorkflowProblem) else 'valid'}, theirs {answer['errors'] or 'valid'}"
            )
    assert not apart, "\n".join(apart)
    assert 100 < refused < 350


def test_plain_scalars_are_read_alike(judge: Judge) -> None:
    chance = random.Random(12)
    alphabets = ("0123456789.", "0123456789.eE-+", "0xo17bF_", "tTrRuUeE", "nuNUlL~", "0123456789.eExob-+_~:tTrueNnlfFAaSINF")
    written = {"".join(chance.choices(chance.choice(alphabets), k=chance.randrange(1, 7))) for _ in range(3000)}
    written |= {
        f"{a}{b}"
        for a in ("", "-", "+")
        for b in ("0x1F", "0o17", ".inf", ".Inf", ".nan", "1.", ".1", "1e5", "1e-7", "1E+30", ".")
    }
    scalars = sorted(
        text for text in written if text[-1] != ":" and not text.startswith(("- ", ":")) and text not in ("-", "+:")
    )
    env = "".join(f"  K{i}: {text}\n" for i, text in enumerate(scalars))
    text = f"on: push\nenv:\n{env}jobs: {{a: {{runs-on: x}}}}"
    [answer] = judge.answer("workflows.mjs", [{"kind": "workflow", "text": text}])
    assert answer["errors"] == []
    ours = read_workflow(text)
    assert isinstance(ours, Workflow), str(ours)
    apart = [
        (scalars[i], ours.env[f"K{i}"], answer["tree"]["env"][f"K{i}"])
        for i in range(len(scalars))
        if ours.env[f"K{i}"] != answer["tree"]["env"][f"K{i}"]
    ]
    assert apart == []
    assert sum(value != written for value, written in zip(ours.env.values(), scalars, strict=True)) > 100


def test_block_scalars_are_read_alike(judge: Judge) -> None:
    chance = random.Random(13)
    lines = ["one", "  two", "", "three # no comment", "four: five", "- six", "    ", "'seven'", "\tt"]
    steps = []
    for _ in range(200):
        header = chance.choice("|>") + chance.choice(["", "-", "+"])
        body = ["first", *chance.choices(lines, k=chance.randrange(0, 6))]
        steps.append("      - run: " + header + "\n" + "".join(f"          {line}\n" for line in body))
    text = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n" + "".join(steps)
    [answer] = judge.answer("workflows.mjs", [{"kind": "workflow", "text": text}])
    assert answer["errors"] == []
    ours = read_workflow(text)
    assert isinstance(ours, Workflow), str(ours)
    theirs = [step["run"] for step in answer["tree"]["jobs"]["a"]["steps"]]
    assert [step.run for step in ours.jobs[0].steps] == theirs
