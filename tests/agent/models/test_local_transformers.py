"""A tiny model with random weights, made on the spot, answers through Transformers. Needs the extra `transformers`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent.models import snapshots
from agent.models.local_transformers import LocalTransformers, load
from agent.models.values import Misconfigured, ModelSettings, ModelUnavailable, Timeout, Truncated

pytestmark = pytest.mark.optional(reason="needs the extra `transformers`")
QUESTION = [{"role": "user", "content": "Write a function."}]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    pytest.importorskip("torch")  # here, as a module that is skipped as a whole does not count as optional
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    load.cache_clear()
    folder = tmp_path / "tiny"
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    plain.train_from_iterator(["def add(a, b): return a + b"], trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    transformers.PreTrainedTokenizerFast(tokenizer_object=plain).save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=300,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=512,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


async def test_a_snapshot_answers_within_its_limits(tiny: Path) -> None:
    assert snapshots.problems(tiny) == ()
    model = LocalTransformers(ModelSettings(f"transformers:{tiny}", context=300))
    with pytest.raises(Truncated) as cut:  # random weights never end
        await model.complete(QUESTION, seconds=60)  # type: ignore[arg-type]
    assert cut.value.usage.tokens_out == model.answer_tokens == 100
    assert cut.value.usage.tokens_in > 5
    assert cut.value.usage.cost == 0.0
    long = [{"role": "user", "content": "word " * 600}]
    with pytest.raises(Misconfigured, match="longer context"):
        await model.complete(long, seconds=60)  # type: ignore[arg-type]
    began = time.monotonic()
    with pytest.raises(Timeout):
        await model.complete(QUESTION, seconds=0.001)  # type: ignore[arg-type]
    assert time.monotonic() - began < 20


async def test_broken_weights_are_named_and_nothing_is_downloaded(tiny: Path) -> None:
    (tiny / "config.json").write_text('{"model_type": "nosuch"}')
    with pytest.raises(Misconfigured, match="cannot be loaded"):
        await LocalTransformers(ModelSettings(f"transformers:{tiny}")).complete(QUESTION, seconds=60)  # type: ignore[arg-type]


async def test_calls_at_the_same_time_load_one_model(tiny: Path) -> None:
    model = LocalTransformers(ModelSettings(f"transformers:{tiny}", answer_tokens=5))
    calls = [model.complete(QUESTION, seconds=60) for _ in range(3)]  # type: ignore[arg-type]
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in found] == [Truncated] * 3
    assert load.cache_info().misses == 1


async def test_a_chat_template_is_used_and_its_refusal_is_named(tiny: Path) -> None:
    loaded = load(f"transformers:{tiny}")
    model = LocalTransformers(ModelSettings(f"transformers:{tiny}", answer_tokens=5))
    loaded.tokenizer.chat_template = "{% for each in messages %}{{ each.content }}{% endfor %}"
    with pytest.raises(Truncated) as cut:
        await model.complete([{"role": "user", "content": "abc"}], seconds=60)
    assert cut.value.usage.tokens_in == 3  # one token a byte, and no role
    loaded.tokenizer.chat_template = "{{ raise_exception('no system messages') }}"
    with pytest.raises(Misconfigured, match=r"chat template .* no system messages"):
        await model.complete([{"role": "system", "content": "abc"}], seconds=60)


async def test_too_little_memory_is_no_answer(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")

    def generate(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(load(f"transformers:{tiny}").model, "generate", generate)
    with pytest.raises(ModelUnavailable, match="not enough memory"):
        await LocalTransformers(ModelSettings(f"transformers:{tiny}")).complete(QUESTION, seconds=60)  # type: ignore[arg-type]
