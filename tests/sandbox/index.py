"""A real package index on loopback, with wheels and with sources whose code is executed while they are built."""

from __future__ import annotations

import functools
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandbox.install.package_index import IndexAccess

# A build backend that needs nothing: it brings its own wheel maker, and tells what it could reach.
BACKEND = """
import base64, hashlib, json, os, pathlib, socket, urllib.error, urllib.request, zipfile
def attempts():
    found = {"proxied": None, "direct": None, "host": os.path.exists("@MARK@/..")}
    try:
        urllib.request.urlopen("http://192.0.2.1:80/", timeout=5)
    except urllib.error.HTTPError as error: found["proxied"] = error.code
    except OSError as error: found["proxied"] = type(error).__name__
    with socket.socket() as one:
        one.settimeout(3); found["direct"] = one.connect_ex(("@HOST@", @PORT@))
    try: pathlib.Path("@MARK@").write_text("built on the host")
    except OSError: pass
    return found
def wheel(folder, files):
    name = "@NAME@-1.0-py3-none-any.whl"; info = "@NAME@-1.0.dist-info/"
    files = dict(files)
    files[info + "METADATA"] = "Metadata-Version: 2.1\\nName: @NAME@\\nVersion: 1.0\\n@NEEDS@"
    files[info + "WHEEL"] = "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[info + "RECORD"] = "".join(f"{one},,\\n" for one in files) + info + "RECORD,,\\n"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for one, text in files.items(): archive.writestr(one, text)
    return name
def build_wheel(folder, config_settings=None, metadata_directory=None):
    return wheel(folder, {"@NAME@.py": "attempts = " + repr(attempts())})
def build_editable(folder, config_settings=None, metadata_directory=None):
    return wheel(folder, {"@NAME@.pth": os.path.abspath("src")})
def build_sdist(folder, config_settings=None): raise NotImplementedError
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "@NAME@"
version = "1.0"
dependencies = [@STATIC@]
"""


@dataclass(frozen=True)
class Index:
    folder: Path
    address: tuple[str, int]
    requests: list[str]
    server: http.server.ThreadingHTTPServer

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}/simple"

    @property
    def access(self) -> IndexAccess:
        return IndexAccess((self.url,), frozenset({f"{self.address[0]}:{self.address[1]}"}))

    def backend(self, name: str, mark: Path, needs: str = "") -> bytes:
        text = BACKEND.replace("@NAME@", name).replace("@MARK@", str(mark)).replace("@NEEDS@", needs)
        return text.replace("@HOST@", self.address[0]).replace("@PORT@", str(self.address[1])).encode()

    def add_wheel(self, name: str, content: str = "answer = 42", version: str = "1.0", **more: str) -> None:
        """`more` are files beside the module, by name."""
        info = f"{name}-{version}.dist-info/"
        files = {
            f"{name}.py": content,
            **more,
            f"{info}METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        files[f"{info}RECORD"] = "".join(f"{one},,\n" for one in files) + f"{info}RECORD,,\n"
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for one, text in files.items():
                archive.writestr(one, text)
        self._add(name, f"{name}-{version}-py3-none-any.whl", buffer.getvalue())

    def add_source(self, name: str, mark: Path, needs: str = "") -> None:
        """`needs` is a requirement of the built wheel."""
        static, told = (f'"{needs}"', f"Requires-Dist: {needs}\n") if needs else ("", "")
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            pyproject = PYPROJECT.replace("@NAME@", name).replace("@STATIC@", static)
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{told}"
            for path, content in (
                ("pyproject.toml", pyproject.encode()),
                ("backend.py", self.backend(name, mark, told.replace("\n", "\\n"))),
                ("PKG-INFO", metadata.encode()),
            ):
                header = tarfile.TarInfo(f"{name}-1.0/{path}")
                header.size = len(content)
                tar.addfile(header, io.BytesIO(content))
        self._add(name, f"{name}-1.0.tar.gz", buffer.getvalue())

    def _add(self, name: str, file: str, content: bytes) -> None:
        place = self.folder / "simple" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / file).write_bytes(content)
        links = "".join(f'<a href="{one.name}">{one.name}</a>' for one in place.iterdir() if one.suffix != ".html")
        (place / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")


@contextmanager
def serving(folder: Path) -> Iterator[Index]:
    requests: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            requests.append(self.path)

    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield Index(folder, ("127.0.0.1", server.server_address[1]), requests, server)
    server.shutdown()
    server.server_close()
    thread.join()
