"""Hugging Face snapshots on this machine: folders with a model's configuration, tokenizer and weights.

Only the format safetensors is read, as loading a pickle runs its code.
Format: https://huggingface.co/docs/safetensors (8 bytes of length, a JSON header with the offsets, the data).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

PREFIXES = ("transformers:", "transformers-4bit:")
INDEX = "model.safetensors.index.json"
TOKENIZERS = (("tokenizer.json",), ("tokenizer.model",), ("vocab.json", "merges.txt"))
OBJECTS = ("config.json", "tokenizer.json", "tokenizer_config.json", INDEX)  # files with a JSON object
PATTERNS = ("*.json", "*.txt", "*.model", "*.safetensors", "*.jinja")  # what is fetched
_POINTER = b"version https://git-lfs"
_HEADER_LIMIT = 100_000_000  # bytes, as safetensors itself


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """A folder. `problems` are sentences; without any, the model can be loaded."""

    name: str  # OWNER/NAME, or a path
    folder: Path
    problems: tuple[str, ...]


def root() -> Path:
    return user_data_path("selfheal") / "snapshots"


def folder_of(name: str) -> Path:
    """The folder of a snapshot: a path, or OWNER/NAME below `root`."""
    path = Path(name).expanduser()
    return path if path.is_absolute() or name.startswith((".", "~")) else root() / name


def listed(under: Path | None = None) -> list[ModelSnapshot]:
    """The snapshots one or two levels below a folder."""
    top = under or root()
    found = {each.parent for pattern in ("*/config.json", "*/*/config.json") for each in top.glob(pattern)}
    return [ModelSnapshot(folder.relative_to(top).as_posix(), folder, problems(folder)) for folder in sorted(found)]


def problems(folder: Path) -> tuple[str, ...]:
    """What is missing or broken, a sentence each."""
    if not folder.is_dir():
        return (f"{folder} is not a folder.",)
    return tuple(_problems(folder))


def cut(folder: Path) -> tuple[Path, ...]:
    """The files that are there and hold nothing usable, so that only fetching them again helps."""
    weights = (file for file in folder.glob("*.safetensors") if _broken(file))
    return (*weights, *(file for name in OBJECTS if (file := folder / name).is_file() and _object(file) is None))


def _problems(folder: Path) -> Iterator[str]:
    config = _object(folder / "config.json")
    if config is None:
        yield "config.json is missing or is not a JSON object."
    elif not config.get("model_type"):
        yield "config.json names no `model_type`."
    if not any(all((folder / name).is_file() for name in names) for names in TOKENIZERS):
        yield "There is no tokenizer: tokenizer.json, tokenizer.model, or vocab.json with merges.txt."
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (folder / name).is_file() and _object(folder / name) is None:
            yield f"{name} is not a JSON object; its download was probably cut."
    yield from _weights(folder)


def _weights(folder: Path) -> Iterator[str]:
    index = folder / INDEX
    if index.is_file():
        told = _object(index)
        names = told.get("weight_map") if told is not None else None
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            yield f"{INDEX} has no map of the weights."
            return
        shards = sorted(set(names.values()))
    elif (folder / "model.safetensors").is_file():
        shards = ["model.safetensors"]
    elif any(folder.glob("*.bin")):
        yield "The weights are pickles (*.bin), and loading those runs their code; take a snapshot with safetensors."
        return
    else:
        yield "There are no weights: model.safetensors, or its shards with an index."
        return
    for shard in shards:
        if "/" in shard or "\\" in shard:
            yield f"{INDEX} names {shard[:100]!r}, which is outside of the folder."
        elif (why := _broken(folder / shard)) is not None:
            yield f"{shard} {why}."


def _broken(file: Path) -> str | None:
    """Why the file holds no complete weights, a clause; None if it does."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            start = stream.read(8)
            if _POINTER.startswith(start) and start:
                return "is a Git LFS pointer, not the weights; run `git lfs pull`"
            if len(start) < 8:
                return "is empty" if not start else "was cut"
            (length,) = struct.unpack("<Q", start)
            if length > min(size - 8, _HEADER_LIMIT):
                return "was cut, or is not in the format safetensors"
            header = json.loads(stream.read(length))
        data = max(each["data_offsets"][1] for name, each in header.items() if name != "__metadata__")
    except OSError:
        return "is missing"
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return "is not in the format safetensors"
    return None if size == 8 + length + data else f"has {size:,} bytes and should have {8 + length + data:,}; it was cut"


def _object(file: Path) -> dict[str, Any] | None:
    try:
        told = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None
