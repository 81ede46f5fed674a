"""The scripted model server, spoken to by unmodified litellm."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import httpx
import pytest

from tests.standins import model
from tests.standins.model import Asked, ScriptedModel

MESSAGES = [{"role": "user", "content": "why is it red?"}]


@pytest.fixture(scope="module")
def litellm() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    litellm.suppress_debug_info = True
    return litellm


async def ask(litellm: Any, server: ScriptedModel, provider: str, **more: Any) -> Any:
    base = server.openai_url if provider == "openai" else server.ollama_url
    async with asyncio.timeout(30):
        return await litellm.acompletion(
            model=f"{provider}/scripted", messages=MESSAGES, api_base=base, api_key="k", max_retries=0, timeout=20, **more
        )


@pytest.mark.parametrize("provider", ["openai", "ollama_chat"])
async def test_a_script_is_answered_line_by_line_with_its_usage(litellm: Any, provider: str) -> None:
    script = ["one", model.Reply("two", tokens=(7, 3)), lambda asked: asked.prompt.upper()]
    async with ScriptedModel(script) as server:
        answers = [await ask(litellm, server, provider) for _ in script]
    assert [a.choices[0].message.content for a in answers] == ["one", "two", "WHY IS IT RED?"]
    assert (answers[1].usage.prompt_tokens, answers[1].usage.completion_tokens) == (7, 3)
    assert server.asked[0].model == "scripted"


@pytest.mark.parametrize("provider", ["openai", "ollama_chat"])
async def test_a_stream_carries_the_same_text(litellm: Any, provider: str) -> None:
    async with ScriptedModel(["x = 1\n" * 2000]) as server:
        stream = await ask(litellm, server, provider, stream=True)
        text = "".join([part.choices[0].delta.content or "" async for part in stream])
    assert text == "x = 1\n" * 2000


async def test_faults_become_the_errors_that_litellm_knows(litellm: Any) -> None:
    faults = {
        "RateLimitError": model.rate_limited(7),
        "InternalServerError": model.failing(500),
        "AuthenticationError": model.unauthorized(),
        "ContextWindowExceededError": model.context_too_long(),
        "ContentPolicyViolationError": model.refused(),
    }
    async with ScriptedModel(faults.values()) as server:
        for name in faults:
            with pytest.raises(getattr(litellm, name)) as caught:
                await ask(litellm, server, "openai")
            if name == "RateLimitError":
                assert caught.value.litellm_response_headers["retry-after"] == "7"


async def test_bad_content_arrives_as_it_was_scripted(litellm: Any) -> None:
    async with ScriptedModel([model.truncated("def f("), model.empty(), model.huge(), model.withheld()]) as server:
        cut, nothing, big, filtered = [await ask(litellm, server, "openai") for _ in range(4)]
    assert cut.choices[0].finish_reason == "length"
    assert nothing.choices[0].message.content is None
    assert len(big.choices[0].message.content) == 10_000_000
    assert filtered.choices[0].finish_reason == "content_filter"


async def test_a_hanging_model_lets_go_when_the_server_stops() -> None:
    async with asyncio.timeout(10):
        async with ScriptedModel([model.hanging()]) as server, httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.post(f"{server.ollama_url}/api/chat", json={"model": "m", "messages": []}, timeout=0.1)


async def test_one_request_more_than_scripted_is_an_error() -> None:
    server = await ScriptedModel(["only"]).__aenter__()
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(2):
            await client.post(f"{server.ollama_url}/api/chat", json={"model": "m", "messages": []})
    with pytest.raises(AssertionError, match="1 more than scripted"):
        await server.__aexit__(None, None, None)


async def test_a_function_answers_for_ever_and_models_are_listed() -> None:
    def answer(asked: Asked) -> str:
        return f"{asked.api} {len(asked.messages)}"

    async with ScriptedModel(answer, models=("qwen2.5-coder:7b",)) as server, httpx.AsyncClient(trust_env=False) as client:
        for _ in range(3):
            body = {"model": "m", "messages": MESSAGES, "stream": False}
            told = (await client.post(f"{server.ollama_url}/api/chat", json=body)).json()
            assert told["message"]["content"] == "ollama 1"
        tags = (await client.get(f"{server.ollama_url}/api/tags")).json()
        assert [m["name"] for m in tags["models"]] == ["qwen2.5-coder:7b"]
        assert (await client.get(f"{server.openai_url}/models")).json()["data"][0]["id"] == "qwen2.5-coder:7b"
        assert (await client.get(f"{server.ollama_url}/api/version")).json()["version"]
