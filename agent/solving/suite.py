"""The suite: 24 everyday tasks with edge cases, in eight categories, and two subsets."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

from agent.solving.draft import path_of, without_model
from agent.solving.specification import specify
from agent.solving.tasks import OracleKind, SolveBenchmark, SolveTask

Subset = Literal["doctests", "everyday"]


def load(oracle: OracleKind, subset: Subset | None = None) -> SolveBenchmark:
    """`doctests`: nine tasks with examples; `everyday`: eight tasks in words."""
    tasks = {each["id"]: each for each in read() if subset is None or subset in each.get("subsets", ())}
    options = {"oracle": oracle, **({"subset": subset} if subset else {})}
    groups = {id_: each["category"] for id_, each in tasks.items()}
    return SolveBenchmark("suite", groups, options, lambda id_: _task(tasks[id_]), oracle)


@cache
def read() -> tuple[dict[str, Any], ...]:
    text = files("agent.solving").joinpath("suite.yaml").read_text("utf-8")
    return tuple(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))  # noqa: S506 - both are safe loaders


def _task(told: dict[str, Any]) -> SolveTask:
    spec = specify(told["words"], signature=told["signature"])
    reference = f"from {path_of(spec).removesuffix('.py')} import {spec.name}\n\n{told['reference']}"
    return SolveTask(told["id"], spec, without_model(spec), reference, reference)
