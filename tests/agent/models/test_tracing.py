"""Every step of a repair is a span, where somebody collects them."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.agent.workbench import RIGHT, Bench, Scripted


@pytest.mark.usefixtures("remembered_runs")
async def test_each_step_is_a_span_with_the_attempt_and_without_any_code(tmp_path: Path) -> None:
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    spans = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    bench = Bench(tmp_path)
    await bench.heal(Scripted([(RIGHT,)]))
    told = [span for span in spans.get_finished_spans() if span.name.startswith("selfheal.")]
    assert [span.name for span in told] == [f"selfheal.{step}" for step in bench.steps()]
    assert {(span.attributes or {})["selfheal.attempt"] for span in told} == {"t1"}
    assert "return a" not in "".join(span.to_json() for span in told)
