"""OpenTelemetry spans: one per step of the graph, one per model call. Without an exporter they cost nothing.

Names and attributes follow the semantic conventions for generative AI (`gen_ai.*`). Prompts and answers never enter a span:
they contain code of the repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from agent.models.values import Answer, ModelSettings

_tracer = trace.get_tracer("selfheal")


@contextmanager
def step(name: str, task_id: str, *, expected: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """A step of the graph or around it; model calls inside become child spans. `expected` exceptions are not errors."""
    with _span(f"selfheal.{name}", SpanKind.INTERNAL, {"selfheal.attempt": task_id, "selfheal.step": name}, expected):
        yield


@contextmanager
def model_call(operation: str, settings: ModelSettings, temperature: float | None = None) -> Iterator[Span]:
    """One request to a model; `operation` is "chat" or "embeddings"."""
    attributes: dict[str, str | float] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": settings.provider,
        "gen_ai.request.model": settings.name,
    }
    if temperature is not None:
        attributes["gen_ai.request.temperature"] = temperature
    with _span(f"{operation} {settings.name}", SpanKind.CLIENT, attributes) as span:
        yield span


def answered(span: Span, answer: Answer) -> None:
    """Records the usage of a model call."""
    span.set_attribute("gen_ai.usage.input_tokens", answer.usage.tokens_in)
    span.set_attribute("gen_ai.usage.output_tokens", answer.usage.tokens_out)
    span.set_attribute("gen_ai.response.finish_reasons", (answer.finish,))


@contextmanager
def _span(
    name: str, kind: SpanKind, attributes: Mapping[str, str | float], expected: tuple[type[Exception], ...] = ()
) -> Iterator[Span]:
    """Only an exception's type is recorded: its message can quote code or the prompt."""
    with _tracer.start_as_current_span(
        name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except expected:
            raise
        except Exception as error:  # whatever the traced code raises; it goes on to the caller
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
