"""A Hugging Face hub on loopback, as `huggingface_hub` asks it: metadata, the list of files, files whole or from a byte on.

As on the real one, the files of a gated model are refused while its description can be read.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

COMMIT = "c0" * 20


@dataclass
class Hub:
    """`models` maps OWNER/NAME to files. `fetched` are the paths of the files that were sent, `gated` the models to refuse."""

    url: str
    models: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    fetched: list[str] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[Hub]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")
        server.RequestHandlerClass = functools.partial(_Handler, hub)  # type: ignore[assignment]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, hub: Hub, *told: Any) -> None:
        self._hub = hub
        super().__init__(*told)

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        is_api = parts[:2] == ["api", "models"]
        name, rest = "/".join(parts[2:4] if is_api else parts[:2]), parts[4:] if is_api else parts[2:]
        files = self._hub.models.get(name)
        if files is None:
            self._answer(404, {"X-Error-Code": "RepoNotFound"})
        elif is_api and rest[:1] == ["tree"]:
            self._answer(
                200, {}, [{"type": "file", "path": path, "size": len(data), "oid": _oid(data)} for path, data in files.items()]
            )
        elif is_api:
            self._answer(200, {}, {"id": name, "sha": COMMIT, "siblings": [{"rfilename": path} for path in files]})
        elif name in self._hub.gated:
            self._answer(401, {"X-Error-Code": "GatedRepo"})
        elif rest[:2] == ["resolve", COMMIT] and (path := "/".join(rest[2:])) in files:
            self._file(path, files[path])
        else:
            self._answer(404, {"X-Error-Code": "EntryNotFound"})

    do_HEAD = do_GET

    def _file(self, path: str, data: bytes) -> None:
        headers = {"ETag": f'"{_oid(data)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        if self.command == "GET":
            self._hub.fetched.append(path)
        self._answer(206 if start else 200, headers, data[start:])

    def _answer(self, status: int, headers: dict[str, str], body: object = b"") -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *told: Any) -> None:
        pass


def _oid(data: bytes) -> str:
    """A blob's id, as git computes it."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
