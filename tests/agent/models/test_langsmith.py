"""Where LangSmith's settings are present, LangGraph traces by itself; what it sends holds no file, no prompt and no answer."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import asyncio, sys
from pathlib import Path
from langchain_core.tracers.langchain import wait_for_all_tracers
from agent.models.values import ModelSettings
from agent.models.router import Models
from agent.proposers.model import ModelProposer
from tests.agent.workbench import Bench
from tests.standins.model import ScriptedModel

FIX = "calc.py\\n<<<<<<< SEARCH\\n    return a - b\\n=======\\n    return a + b\\n>>>>>>> REPLACE\\n"

async def main():
    async with ScriptedModel([FIX, '{"accept": true, "input": "add(7, 8) gives 15"}']) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "sk-secret-of-the-test", 60.0))
        print(type(await Bench(Path(sys.argv[1])).heal(ModelProposer(models), models=models)).__name__)

asyncio.run(main())
wait_for_all_tracers()
"""


@contextmanager
def langsmith() -> Iterator[tuple[str, list[bytes]]]:
    """Its address, and what it was sent."""
    sent: list[bytes] = []

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(self.path.encode() + b"\n" + self._body())
            self.send_response(202)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_PATCH = do_POST

        def do_GET(self) -> None:
            self.send_error(404)

        def _body(self) -> bytes:
            if self.headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("content-length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Takes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.long
def test_langsmith_is_told_of_the_steps_and_of_no_code(tmp_path: Path) -> None:
    with langsmith() as (url, sent):
        told = {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": url,
            "LANGSMITH_API_KEY": "none",
            "LANGSMITH_DISABLE_RUN_COMPRESSION": "true",
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            env={**os.environ, **told, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, timeout=240, check=True,
        )  # fmt: skip
    assert done.stdout.split() == ["Repair"], done.stderr
    everything = b"\n".join(sent)
    assert b"reproduce" in everything
    assert b"oracle_ref" in everything, "the state was sent, and it holds names of blobs"
    for secret in (b"return a - b", b"return a + b", b"def add", b"You repair", b"<<<<<<<", b"sk-secret"):
        assert secret not in everything
