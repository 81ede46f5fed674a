"""Starts Ollama, pulls the model at the first start, and runs `selfheal` with the given arguments.

    docker run --rm --volume bench:/data selfheal-bench bench humaneval --data /data/HumanEval.jsonl.gz

The exit code is that of `selfheal`; 1 if Ollama does not start or the model cannot be pulled. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

START_SECONDS = 60.0
STOP_SECONDS = 10.0
WITHOUT_MODEL = ("compare", "fit", "report")  # commands of `bench`


def main(arguments: Sequence[str]) -> int:
    model = os.environ.get("BENCH_MODEL") or "qwen2.5-coder:1.5b"
    address = os.environ.get("OLLAMA_HOST") or "127.0.0.1:11434"
    url = address if address.startswith("http") else f"http://{address}"
    running: list[subprocess.Popen[bytes]] = []
    stopped: list[int] = []

    def stop(number: int, _: object) -> None:
        """Passes the signal on; the commands clean up and end."""
        stopped.append(number)
        for process in reversed(running):
            if process.poll() is None:
                process.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    ollama = subprocess.Popen(["ollama", "serve"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    running.append(ollama)
    try:
        if (known := _models(ollama, url)) is None:
            print(
                f"selfheal: Ollama did not answer at {url} within {START_SECONDS:.0f} s; run `ollama serve` to see why",
                file=sys.stderr,
            )
            return 1
        environment = {**os.environ, "SELFHEAL_MODEL": f"ollama_chat/{model}", "SELFHEAL_MODEL_API_BASE": url}
        is_pulled = model in known or f"{model}:latest" in known
        pull = ["selfheal", "models", "pull", model, "--yes"]
        if not is_pulled and (code := _run(pull, environment, running, stopped)):
            return code
        return _run(["selfheal", *with_model(arguments, model)], environment, running, stopped)
    finally:
        ollama.terminate()
        try:
            ollama.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            ollama.kill()


def with_model(arguments: Sequence[str], model: str) -> list[str]:
    """The arguments with `--model`, if a benchmark is run and none is given."""
    asks = len(arguments) > 1 and arguments[0] == "bench" and arguments[1] not in WITHOUT_MODEL
    is_given = any(each == "--model" or each.startswith("--model=") for each in arguments)
    is_help = "--help" in arguments
    return [*arguments, *(["--model", f"ollama_chat/{model}"] if asks and not is_given and not is_help else [])]


def _models(ollama: subprocess.Popen[bytes], url: str) -> set[str] | None:
    """The pulled models, once Ollama answers; None if it does not."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and ollama.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/api/tags", timeout=2) as answer:
                return {str(each["name"]) for each in json.load(answer)["models"]}
        except (urllib.error.URLError, OSError, ValueError, KeyError):
            time.sleep(0.2)
    return None


def _run(argv: list[str], environment: dict[str, str], running: list[subprocess.Popen[bytes]], stopped: list[int]) -> int:
    """Run to the end; the exit code as a shell gives it."""
    process = subprocess.Popen(argv, env=environment)
    running.append(process)
    for number in stopped[:1]:  # a signal that came before the process was known
        process.send_signal(number)
    code = process.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
