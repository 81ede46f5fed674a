"""Logs a benchmark's results to MLflow (the extra `mlflow`): a run per benchmark, with a nested run per task.

MLflow's own variables say where: MLFLOW_TRACKING_URI (a server or database), MLFLOW_EXPERIMENT_NAME, and those for signing in.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from agent.bench.lab import BadInput
from agent.bench.metrics import installed, measured
from agent.bench.score import Entry, summary
from agent.solving.tasks import figures
from app.cli.bench.results_file import Header, header, stored

EXPERIMENT = "selfheal"
LONGEST_ERROR = 300  # characters
LONGEST = 250  # characters of a parameter or tag


class NotTracked(Exception):
    """The results could not be logged; the message says why and how to log them later."""


def check() -> None:
    """Raises `BadInput` if MLflow is missing, or cannot use the store that its variables name."""
    if importlib.util.find_spec("mlflow") is None:
        raise BadInput("--mlflow needs MLflow: install Selfheal with the extra `mlflow` (.venv/bin/pip install -e '.[mlflow]')")
    mlflow = _load()
    # MLflow's own patience is minutes.
    brief = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
    brief = {name: value for name, value in brief.items() if name not in os.environ}
    os.environ.update(brief)
    try:
        mlflow.MlflowClient().search_experiments(max_results=1)
    except Exception as error:  # the drivers of its stores can raise anything
        raise BadInput(
            f"MLflow cannot use {mlflow.get_tracking_uri()}: {shortened(str(error))}; set MLFLOW_TRACKING_URI to a running "
            "server, or to a database such as sqlite:///mlflow.db"
        ) from error
    finally:
        for name in brief:
            del os.environ[name]


def shortened(text: str) -> str:
    """The beginning of an error on one line, without a dot at its end; it ends with a sentence or at least with a word."""
    text = " ".join(text.split())
    if len(text) <= LONGEST_ERROR:
        return text.rstrip(".")
    head = text[:LONGEST_ERROR]
    return head.rpartition(". ")[0] or f"{head.rpartition(' ')[0]} …"


def _load() -> Any:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    return mlflow


def track(header: Header, entries: Sequence[Entry], figures: Mapping[str, Any]) -> str:
    """Log the results; returns where. Raises `NotTracked`."""
    mlflow = _load()
    from mlflow.exceptions import MlflowException

    values = measured(entries, installed())
    try:
        if "MLFLOW_EXPERIMENT_NAME" not in os.environ and "MLFLOW_EXPERIMENT_ID" not in os.environ:
            mlflow.set_experiment(EXPERIMENT)
        with mlflow.start_run(run_name=header.benchmark) as run:
            mlflow.set_tags({"selfheal.version": version("selfheal"), "selfheal.benchmark": header.benchmark})
            mlflow.log_params({name: value[:LONGEST] for name, value in header.options.items()})
            mlflow.log_metrics(_numbers({**msgspec.to_builtins(summary(entries)), **figures}))
            mlflow.log_text(json.dumps(dict(figures), indent=2), "figures.json")
            for entry in entries:
                _log_task(mlflow, header, entry, values.get(entry.id, {}))
            return f"{mlflow.get_tracking_uri()}, run {run.info.run_id}"
    except (MlflowException, OSError) as error:
        raise NotTracked(
            f"the results were not logged to MLflow at {mlflow.get_tracking_uri()}: {shortened(str(error))}; check "
            "MLFLOW_TRACKING_URI, then log a file that `--resume` wrote with `selfheal bench report FILE --mlflow`"
        ) from error


def track_file(file: Path) -> str:
    """Log saved results. Raises `BadInput`, `NotTracked`."""
    head, entries = header(file), stored(file)
    return track(head, entries, figures(entries) if any("base" in entry.details for entry in entries) else {})


def _log_task(mlflow: Any, header: Header, entry: Entry, quality: Mapping[str, float]) -> None:
    with mlflow.start_run(run_name=entry.id, nested=True):
        mlflow.log_params(
            {
                "task": entry.id,
                "group": entry.group,
                "model": header.options.get("model", ""),
                "prompts": header.options.get("prompts", ""),
            }
        )
        ended = str(entry.details.get("ended", entry.outcome))
        mlflow.set_tags({"status": ended, "rung": entry.rung or "", "error": (entry.error or "")[:LONGEST]})
        numbers = {
            "solved": entry.plausible,
            "base": entry.details.get("base"),
            "validated": entry.heldout_correct,
            "retries": max(0, entry.iterations - 1),
            "tokens": entry.tokens,
            "cost": entry.cost,
            "seconds": entry.seconds,
            "confidence": entry.confidence,
            **quality,
        }
        if entry.error is None:
            mlflow.log_metrics({name: float(value) for name, value in numbers.items() if value is not None})
        for path, text in entry.details.get("code", {}).items():
            mlflow.log_text(text, f"code/{path}")
        mlflow.log_text(json.dumps(msgspec.to_builtins(entry), indent=2), "log.json")


def _numbers(figures: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Nested figures as MLflow's flat metrics."""
    found: dict[str, float] = {}
    for name, value in figures.items():
        label = "".join(each if each.isalnum() or each in "_-. /" else "_" for each in f"{prefix}{name}")
        if isinstance(value, Mapping):
            found |= _numbers(value, f"{label}.")
        elif isinstance(value, int | float):
            found[label] = float(value)
    return found
