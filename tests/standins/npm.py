"""A registry for npm on loopback: it serves packages that it makes up, and fails where a test says so."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class NpmRegistry:
    """`failing` are the packages whose tarballs are answered with 503; `asked` the paths that were asked for."""

    url: str
    failing: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    packages: dict[str, dict[str, Any]] = field(default_factory=dict)
    tarballs: dict[str, bytes] = field(default_factory=dict)
    times: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    def add(
        self,
        name: str,
        version: str = "1.0.0",
        day: str = "2020-01-01",
        files: Mapping[str, str] | None = None,
        **manifest: object,
    ) -> dict[str, Any]:
        """Publish a package on a day; returns what a lock says of it."""
        self.times.setdefault(name, {})[version] = f"{day}T12:00:00.000Z"
        told = {"name": name, "version": version, **manifest}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            main = ("index.js", f"module.exports = '{version}'\n")
            for file, text in (("package.json", json.dumps(told)), main, *(files or {}).items()):
                header = tarfile.TarInfo(f"package/{file}")
                header.size = len(text)
                tar.addfile(header, io.BytesIO(text.encode()))
        content = packed.getvalue()
        path = f"/{name}/-/{name}-{version}.tgz"
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        self.tarballs[path] = content
        self.packages.setdefault(name, {})[version] = {
            **told, "dist": {"tarball": self.url + path, "integrity": integrity}
        }  # fmt: skip
        return {"version": version, "resolved": self.url + path, "integrity": integrity, **manifest}


@contextmanager
def serving() -> Iterator[NpmRegistry]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        registry = NpmRegistry(f"http://127.0.0.1:{server.server_address[1]}")
        server.RequestHandlerClass = functools.partial(_Handler, registry)  # type: ignore[assignment]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, registry: NpmRegistry, *told: Any) -> None:
        self._registry = registry
        super().__init__(*told)

    def do_GET(self) -> None:
        registry = self._registry
        registry.asked.append(self.path)
        name = self.path.split("/")[1]
        content = registry.tarballs.get(self.path)
        if content is None and (versions := registry.packages.get(name)) and self.path == f"/{name}":
            latest = {"latest": max(versions)}
            times = registry.times[name]
            content = json.dumps({"name": name, "dist-tags": latest, "versions": versions, "time": times}).encode()
        fails = name in registry.failing and "/-/" in self.path
        self.send_response(503 if fails else 404 if content is None else 200)
        self.end_headers()
        self.wfile.write(b"" if fails or content is None else content)

    def log_message(self, *told: Any) -> None:
        pass
