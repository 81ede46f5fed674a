"""`selfheal models`, with an Ollama and an OpenAI-compatible server on loopback."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.app.cli import program
from tests.standins.model import ScriptedModel

ROOT = Path(__file__).resolve().parents[3]
NOWHERE = "http://127.0.0.1:9"


def models(folder: Path, *arguments: str, **settings: str) -> tuple[int, str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    environment = {name: value for name, value in environment.items() if not name.endswith("_API_KEY")}
    given = {f"SELFHEAL_{name}" if name.startswith("MODEL") else name: value for name, value in settings.items()}
    done = program.run(["models", *arguments], folder, environment | given | {"PYTHONPATH": str(ROOT)})
    return done.returncode, done.stdout, done.stderr


async def test_the_models_of_an_ollama_are_listed_and_one_is_pulled(tmp_path: Path) -> None:
    async with ScriptedModel([], models=("qwen2.5-coder:7b",)) as ollama:
        settings = {"MODEL": "ollama_chat/qwen2.5-coder:7b", "MODEL_API_BASE": ollama.ollama_url}
        code, out, err = models(tmp_path, **settings)
        assert code == 0, err
        assert f"ollama, {ollama.ollama_url}\n  ollama_chat/qwen2.5-coder:7b\n" in out
        assert "scripted" in out
        code, out, err = models(tmp_path, "pull", "codellama:7b", "--yes", **settings)
        assert (code, out) == (0, "ollama_chat/codellama:7b can be used.\n"), err
        assert "ollama_chat/codellama:7b" in models(tmp_path, **settings)[1]
        for name, said in (("nosuch", "file does not exist"), ("breaks", "broke off after 'pulling 60e05f210007'")):
            code, out, err = models(tmp_path, "pull", name, "--yes", **settings)
            assert (code, out) == (1, "")
            assert said in err
        code, _, err = models(tmp_path, "pull", "codellama:7b", **settings)
        assert code == 2
        assert "--yes" in err


async def test_a_server_and_hosted_providers_are_listed(tmp_path: Path) -> None:
    async with ScriptedModel([], models=("local-coder",)) as server:
        settings = {"MODEL": "openai/local-coder", "MODEL_API_BASE": server.openai_url, "ANTHROPIC_API_KEY": "sk-not-shown"}
        code, out, err = models(tmp_path, "--json", **settings)
        assert code == 0, err
    told = json.loads(out)
    assert "sk-not-shown" not in out
    kinds = {each["kind"]: each for each in told["sources"]}
    assert kinds["server"]["names"] == ["openai/local-coder"]
    assert kinds["hosted"]["where"] == "ANTHROPIC_API_KEY"
    assert told["configured"]["role review, dispute"] == "openai/local-coder"


def test_what_does_not_answer_is_said_and_is_no_error(tmp_path: Path) -> None:
    code, out, err = models(tmp_path, MODEL="ollama_chat/x", MODEL_API_BASE=NOWHERE)
    assert code == 0, err
    assert "no Ollama answers" in out
    code, _, err = models(tmp_path, "pull", "x", "--yes", MODEL="ollama_chat/x", MODEL_API_BASE=NOWHERE)
    assert code == 1
    assert f"no Ollama answers at {NOWHERE}" in err
    code, out, _ = models(tmp_path, MODEL="openai/x", MODEL_API_BASE=NOWHERE)
    assert "no server with a list of models answers" in out
