"""Names of rungs: "tools", "patterns", "model:<name>", or one from an extension."""

from __future__ import annotations


def is_model(rung: str) -> bool:
    return rung.startswith("model")


def model_name(rung: str) -> str:
    """ "gpt-x" for "model:gpt-x"; "" for a rung without a model."""
    return rung.partition(":")[2] if is_model(rung) else ""
