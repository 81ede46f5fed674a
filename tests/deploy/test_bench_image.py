"""The entry point of the benchmark image, with a stand-in for Ollama that answers as Ollama does, and the real `selfheal`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.story.service import free_port

ROOT = Path(__file__).resolve().parents[2]
# `ollama serve`: pulled models are files of a folder, as with the real one.
OLLAMA = """#!{python}
import json, os, pathlib, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
assert sys.argv[1:] == ["serve"], sys.argv
if os.environ.get("BROKEN"):
    sys.exit(3)
folder = pathlib.Path(os.environ["OLLAMA_MODELS"])
folder.mkdir(exist_ok=True)
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): ...
    def send(self, *lines):
        self.send_response(200)
        self.end_headers()
        self.wfile.write("".join(json.dumps(line) + "\\n" for line in lines).encode())
    def do_GET(self):
        assert self.path == "/api/tags", self.path
        self.send({{"models": [{{"name": each.name}} for each in folder.iterdir()]}})
    def do_POST(self):
        name = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        if self.path != "/api/pull":
            return self.send_error(404)
        if name == "nosuch":
            return self.send({{"status": "pulling manifest"}}, {{"error": "pull model manifest: file does not exist"}})
        (folder / name).touch()
        self.send({{"status": "pulling manifest"}}, {{"status": "pulling x"}}, {{"status": "success"}})
host, port = os.environ["OLLAMA_HOST"].split(":")
pathlib.Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"""


@pytest.fixture
def started(tmp_path: Path) -> dict[str, str]:
    """The environment of the image, with its programs on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ollama").write_text(OLLAMA.format(python=sys.executable))
    (programs / "selfheal").write_text(f'#!/bin/sh\nexec {sys.executable} -m app "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    return own | {
        "PATH": f"{programs}:{own['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OLLAMA_HOST": f"127.0.0.1:{free_port()}",
        "OLLAMA_MODELS": str(tmp_path / "models"),
        "BENCH_MODEL": "tiny:1b",
        "PID_FILE": str(tmp_path / "pid"),
    }


def run(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, str(ROOT / "deploy" / "bench" / "entrypoint.py"), *arguments]
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def is_running(pid_file: str) -> bool:
    try:
        os.kill(int(Path(pid_file).read_text()), 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
def test_the_model_is_pulled_at_the_first_start_only(started: dict[str, str]) -> None:
    first = run(started, "models")
    out, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    assert "ollama_chat/tiny:1b can be used." in out
    assert "pulling manifest" in err
    assert f"ollama, http://{started['OLLAMA_HOST']}\n  ollama_chat/tiny:1b" in out
    second = run(started, "models")
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert "can be used" not in out
    assert not is_running(started["PID_FILE"])


@pytest.mark.long
def test_what_cannot_start_or_be_pulled_is_told(started: dict[str, str]) -> None:
    for changed, said in (({"BENCH_MODEL": "nosuch"}, "nosuch cannot be pulled"), ({"BROKEN": "1"}, "did not answer")):
        process = run({**started, **changed}, "bench", "suite")
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert said in err
        assert "Traceback" not in err


def test_a_benchmark_gets_the_model_unless_one_is_named(started: dict[str, str]) -> None:
    script = Path(started["PID_FILE"]).parent / "bin" / "selfheal"
    script.write_text('#!/bin/sh\ncase "$*" in "models pull"*) exit 0;; esac\necho "$@"\nexit 7\n')
    for given, wanted in (
        (("bench", "suite", "--limit", "1"), "bench suite --limit 1 --model ollama_chat/tiny:1b"),
        (("bench", "suite", "--model", "scripted"), "bench suite --model scripted"),
        (("bench", "report", "x"), "bench report x"),
        (("version",), "version"),
    ):
        process = run(started, *given)
        out, _ = process.communicate(timeout=60)
        assert (out.strip(), process.returncode) == (wanted, 7)


def test_a_stop_reaches_both_processes(started: dict[str, str]) -> None:
    script = Path(started["PID_FILE"]).parent / "bin" / "selfheal"
    waits = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(130)); print('up', flush=True); time.sleep(60)"
    script.write_text(f'#!/bin/sh\ncase "$*" in "models pull"*) exit 0;; esac\nexec {sys.executable} -c "{waits}"\n')
    process = run(started, "bench", "suite")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 130
    assert time.monotonic() - began < 20
    assert not is_running(started["PID_FILE"])
