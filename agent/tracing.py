"""Spans for OpenTelemetry: one a step of the graph, one a call of a model. Nothing happens where no exporter is set up.

Names and attributes follow the semantic conventions for generative AI (`gen_ai.*`). No prompt and no answer is ever put into a
span: both hold foreign code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace

_tracer = trace.get_tracer("selfheal")


@contextmanager
def step(name: str, task_id: str) -> Iterator[None]:
    """A step of the graph; the calls of models inside become its children."""
    with _tracer.start_as_current_span(f"selfheal.{name}", attributes={"selfheal.attempt": task_id, "selfheal.step": name}):
        yield
