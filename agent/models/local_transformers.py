"""Models that this process loads from a snapshot folder, through Transformers (the extra `transformers`).

`transformers:NAME` or `transformers:FOLDER`; with `transformers-4bit:`, the weights are quantized while they are loaded
(bitsandbytes, needs a GPU). Nothing is downloaded, only safetensors are read, and no code from the snapshot runs.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from agent.contract.budget import Usage
from agent.models import snapshots
from agent.models.values import Answer, Message, Misconfigured, ModelSettings, ModelUnavailable, Timeout, Truncated

_LOADING = threading.Lock()  # callers that come while a model is loaded wait for it: a second copy may not fit into memory
_ONE_AT_A_TIME = threading.Lock()  # a model uses all cores


@dataclass
class LocalTransformers:
    """Stands in for `agent.models.provider.Provider`."""

    settings: ModelSettings

    @property
    def answer_tokens(self) -> int:
        return min(self.settings.answer_tokens, self.settings.context // 3)

    async def complete(
        self, messages: Sequence[Message], *, seconds: float, temperature: float = 0.0, role: str = ""
    ) -> Answer:
        """Raises `ModelError`."""
        until = time.monotonic() + min(self.settings.timeout, seconds)
        return await asyncio.to_thread(self._complete, list(messages), until, temperature)

    async def embed(self, texts: Sequence[str], *, seconds: float) -> list[list[float]]:
        raise ModelUnavailable("a model of a snapshot makes no embeddings here")

    def _complete(self, messages: list[Message], until: float, temperature: float) -> Answer:
        with _LOADING:
            loaded = load(self.settings.name)
        if not _ONE_AT_A_TIME.acquire(timeout=max(0.0, until - time.monotonic())):
            raise Timeout("the model was busy", Usage())
        try:
            return loaded.answer(messages, self.answer_tokens, until, temperature, self.settings.name)
        finally:
            _ONE_AT_A_TIME.release()


@dataclass(frozen=True)
class _Loaded:
    tokenizer: Any
    model: Any

    def answer(self, messages: list[Message], most: int, until: float, temperature: float, name: str) -> Answer:
        import torch

        left = until - time.monotonic()
        if left <= 0:
            raise Timeout("no time was left after loading the model", Usage())
        tokens = self._tokens(messages).to(self.model.device)
        room = int(getattr(self.model.config, "max_position_embeddings", 0) or 0)
        size = int(tokens.shape[-1])
        if room and size + 16 > room:
            raise Misconfigured(f"the prompt has {size} tokens and the model takes {room}; use one with a longer context")
        options: dict[str, Any] = {"do_sample": temperature > 0, "max_time": left, "pad_token_id": self._padding}
        options["max_new_tokens"] = min(most, room - size) if room else most
        if temperature > 0:
            options["temperature"] = temperature
        try:
            with torch.inference_mode():
                made = self.model.generate(tokens, attention_mask=torch.ones_like(tokens), **options)[0][size:]
        except torch.OutOfMemoryError as error:
            raise ModelUnavailable(f"not enough memory for a prompt of {size} tokens", Usage(size, 0, 1, 0.0)) from error
        text = str(self.tokenizer.decode(made, skip_special_tokens=True)).replace("\0", "")
        usage = Usage(size, len(made), 1, 0.0)
        if time.monotonic() >= until:
            raise Timeout("no complete answer in time", usage)
        if len(made) >= options["max_new_tokens"]:
            raise Truncated(f"its answer was cut at {len(made)} tokens", usage)
        return Answer(text, usage, "stop", name)

    def _tokens(self, messages: list[Message]) -> Any:
        plain = [dict(message) for message in messages]
        if getattr(self.tokenizer, "chat_template", None):
            options = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
            try:
                return self.tokenizer.apply_chat_template(plain, **options)["input_ids"]
            except TemplateError as error:  # some refuse a system message
                why = str(error)[:300]
                raise Misconfigured(f"the chat template of the snapshot refuses the conversation: {why}") from error
        text = "\n\n".join(f"{message['role']}:\n{message['content']}" for message in plain)
        return self.tokenizer(f"{text}\n\nassistant:\n", return_tensors="pt")["input_ids"]

    @property
    def _padding(self) -> int:
        for each in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if each is not None:
                return int(each)
        return 0


def missing(name: str) -> str:
    """Why a model of this name cannot be used here, a sentence; "" if it can."""
    wanted = ["torch", "transformers", *(["bitsandbytes", "accelerate"] if name.startswith("transformers-4bit:") else [])]
    absent = [each for each in wanted if importlib.util.find_spec(each) is None]
    if absent:
        extra = "transformers-4bit" if "bitsandbytes" in wanted else "transformers"
        return f"{name} needs {', '.join(absent)}: install the extra `{extra}` (.venv/bin/pip install -e '.[{extra}]')."
    called = name.partition(":")[2]
    found = snapshots.problems(snapshots.folder_of(called)) if called else ("it names no snapshot.",)
    return f"{name} cannot be loaded: {found[0]} `selfheal models check {called}` shows everything." if found else ""


@functools.lru_cache(maxsize=1)
def load(name: str) -> _Loaded:
    """Load the model; takes seconds to minutes. Raises `Misconfigured`."""
    if why := missing(name):
        raise Misconfigured(why.rstrip("."))
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = str(snapshots.folder_of(name.partition(":")[2]))
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    weights: dict[str, Any] = {"use_safetensors": True}
    if name.startswith("transformers-4bit:"):
        from transformers import BitsAndBytesConfig

        weights |= {"quantization_config": BitsAndBytesConfig(load_in_4bit=True), "device_map": "auto"}
    elif torch.cuda.is_available():
        weights |= {"dtype": "auto"}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        model = AutoModelForCausalLM.from_pretrained(folder, **options, **weights)
        if "device_map" not in weights and torch.cuda.is_available():
            model = model.to("cuda")
        return _Loaded(tokenizer, model.eval())
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        line = str(error).strip().split("\n")[0][:300]
        raise Misconfigured(f"the snapshot {folder} cannot be loaded: {type(error).__name__}: {line}") from error
