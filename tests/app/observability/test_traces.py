"""Spans as a collector gets them. Each test has a process of its own: OpenTelemetry's provider is set once for ever."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import time
import uuid

import pytest

from tests.standins.collector import attributes, collecting

SECRET = "canary-7f3a9c1e"
HEAD = """\
import time
from agent.models import tracing
from app.observability import traces
from app.settings import load
settings = load(github_webhook_secret="canary-7f3a9c1e")
"""


async def run(program: str, **environment: str) -> str:
    """What the program printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HEAD + textwrap.dedent(program), env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), 90)
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_two_processes_that_know_only_ids_make_one_trace() -> None:
    attempt, guid = uuid.uuid4().hex, str(uuid.uuid4())
    web = f"""
        with traces.export_spans(settings, "web"):
            traces.record_delivery({attempt!r}, {guid!r}, "workflow_run", time.time_ns())
        """
    worker = f"""
        with traces.export_spans(settings, "worker"):
            with traces.attempt({attempt!r}, {guid!r}, 1):
                with tracing.step("gather", {attempt!r}):
                    pass
                traces.set_outcome("healed")
        """
    with collecting() as collector:
        await asyncio.gather(
            *(run(program, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_SERVICE_NAME="mine") for program in (web, worker))
        )
    (delivery,), (tried,), (gather,) = (collector.named(f"selfheal.{name}") for name in ("delivery", "attempt", "gather"))
    assert {span.trace_id.hex() for span in (delivery, tried, gather)} == {attempt}
    assert (tried.parent_span_id, gather.parent_span_id) == (delivery.span_id, tried.span_id)
    assert delivery.parent_span_id == b""
    assert attributes(tried)["selfheal.outcome"] == "healed"
    assert {(r["service.name"], r["selfheal.process"]) for r in collector.resources} == {("mine", "web"), ("mine", "worker")}


async def test_no_secret_and_no_words_of_an_exception_leave_and_what_leaves_is_bounded() -> None:
    program = f"""
        from opentelemetry import trace
        with traces.export_spans(settings, "worker"):
            try:
                with traces.attempt("{uuid.uuid4().hex}", None, 1), tracing.step("gather", "{SECRET}"):
                    raise ValueError("foreign words")
            except ValueError:
                pass
            with trace.get_tracer("other").start_as_current_span("ghp_" + "a1" * 18) as span:
                span.set_attribute("long", "x" * 5000)
                span.set_attribute("listed", ["{SECRET}"])
                span.add_event("{SECRET}", {{"what": "{SECRET}"}})
        """
    with collecting() as collector:
        await run(program, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_EXPORTER_OTLP_HEADERS="x-key=for-the-collector-1")
    sent = b"".join(collector.raw)
    for never in (SECRET.encode(), b"foreign words", b"ghp_", b"x" * 300):
        assert never not in sent
    (gather,) = collector.named("selfheal.gather")
    assert attributes(gather)["error.type"] == "ValueError"
    assert gather.status.message == "ValueError"
    assert {headers["x-key"] for headers in collector.headers} == {"for-the-collector-1"}


async def test_without_an_endpoint_nothing_of_the_sdk_is_loaded() -> None:
    out = await run(
        """
        import sys
        with traces.export_spans(settings, "worker"), traces.attempt("a" * 32, None, 1):
            pass
        print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))])
        """,
        OTEL_EXPORTER_OTLP_ENDPOINT="",
    )
    assert out.strip() == "[]"


@pytest.mark.long
async def test_a_collector_that_is_away_holds_up_neither_work_nor_the_end() -> None:
    program = """
        with traces.export_spans(settings, "worker"):
            began = time.monotonic()
            for _ in range(100):
                with traces.attempt("a" * 32, None, 1):
                    pass
            print(f"worked {time.monotonic() - began < 5}")
        """
    began = time.monotonic()
    out = await run(program, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    assert "worked True" in out
    assert time.monotonic() - began < 60
