"""Exports spans by OTLP over HTTP if an endpoint is set; otherwise OpenTelemetry's SDK is not loaded.

Each attempt is one trace with the attempt's id; the id of its delivery's span is derived from the delivery's id. So every
process can derive both from ids in the database, and Redis carries no trace context.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from app.redaction import redact_values
from app.settings import Settings

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

UNTRACED: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False}
"""FastAPI telemetry options for our web apps: probes, scrapes and pages belong to no attempt's trace."""
LONGEST: Final = 256  # characters of an attribute
_EXPORT_SECONDS: Final = 5.0
_CLOSING_SECONDS: Final = 3.0

_chosen: ContextVar[tuple[int, int] | None] = ContextVar("chosen", default=None)
"""Trace id and span id for the next span; None for random ids."""


@contextlib.contextmanager
def export_spans(settings: Settings, process: str) -> Iterator[None]:
    """Export the block's spans to the configured endpoint; `process` is "web", "worker" or both.

    An unavailable collector costs spans, log lines and a few seconds at the end, but never work.
    """
    if not settings.otlp_endpoint:
        yield
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    wire = OTLPSpanExporter(endpoint=f"{settings.otlp_endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_SECONDS)
    provider = provider_of(process, redacting(wire, settings.secrets))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        # The shutdown could wait for half a minute; shutting down the exporter ends the retries.
        giving_up = threading.Timer(_CLOSING_SECONDS, wire.shutdown)
        giving_up.start()
        provider.shutdown()
        giving_up.cancel()


def record_delivery(attempt_id: str, guid: str, event: str, began: int) -> None:
    """Record the span of a delivery that requested an attempt, from `began` (nanoseconds since 1970) until now."""
    from opentelemetry import trace

    attributes = {"selfheal.attempt": attempt_id, "selfheal.delivery": guid, "selfheal.event": event}
    ids, kind = (_trace_id(attempt_id), _span_id(guid)), trace.SpanKind.SERVER
    _start("selfheal.delivery", ids, trace.INVALID_SPAN, kind=kind, start_time=began, attributes=attributes).end()


@contextlib.contextmanager
def attempt(attempt_id: str, delivery: str | None, number: int) -> Iterator[None]:
    """The span of one try of an attempt, a child of its delivery's span; the steps' spans become its children."""
    from opentelemetry import trace

    above: trace.Span = trace.INVALID_SPAN
    if delivery is not None:
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        above = trace.NonRecordingSpan(trace.SpanContext(_trace_id(attempt_id), _span_id(delivery), True, flags))
    ids = (_trace_id(attempt_id), _span_id(f"{attempt_id} {number}")) if delivery is None else None
    attributes = {"selfheal.attempt": attempt_id, "selfheal.delivery": delivery or "", "selfheal.try": number}
    span = _start("selfheal.attempt", ids, above, kind=trace.SpanKind.CONSUMER, attributes=attributes)
    try:
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            yield
    except BaseException as error:  # only its type: a message may quote a repository's code
        span.set_attribute("error.type", type(error).__name__)
        raise
    finally:
        span.end()


def _start(name: str, ids: tuple[int, int] | None, above: Span, **options: Any) -> Span:
    """Start a child span of `above`, with these trace and span ids if given."""
    from opentelemetry import trace

    token = _chosen.set(ids)
    try:
        return trace.get_tracer("selfheal").start_span(name, context=trace.set_span_in_context(above), **options)
    finally:
        _chosen.reset(token)


def set_outcome(outcome: str) -> None:
    """Set the outcome on the attempt's span."""
    from opentelemetry import trace

    trace.get_current_span().set_attribute("selfheal.outcome", outcome)


def provider_of(process: str, exporter: SpanExporter) -> TracerProvider:
    """The tracer provider. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override our own names."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            chosen = _chosen.get()
            return chosen[0] if chosen is not None else super().generate_trace_id()

        def generate_span_id(self) -> int:
            chosen = _chosen.get()
            return chosen[1] if chosen is not None else super().generate_span_id()

    provider = TracerProvider(
        resource=Resource({"service.name": "selfheal", "selfheal.process": process}).merge(OTELResourceDetector().detect()),
        span_limits=SpanLimits(max_span_attribute_length=LONGEST, max_span_attributes=32, max_events=8, max_links=8),
        id_generator=Ids(),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1000))
    return provider


def redacting(exporter: SpanExporter, secrets: Sequence[str]) -> SpanExporter:
    """An exporter that redacts secrets in all spans, ours and those of libraries."""
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import Status

    clean = partial(redact_values, secrets=secrets)

    def all_clean(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
        return {name: clean(value) for name, value in (attributes or {}).items()}

    def copied(span: ReadableSpan) -> ReadableSpan:
        description = span.status.description
        return ReadableSpan(
            name=clean(span.name)[:LONGEST],
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=all_clean(span.attributes),
            events=[Event(clean(event.name), all_clean(event.attributes), event.timestamp) for event in span.events],
            kind=span.kind,
            status=Status(span.status.status_code, clean(description)[:LONGEST] if description else None),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    class Redacting(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return exporter.export([copied(span) for span in spans])

        def shutdown(self) -> None:
            exporter.shutdown()

    return Redacting()


def _trace_id(attempt_id: str) -> int:
    """An attempt's id is 32 hexadecimal digits, as many as a trace's."""
    with contextlib.suppress(ValueError):
        if len(attempt_id) == 32 and int(attempt_id, 16):
            return int(attempt_id, 16)
    return int.from_bytes(hashlib.sha256(attempt_id.encode()).digest()[:16]) or 1


def _span_id(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) or 1
