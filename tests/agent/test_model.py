"""Models are asked over a real socket through the real LiteLLM; every way to fail has its type."""

from __future__ import annotations

import pytest

from agent import events, model
from agent.model import Answer, Message, Models, ModelSettings, find_local_model
from tests.agent.scripted_model import Say, ScriptedModel, scripted_model

MESSAGES: list[Message] = [{"role": "user", "content": "Say hello."}]


class Asked:
    def __init__(self, server: ScriptedModel, name: str = "openai/scripted", timeout: float = 20.0) -> None:
        base = server.url if name.startswith("ollama") else f"{server.url}/v1"
        self.models = Models(ModelSettings(name, base, "sk-secret-of-the-test", timeout))
        self.events: list[events.AnyEvent] = []

    async def emit(self, event: events.AnyEvent) -> None:
        self.events.append(event)

    async def ask(self, seconds: float = 30.0) -> Answer:
        return await self.models.ask("repair", MESSAGES, seconds=seconds, emit=self.emit)

    def calls(self) -> list[events.ModelCalled]:
        return [event for event in self.events if isinstance(event, events.ModelCalled)]


async def test_an_answer_comes_with_what_it_cost() -> None:
    async with scripted_model(Say("hello")) as server:
        asked = Asked(server)
        answer = await asked.ask()
    assert (answer.text, answer.finish) == ("hello", "stop")
    assert (answer.usage.tokens_in, answer.usage.tokens_out, answer.usage.calls) == (100, 20, 1)
    assert answer.usage.cost is None  # nobody knows the price of this model
    assert server.requests[0]["messages"] == MESSAGES
    (call,) = asked.calls()
    assert (call.role, call.tokens_in, call.error) == ("repair", 100, "")


async def test_ollama_is_asked_with_its_whole_window() -> None:
    async with scripted_model(Say("hello")) as server:
        answer = await Asked(server, "ollama_chat/qwen").ask()
    assert answer.text == "hello"
    assert answer.usage.cost == 0.0
    assert server.requests[0]["options"]["num_ctx"] == 16_384


async def test_untold_usage_is_counted_here() -> None:
    async with scripted_model(Say("hello " * 30, usage=False)) as server:
        usage = (await Asked(server).ask()).usage
    assert usage.tokens_in > 0
    assert usage.tokens_out >= 30


async def test_no_content_is_an_empty_answer() -> None:
    async with scripted_model(Say(None)) as server:
        assert (await Asked(server).ask()).text == ""


async def test_a_huge_answer_is_cut() -> None:
    async with scripted_model(Say("x" * 10_000_000)) as server:
        assert len((await Asked(server).ask()).text) == model.LONGEST_ANSWER


async def test_half_characters_and_nul_do_not_get_through() -> None:
    async with scripted_model(Say("a\ud800b\0c")) as server:
        (await Asked(server).ask()).text.encode("utf-8")


@pytest.mark.parametrize(
    ("say", "kind"),
    [
        (Say("half an ans", finish="length"), model.Truncated),
        (Say("", finish="content_filter"), model.Refused),
        (Say(status=401, error={"message": "bad key sk-secret-of-the-test"}), model.Misconfigured),
        (Say(status=403, error={"message": "not for you"}), model.Misconfigured),
        (Say(status=404, error={"message": "no such model"}), model.Misconfigured),
        (Say(status=429, error={"message": "quota", "code": "insufficient_quota"}), model.Misconfigured),
        (Say(status=429, error={"message": "slow down"}, headers={"retry-after": "500"}), model.RateLimited),
        (
            Say(
                status=400,
                error={"message": "This model's maximum context length is 5 tokens", "code": "context_length_exceeded"},
            ),
            model.ContextTooLong,
        ),
        (Say(status=400, error={"message": "policy", "code": "content_policy_violation"}), model.Refused),
    ],
)
async def test_every_way_to_fail_has_its_type(say: Say, kind: type[model.ModelError]) -> None:
    async with scripted_model(say) as server:
        asked = Asked(server)
        with pytest.raises(kind) as caught:
            await asked.ask()
    assert type(caught.value) is kind
    assert len(server.requests) == 1
    assert asked.calls()[0].error == caught.value.reason
    assert "secret-of-the-test" not in str(caught.value)


async def test_a_rate_limit_is_waited_out_within_the_time() -> None:
    async with scripted_model(Say(status=429, headers={"retry-after": "0.1"}), Say("hello")) as server:
        asked = Asked(server)
        assert (await asked.ask()).text == "hello"
    assert [bool(call.error) for call in asked.calls()] == [True, False]


async def test_a_long_rate_limit_is_told_with_its_seconds() -> None:
    async with scripted_model(Say(status=429, headers={"retry-after": "500"})) as server:
        with pytest.raises(model.RateLimited) as caught:
            await Asked(server).ask()
    assert caught.value.retry_after == 500


async def test_a_server_that_hangs_is_a_timeout() -> None:
    async with scripted_model(Say(hang=True)) as server:
        with pytest.raises(model.Timeout):
            await Asked(server, timeout=0.5).ask()


@pytest.mark.parametrize("say", [Say(status=500), Say(status=503), Say(raw=b"<html>"), Say(raw=b'{"choices": []}')])
async def test_a_server_that_is_down_is_asked_again_and_then_unavailable(say: Say) -> None:
    async with scripted_model(say, Say("hello")) as server:
        asked = Asked(server)
        assert (await asked.ask()).text == "hello"
    async with scripted_model(*[say] * 3) as server:
        with pytest.raises(model.Unavailable):
            await Asked(server).ask()


async def test_nobody_at_the_address_is_unavailable() -> None:
    async with scripted_model() as server:
        pass
    with pytest.raises(model.Unavailable):
        await Asked(server).ask(seconds=1.0)


async def test_a_prompt_that_cannot_fit_is_not_sent() -> None:
    async with scripted_model(Say("hello")) as server:
        asked = Asked(server)
        with pytest.raises(model.ContextTooLong):
            await asked.models.ask("repair", [{"role": "user", "content": "x" * 100_000}], seconds=5, emit=asked.emit)
    assert server.requests == []


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (
            b'{"models": [{"name": "llama3"}, {"name": "codellama:7b"}, {"name": "qwen2.5-coder:7b"}]}',
            "ollama_chat/qwen2.5-coder:7b",
        ),
        (b'{"models": [{"name": "deepseek-coder"}]}', "ollama_chat/deepseek-coder"),
        (b'{"models": []}', None),
        (b"hello", None),
        (b'{"models": 3}', None),
    ],
)
async def test_an_installed_coder_is_found(raw: bytes, found: str | None) -> None:
    async with scripted_model(Say(raw=raw)) as server:
        assert await find_local_model(server.url) == found


async def test_without_ollama_there_is_no_local_model() -> None:
    async with scripted_model() as server:
        pass
    assert await find_local_model(server.url) is None
