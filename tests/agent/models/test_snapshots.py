"""Snapshots: what is complete, and what is named as missing. The weights are written by hand, so no library is needed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.models import local_transformers, snapshots
from agent.models.router import Models
from agent.models.values import Misconfigured, ModelSettings, Prompt


def weights(size: int = 8) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


def snapshot(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights())
    return folder


def test_a_complete_snapshot_has_no_problem_and_is_listed(tmp_path: Path) -> None:
    folder = snapshot(tmp_path / "octo" / "coder")
    assert snapshots.problems(folder) == ()
    assert [(each.name, each.problems) for each in snapshots.listed(tmp_path)] == [("octo/coder", ())]
    (folder / "model.safetensors").unlink()
    (folder / snapshots.INDEX).write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}))
    for name in ("one", "two"):
        (folder / f"{name}.safetensors").write_bytes(weights())
    assert snapshots.problems(folder) == ()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
        (lambda folder: (folder / "config.json").write_text("{}"), "names no `model_type`"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda folder: (folder / "tokenizer.json").write_text('{"ver'), "was probably cut"),
        (lambda folder: (folder / "model.safetensors").unlink(), "There are no weights"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "are pickles"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "model.safetensors is empty"),
        (lambda folder: (folder / "model.safetensors").write_bytes(weights()[:-3]), "it was cut"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"PK\3\4" * 9), "not in the format safetensors"),
        (
            lambda folder: (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n"),
            "Git LFS pointer",
        ),
        (
            lambda folder: (folder / snapshots.INDEX).write_text('{"weight_map": {"a": "gone.safetensors"}}'),
            "gone.safetensors is missing",
        ),
        (lambda folder: (folder / snapshots.INDEX).write_text('{"weight_map": {"a": "../x"}}'), "outside of the folder"),
        (lambda folder: (folder / snapshots.INDEX).write_text("[]"), "no map of the weights"),
    ],
)
def test_what_is_missing_or_cut_is_named(spoil: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    folder = snapshot(tmp_path / "coder")
    spoil(folder)
    assert said in " ".join(snapshots.problems(folder))


def test_only_files_that_are_broken_are_to_be_fetched_again(tmp_path: Path) -> None:
    folder = snapshot(tmp_path / "coder")
    assert snapshots.cut(folder) == ()
    assert snapshots.cut(tmp_path / "none") == ()
    (folder / "model.safetensors").write_bytes(weights()[:-3])
    (folder / "tokenizer.json").write_text('{"ver')
    assert snapshots.cut(folder) == (folder / "model.safetensors", folder / "tokenizer.json")


async def test_a_model_that_cannot_be_loaded_is_misconfigured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def ignore(_: object) -> None: ...

    models = Models(ModelSettings(f"transformers:{tmp_path}/none"))
    prompt = Prompt("write", 1, ({"role": "user", "content": "hello"},))
    monkeypatch.setattr(local_transformers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Misconfigured, match=r"\.venv/bin/pip install -e '\.\[transformers\]'"):
        await models.ask(prompt, seconds=5, emit=ignore)
    monkeypatch.setattr(local_transformers.importlib.util, "find_spec", lambda name: True)
    with pytest.raises(Misconfigured, match=r"none is not a folder.*selfheal models check"):
        await models.ask(prompt, seconds=5, emit=ignore)
