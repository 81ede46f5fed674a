"""A tiny model with random weights, made on the spot, answers through Transformers. Needs the extra `transformers`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent.models import snapshots
from agent.models.local_transformers import LocalTransformers, load
from agent.models.values import Misconfigured, ModelSettings, Timeout, Truncated

pytestmark = pytest.mark.optional
pytest.importorskip("torch", reason="needs the extra `transformers`")
transformers = pytest.importorskip("transformers", reason="needs the extra `transformers`")
QUESTION = [{"role": "user", "content": "Write a function."}]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    folder = tmp_path_factory.mktemp("tiny")
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
    load.cache_clear()
    with pytest.raises(Misconfigured, match="cannot be loaded"):
        await LocalTransformers(ModelSettings(f"transformers:{tiny}")).complete(QUESTION, seconds=60)  # type: ignore[arg-type]
