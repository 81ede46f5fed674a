"""A sparse index of crates and a proxy of Go modules on loopback, strict about what they serve; cargo and go can use them."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote


@dataclass
class Sources:
    """`pages` are what is served, `asked` the paths that were asked for; `failing` paths are answered with 503 once each."""

    url: str
    pages: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)

    @property
    def index(self) -> str:
        return f"{self.url}/index/"

    @property
    def proxy(self) -> str:
        return f"{self.url}/go"

    def add_crate(
        self, name: str, version: str, code: str, files: Mapping[str, str] | None = None, links: Mapping[str, str] | None = None
    ) -> str:
        """Publish a crate without dependencies; returns the digest that a lock names. `links` are symbolic: path → target."""
        top = f"{name}-{version}"
        manifest = f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2021"\n'
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
            for path, text in {f"{top}/Cargo.toml": manifest, f"{top}/src/lib.rs": code, **(files or {})}.items():
                header = tarfile.TarInfo(path)
                header.size = len(text.encode())
                tar.addfile(header, io.BytesIO(text.encode()))
            for path, target in (links or {}).items():
                header = tarfile.TarInfo(path)
                header.type, header.linkname = tarfile.SYMTYPE, target
                tar.addfile(header)
        content = packed.getvalue()
        digest = hashlib.sha256(content).hexdigest()
        prefix = f"{name[:2]}/{name[2:4]}" if len(name) > 3 else f"3/{name[0]}"
        line = {"name": name, "vers": version, "deps": [], "cksum": digest, "features": {}, "yanked": False}
        self.pages["/index/config.json"] = json.dumps({"dl": f"{self.url}/crates"}).encode()
        self.pages[f"/index/{prefix}/{name}"] = (
            self.pages.get(f"/index/{prefix}/{name}", b"") + json.dumps(line).encode() + b"\n"
        )
        self.pages[f"/crates/{name}/{version}/download"] = content
        return digest

    def add_module(self, path: str, version: str, files: Mapping[str, str]) -> None:
        """Publish a Go module; `files` do not include its go.mod."""
        mod = f"module {path}\n\ngo 1.17\n"
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, text in {"go.mod": mod, **files}.items():
                archive.writestr(f"{path}@{version}/{name}", text)
        place = f"/go/{''.join(f'!{letter.lower()}' if letter.isupper() else letter for letter in path)}/@v"
        self.pages[f"{place}/list"] = self.pages.get(f"{place}/list", b"") + f"{version}\n".encode()
        self.pages[f"{place}/{version}.info"] = json.dumps({"Version": version, "Time": "2024-01-01T00:00:00Z"}).encode()
        self.pages[f"{place}/{version}.mod"] = mod.encode()
        self.pages[f"{place}/{version}.zip"] = packed.getvalue()


@contextmanager
def serving() -> Iterator[Sources]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        sources = Sources(f"http://127.0.0.1:{server.server_address[1]}")
        server.RequestHandlerClass = functools.partial(_Handler, sources)  # type: ignore[assignment]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield sources
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, sources: Sources, *given: Any) -> None:
        self._sources = sources
        super().__init__(*given)

    def do_GET(self) -> None:
        path = unquote(self.path)
        self._sources.asked.append(path)
        content = self._sources.pages.get(path)
        status = 404 if content is None else 200
        if path in self._sources.failing:
            self._sources.failing.remove(path)
            status, content = 503, None
        self.send_response(status)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        with suppress(BrokenPipeError):  # a client with a bound has left
            self.wfile.write(content or b"")

    def log_message(self, *_: object) -> None: ...
