"""Spans for OpenTelemetry: one a step of the graph, one a call of a model. Nothing happens where no exporter is set up.

Names and attributes follow the semantic conventions for generative AI (`gen_ai.*`). No prompt and no answer is ever put into a
span: both hold foreign code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from agent.models.values import Answer, ModelError, ModelSettings

_tracer = trace.get_tracer("selfheal")


@contextmanager
def step(name: str, task_id: str, *, expected: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """A step of the graph, or of what surrounds it; the calls of models inside become its children.

    An exception leaves its kind alone: its message may quote foreign code. Those that are `expected` are no errors.
    """
    attributes = {"selfheal.attempt": task_id, "selfheal.step": name}
    with _tracer.start_as_current_span(
        f"selfheal.{name}", attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except expected:
            raise
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise


@dataclass(frozen=True, slots=True)
class ModelSpan:
    """The span of one call of a model, told how it ended."""

    span: Span

    def answered(self, answer: Answer) -> None:
        self.span.set_attributes(
            {
                "gen_ai.usage.input_tokens": answer.usage.tokens_in,
                "gen_ai.usage.output_tokens": answer.usage.tokens_out,
                "gen_ai.response.finish_reasons": (answer.finish,),
            }
        )

    def failed(self, error: ModelError) -> None:
        """Its kind alone: a provider's message may quote the prompt."""
        self.span.set_attribute("error.type", type(error).__name__)
        self.span.set_status(Status(StatusCode.ERROR, type(error).__name__))


@contextmanager
def model_call(operation: str, settings: ModelSettings, temperature: float | None = None) -> Iterator[ModelSpan]:
    """One request to a model; `operation` is "chat" or "embeddings"."""
    attributes: dict[str, str | float] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": settings.provider,
        "gen_ai.request.model": settings.name,
    }
    if temperature is not None:
        attributes["gen_ai.request.temperature"] = temperature
    # Not recorded by itself: an exception's message may quote the prompt.
    with _tracer.start_as_current_span(
        f"{operation} {settings.name}",
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield ModelSpan(span)
