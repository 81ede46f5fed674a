"""A real npm registry on loopback, with packages of one file."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Registry:
    """`requests` are the paths that were asked for."""

    url: str = ""
    requests: list[str] = field(default_factory=list)
    pages: dict[str, bytes] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].strip("/"))

    def add(self, name: str, code: str, **manifest: object) -> None:
        """Version 1.0.0 of `name`, whose main file is `code`."""
        told = {"name": name, "version": "1.0.0", "main": "index.js", **manifest}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path, text in (("package.json", json.dumps(told)), ("index.js", code)):
                member = tarfile.TarInfo(f"package/{path}")
                member.size = len(text.encode())
                tar.addfile(member, io.BytesIO(text.encode()))
        content = packed.getvalue()
        digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
        dist = {"tarball": f"{self.url}{name}/-/{name}-1.0.0.tgz", "integrity": f"sha512-{digest}"}
        document = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**told, "dist": dist}}}
        self.pages |= {f"/{name}": json.dumps(document).encode(), f"/{name}/-/{name}-1.0.0.tgz": content}


@contextmanager
def serving() -> Iterator[Registry]:
    registry = Registry()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.requests.append(self.path)
            content = registry.pages.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
