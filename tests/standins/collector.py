"""An OpenTelemetry collector on loopback: takes OTLP over HTTP and keeps the decoded spans."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(slots=True)
class Collector:
    """What was received; `raw` are the bodies as they came, `headers` those of each request."""

    url: str
    spans: list[Span] = field(default_factory=list)
    resources: list[dict[str, str]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def named(self, name: str) -> list[Span]:
        return [span for span in list(self.spans) if span.name == name]


def attributes(span: Span) -> dict[str, object]:
    """Their values as Python's."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in span.attributes}


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector for the length of a block; it answers from threads of its own, whatever the test's loop does."""
    collector = Collector("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") is not None or self.path != "/v1/traces":
                self.send_error(415)
                return
            message = ExportTraceServiceRequest.FromString(body)
            collector.raw.append(body)
            collector.headers.append(dict(self.headers))
            for of in message.resource_spans:
                collector.resources.append({pair.key: pair.value.string_value for pair in of.resource.attributes})
                collector.spans += [span for scope in of.scope_spans for span in scope.spans]
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
