"""`selfheal models`, with an Ollama, an OpenAI-compatible server and a Hugging Face hub on loopback."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import get_args

import pytest

from agent.models.values import Role
from tests.app.cli import program
from tests.standins import hub
from tests.standins.model import ScriptedModel

ROOT = Path(__file__).resolve().parents[3]
NOWHERE = "http://127.0.0.1:9"
HEADER = json.dumps({"w": {"dtype": "F32", "shape": [1000], "data_offsets": [0, 4000]}}).encode()
WEIGHTS = struct.pack("<Q", len(HEADER)) + HEADER + bytes(4000)
SNAPSHOT = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}", "model.safetensors": WEIGHTS}


def models(folder: Path, *arguments: str, **settings: str) -> tuple[int, str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    environment = {name: value for name, value in environment.items() if not name.endswith(("_API_KEY", "OLLAMA_HOST"))}
    given = {f"SELFHEAL_{name}" if name.startswith("MODEL") else name: value for name, value in settings.items()}
    done = program.run(["models", *arguments], folder, environment | given | {"PYTHONPATH": str(ROOT)})
    return done.returncode, done.stdout, done.stderr


@pytest.mark.long
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
    reviewing = next(each for each in told["configured"]["roles"] if each["role"] == "review")
    assert reviewing["model"] == f"openai/local-coder@{server.openai_url}"


async def test_the_servers_of_all_configured_models_are_listed_with_names_that_can_be_used(tmp_path: Path) -> None:
    async with (
        ScriptedModel([], models=("qwen3", "qwen3-small")) as first,
        ScriptedModel([], models=("qwen3",)) as second,
        ScriptedModel([], models=("qwen2.5-coder:7b",)) as remote,
        ScriptedModel([], models=("codellama:7b",)) as own,
    ):
        code, out, err = models(
            tmp_path,
            MODEL=f"openai/qwen3@{first.openai_url}",
            MODEL_FALLBACKS=f"openai/qwen3@{second.openai_url}, scripted",
            MODEL_REVIEW=f"ollama_chat/qwen2.5-coder:7b@{remote.ollama_url}",
            MODEL_ANSWER_TOKENS="1000",
            MODEL_ROLE_TOKENS="dispute = 500, design=2000",
            MODEL_ROLE_TEMPERATURES="dispute=0.25,write=0.5",
            OLLAMA_HOST=own.ollama_url.removeprefix("http://"),
        )
        assert code == 0, err
    for name in ("qwen3", "qwen3-small"):
        assert f"  openai/{name}@{first.openai_url}\n" in out
    assert f"server, {second.openai_url}\n  openai/qwen3@{second.openai_url}\n" in out
    assert f"ollama, {remote.ollama_url}\n  ollama_chat/qwen2.5-coder:7b@{remote.ollama_url}\n" in out
    assert f"ollama, {own.ollama_url}\n  ollama_chat/codellama:7b\n" in out
    assert f"fallbacks: openai/qwen3@{second.openai_url}, scripted\n" in out
    rows = {line.split()[0]: line.split() for line in out.partition("  role ")[2].splitlines()[1:]}
    assert set(rows) == set(get_args(Role))
    assert rows["repair"] == ["repair", "0", "to", "1", "15384", "1000", "120", f"openai/qwen3@{first.openai_url}"]
    assert rows["write"][1:4] == ["0.5", "to", "0.7"]
    assert rows["dispute"][1:4] == ["0.25", "15884", "500"]
    assert rows["design"][1:4] == ["0", "14384", "2000"]
    assert rows["review"] == ["review", "0", "15384", "1000", "120", f"ollama_chat/qwen2.5-coder:7b@{remote.ollama_url}"]
    assert rows["dispute"][-1] == rows["review"][-1]


async def test_an_ollama_without_a_configured_model_is_asked_at_its_setting(tmp_path: Path) -> None:
    async with ScriptedModel([], models=("qwen2.5-coder:7b",)) as ollama:
        code, out, err = models(tmp_path, MODEL_API_BASE=ollama.ollama_url)
        assert code == 0, err
        assert f"ollama, {ollama.ollama_url}\n  ollama_chat/qwen2.5-coder:7b\n" in out
        assert "rungs: ollama_chat/qwen2.5-coder:7b\n" in out


def test_what_does_not_answer_is_said_and_is_no_error(tmp_path: Path) -> None:
    code, out, err = models(tmp_path, MODEL="ollama_chat/x", MODEL_API_BASE=NOWHERE)
    assert code == 0, err
    assert "no Ollama answers" in out
    code, _, err = models(tmp_path, "pull", "x", "--yes", MODEL="ollama_chat/x", MODEL_API_BASE=NOWHERE)
    assert code == 1
    assert f"no Ollama answers at {NOWHERE}" in err
    code, out, _ = models(tmp_path, MODEL="openai/x", MODEL_API_BASE=NOWHERE)
    assert "no server with a list of models answers" in out


@pytest.mark.long
def test_a_snapshot_is_fetched_checked_listed_and_mended(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "selfheal" / "snapshots" / "octo" / "coder"
    with hub.serving() as server:
        server.models["octo/coder"] = {**SNAPSHOT, "pytorch_model.bin": b"a pickle", "README.md": b"text"}
        settings = {"HF_ENDPOINT": server.url, "XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
        code, out, err = models(tmp_path, "pull", "hf:octo/coder", "--yes", **settings)
        assert (code, out) == (0, f"transformers:octo/coder can be used; it is in {folder}.\n"), err
        assert sorted(server.fetched) == sorted(SNAPSHOT)  # no pickle
        assert models(tmp_path, "check", "octo/coder", **settings)[:2] == (0, f"{folder} is complete.\n")
        assert models(tmp_path, "check", "transformers:octo/coder", **settings)[0] == 0
        weights = folder / "model.safetensors"
        times = (weights.stat().st_atime, weights.stat().st_mtime)
        weights.write_bytes(WEIGHTS[:-100])
        os.utime(weights, times)  # as after a power failure
        code, out, _ = models(tmp_path, "check", "octo/coder", **settings)
        assert code == 1
        assert "it was cut" in out
        assert "`selfheal models pull hf:octo/coder`" in out
        told = json.loads(models(tmp_path, "check", "octo/coder", "--json", **settings)[1])
        assert (told["complete"], len(told["problems"])) == (False, 1)
        assert f"snapshot, {folder}\n  transformers:octo/coder\n  model.safetensors has" in models(tmp_path, **settings)[1]
        server.fetched.clear()
        code, _, err = models(tmp_path, "pull", "hf:octo/coder", "--yes", **settings)
        assert code == 0, err
        assert server.fetched == ["model.safetensors"]
        assert weights.read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("nope", "A pulled snapshot is named OWNER/NAME, such as Qwen/Qwen2.5-Coder-0.5B-Instruct"),
        ("hf:octo/nope", "Fetch it with `selfheal models pull hf:octo/nope`."),
        ("octo/nope", "Fetch it with `selfheal models pull hf:octo/nope`."),
        ("./nope", "Give the path of a folder, or OWNER/NAME of a pulled snapshot."),
    ],
)
def test_the_advice_about_a_snapshot_that_is_not_there_can_be_followed(name: str, advice: str, tmp_path: Path) -> None:
    code, out, err = models(tmp_path, "check", name, XDG_DATA_HOME=str(tmp_path / "data"))
    assert code == 1, err
    assert "is not a folder." in out
    assert advice in out
    assert "resumes" not in out


def test_a_pull_of_no_name_is_refused(tmp_path: Path) -> None:
    assert models(tmp_path, "pull", " ")[0] == 2
    assert "the name is empty; give one such as" in models(tmp_path, "pull", "", "--yes")[2]


@pytest.mark.long
def test_a_snapshot_that_cannot_be_had_is_said(tmp_path: Path) -> None:
    with hub.serving() as server:
        server.models = {"octo/gated": SNAPSHOT, "octo/pickled": {**SNAPSHOT, "model.bin": b"a pickle"}}
        del server.models["octo/pickled"]["model.safetensors"]
        server.gated.add("octo/gated")
        settings = {"HF_ENDPOINT": server.url, "XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
        for name, said in (
            ("hf:octo/nosuch", "there is no public model octo/nosuch"),
            ("hf:octo/gated", "octo/gated is gated: accept its terms"),
            ("hf:octo/pickled", "octo/pickled was fetched, but cannot be used: There are no weights"),
        ):
            code, out, err = models(tmp_path, "pull", name, "--yes", **settings)
            assert (code, out) == (1, "")
            assert said in err
    code, _, err = models(tmp_path, "pull", "hf:octo/coder", "--yes", **settings | {"HF_HUB_OFFLINE": "1"})
    assert code == 1
    assert "octo/coder could not be fetched" in err
    assert "HF_HUB_OFFLINE=0" in err
    for name in ("hf:coder", "hf:../x", "hf:octo/coder/more"):
        assert models(tmp_path, "pull", name, "--yes", **settings)[0] == 2
    code, _, err = models(tmp_path, "pull", "hf:octo/coder", **settings)
    assert code == 2
    assert "--yes" in err
