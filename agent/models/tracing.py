"""OpenTelemetry spans: one per step of the graph, one per model call. Without an exporter they cost nothing.

Names and attributes follow the semantic conventions for generative AI (`gen_ai.*`). Prompts and answers never enter a span:
they contain foreign code.
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
    """A step of the graph or around it; model calls inside become child spans.

    Only an exception's type is recorded: its message may quote foreign code. `expected` exceptions are not errors.
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
    """The span of one model call."""

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
        """Records only its type: a provider's message may quote the prompt."""
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
    # Exceptions are not recorded: their message may quote the prompt.
    with _tracer.start_as_current_span(
        f"{operation} {settings.name}",
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield ModelSpan(span)
