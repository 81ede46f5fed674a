"""Models are asked over a real socket through the real LiteLLM; every way to fail has its type."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent.contract import events
from agent.models import provider, router, tracing, values
from agent.models.router import Models, find_local_model
from agent.models.values import Answer, Message, ModelSettings, Prompt
from tests.standins.model import (
    Reply,
    ScriptedModel,
    context_too_long,
    empty,
    failing,
    garbage,
    hanging,
    huge,
    rate_limited,
    refused,
    truncated,
    unauthorized,
    withheld,
)

ROOT = Path(__file__).resolve().parents[3]
HALF = (
    b'{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": "stop", '
    b'"message": {"role": "assistant", "content": "a\\ud800b\\u0000c"}}]}'
)
MESSAGES: list[Message] = [{"role": "user", "content": "Say hello."}]
HELLO = Prompt("repair", 7, tuple(MESSAGES))


class Asked:
    def __init__(self, server: ScriptedModel, name: str = "openai/scripted", timeout: float = 20.0) -> None:
        base = server.ollama_url if name.startswith("ollama") else server.openai_url
        self.models = Models(ModelSettings(name, base, "sk-secret-of-the-test", timeout))
        self.events: list[events.AnyEvent] = []

    async def emit(self, event: events.AnyEvent) -> None:
        self.events.append(event)

    async def ask(self, seconds: float = 30.0) -> Answer:
        return await self.models.ask(HELLO, seconds=seconds, emit=self.emit)

    def calls(self) -> list[events.ModelCalled]:
        return [event for event in self.events if isinstance(event, events.ModelCalled)]


@pytest.fixture(autouse=True)
def _shorter_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "FIRST_WAIT", 0.02)


async def test_an_answer_comes_with_what_it_cost() -> None:
    async with ScriptedModel([Reply("hello", tokens=(100, 20))]) as server:
        asked = Asked(server)
        answer = await asked.ask()
    assert (answer.text, answer.finish) == ("hello", "stop")
    assert (answer.usage.tokens_in, answer.usage.tokens_out, answer.usage.calls) == (100, 20, 1)
    assert answer.usage.cost is None  # nobody knows the price of this model
    assert server.asked[0].messages == MESSAGES
    (call,) = asked.calls()
    assert (call.role, call.prompt, call.tokens_in, call.error) == ("repair", "repair/7", 100, "")


async def test_ollama_is_asked_with_its_whole_window() -> None:
    async with ScriptedModel([Reply("hello", tokens=(100, 20))]) as server:
        answer = await Asked(server, "ollama_chat/qwen").ask()
    assert answer.text == "hello"
    assert answer.usage.cost == 0.0
    assert server.asked[0].body["options"]["num_ctx"] == 16_384


async def test_untold_usage_is_counted_here() -> None:
    async with ScriptedModel([Reply("hello " * 30, tokens=None)]) as server:
        usage = (await Asked(server).ask()).usage
    assert usage.tokens_in > 0
    assert usage.tokens_out >= 30


async def test_no_content_is_an_empty_answer() -> None:
    async with ScriptedModel([empty()]) as server:
        assert (await Asked(server).ask()).text == ""


async def test_a_huge_answer_is_cut() -> None:
    async with ScriptedModel([huge()]) as server:
        assert len((await Asked(server).ask()).text) == provider.LONGEST_ANSWER


async def test_half_characters_and_nul_do_not_get_through() -> None:
    async with ScriptedModel([Reply(raw=HALF)]) as server:
        (await Asked(server).ask()).text.encode("utf-8")


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (truncated("half an ans"), values.Truncated),
        (withheld(), values.ModelRefused),
        (refused(), values.ModelRefused),
        (unauthorized(), values.Misconfigured),
        (Reply("bad key sk-secret-of-the-test", status=401), values.Misconfigured),
        (Reply("not for you", status=403), values.Misconfigured),
        (Reply("no such model", status=404), values.Misconfigured),
        (rate_limited(quota=True), values.Misconfigured),
        (rate_limited(500), values.RateLimited),
        (context_too_long(), values.ContextTooLong),
    ],
)
async def test_every_way_to_fail_has_its_type(reply: Reply, kind: type[values.ModelError]) -> None:
    async with ScriptedModel([reply]) as server:
        asked = Asked(server)
        with pytest.raises(kind) as caught:
            await asked.ask()
    assert type(caught.value) is kind
    assert len(server.asked) == 1
    assert asked.calls()[0].error == caught.value.reason
    assert "secret-of-the-test" not in str(caught.value)


async def test_a_rate_limit_is_waited_out_within_the_time() -> None:
    async with ScriptedModel([rate_limited(0.1), "hello"]) as server:
        asked = Asked(server)
        assert (await asked.ask()).text == "hello"
    assert [bool(call.error) for call in asked.calls()] == [True, False]


async def test_a_long_rate_limit_is_told_with_its_seconds() -> None:
    async with ScriptedModel([rate_limited(500)]) as server:
        with pytest.raises(values.RateLimited) as caught:
            await Asked(server).ask()
    assert caught.value.retry_after == 500


@pytest.mark.parametrize(("name", "cost"), [("openai/scripted", None), ("ollama_chat/qwen", 0.0)])
async def test_a_server_that_hangs_is_a_timeout_of_unknown_price_unless_it_is_ours(name: str, cost: float | None) -> None:
    async with ScriptedModel([hanging()]) as server:
        with pytest.raises(values.Timeout) as caught:
            await Asked(server, name, timeout=0.5).ask()
    assert (caught.value.usage.calls, caught.value.usage.cost) == (1, cost)


async def test_the_calls_before_the_answer_are_counted_too() -> None:
    async with ScriptedModel([failing(), Reply("hello", tokens=(100, 20))]) as server:
        assert (await Asked(server).ask()).usage.calls == 2
    async with ScriptedModel([failing()] * 3) as server:
        with pytest.raises(values.ModelUnavailable) as caught:
            await Asked(server).ask()
    assert caught.value.usage.calls == 3


@pytest.mark.parametrize("reply", [failing(), failing(503), garbage(), Reply(raw=b'{"choices": []}')])
async def test_a_server_that_is_down_is_asked_again_and_then_unavailable(reply: Reply) -> None:
    async with ScriptedModel([reply, "hello"]) as server:
        asked = Asked(server)
        assert (await asked.ask()).text == "hello"
    async with ScriptedModel([reply] * 3) as server:
        with pytest.raises(values.ModelUnavailable):
            await Asked(server).ask()


@pytest.mark.parametrize("name", ["openai/scripted", "ollama_chat/qwen"])
async def test_nobody_at_the_address_is_unavailable_and_only_host_and_reason_are_said(name: str) -> None:
    async with ScriptedModel() as server:
        pass
    with pytest.raises(values.ModelUnavailable) as caught:
        await Asked(server, name).ask()
    said = str(caught.value)
    assert said.startswith(f"the model {name} is not reachable: Conn")
    assert said.endswith(f" ({server.openai_url.split('/')[2]})")
    assert not any(odd in said for odd in ("ssl", "object at", "Exception"))


async def test_a_prompt_that_cannot_fit_is_not_sent() -> None:
    async with ScriptedModel([Reply("hello", tokens=(100, 20))]) as server:
        asked = Asked(server)
        with pytest.raises(values.ContextTooLong):
            await asked.models.ask(
                Prompt("repair", 7, ({"role": "user", "content": "x" * 100_000},)), seconds=5, emit=asked.emit
            )
    assert server.asked == []


def settings(server: ScriptedModel, name: str = "openai/scripted") -> ModelSettings:
    return ModelSettings(name, server.openai_url, "sk-secret-of-the-test", 20.0)


async def test_the_next_model_stands_in_where_one_declines_and_it_is_told() -> None:
    async with (
        ScriptedModel([refused()]) as first,
        ScriptedModel([unauthorized()]) as second,
        ScriptedModel(["hello"]) as third,
    ):
        standing_in = [settings(second, "openai/second"), settings(third, "openai/third")]
        asked = Asked(first)
        asked.models = Models(settings(first), fallbacks=standing_in)
        answer = await asked.ask()
    assert (answer.text, answer.model, answer.usage.calls) == ("hello", "openai/third", 3)
    assert [event.why.partition("; asking ")[2] for event in asked.events if isinstance(event, events.Degraded)] == [
        "openai/second instead",
        "openai/third instead",
    ]


async def test_a_fallback_can_be_the_same_model_on_another_server() -> None:
    async with ScriptedModel([refused()]) as first, ScriptedModel(["hello"]) as second:
        asked = Asked(first)
        asked.models = Models(settings(first), fallbacks=[settings(second)])
        assert (await asked.ask()).text == "hello"
    assert [each.api_base for each in asked.models.all_settings] == [first.openai_url, second.openai_url]


async def test_no_other_model_is_asked_for_an_answer_that_was_cut() -> None:
    async with ScriptedModel([truncated("half")]) as first, ScriptedModel() as second:
        asked = Asked(first)
        asked.models = Models(settings(first), fallbacks=[settings(second, "openai/second")])
        with pytest.raises(values.Truncated):
            await asked.ask()


async def test_the_last_models_error_tells_what_all_of_them_cost() -> None:
    async with ScriptedModel([refused()]) as first, ScriptedModel([unauthorized()]) as second:
        asked = Asked(first)
        asked.models = Models(settings(first), fallbacks=[settings(second, "openai/second")])
        with pytest.raises(values.Misconfigured) as caught:
            await asked.ask()
    assert caught.value.usage.calls == 2


async def test_a_role_has_its_own_temperature_and_limit_also_on_a_fallback() -> None:
    async with ScriptedModel([refused(), "a", "b", "c"]) as server:
        given = ModelSettings("openai/scripted", server.openai_url, "key")
        spare = replace(given, name="openai/spare")
        models = Models(given, fallbacks=[spare], temperatures={"review": 0.3}, answer_tokens={"review": 700})
        for role, temperature in (("review", 0.0), ("review", 0.5), ("repair", 0.0)):
            await models.ask(replace(HELLO, role=role), seconds=30, emit=Asked(server).emit, temperature=temperature)
        asked = [(each.model, each.body["temperature"], each.body["max_tokens"]) for each in server.asked]
    assert asked == [("scripted", 0.3, 700), ("spare", 0.3, 700), ("scripted", 0.5, 700), ("scripted", 0.0, 4096)]
    assert (models.answer_tokens("review"), models.room("review")) == (700, given.context - 700)
    assert models.all_settings == (given, spare)


def test_a_role_has_its_own_model_and_a_rung_its_own() -> None:
    small, strong, critic, coder = (ModelSettings(f"openai/{name}") for name in ("small", "strong", "critic", "coder"))
    models = Models(small, strong, roles={"review": critic})
    assert models.rungs == ("openai/small", "openai/strong")
    assert models.settings("diagnose", "openai/strong") is strong
    assert models.settings("diagnose", "openai/small") is small
    assert models.settings("review", "openai/strong") is critic
    models = Models(small, strong, roles={"repair": coder})
    assert models.rungs == ("openai/coder", "openai/strong")
    assert models.settings("repair", "openai/coder") is coder
    assert models.settings("repair", "openai/strong") is strong
    assert models.settings("diagnose", "openai/coder") is small


def test_roles_of_writing_follow_those_they_are_like() -> None:
    small, critic, coder, tester = (ModelSettings(f"openai/{name}") for name in ("small", "critic", "coder", "tester"))
    models = Models(small, roles={"review": critic, "write": coder, "challenge": tester})
    assert models.settings("write") is models.settings("design") is coder
    assert models.settings("dispute") is critic
    assert models.settings("attack") is tester
    assert models.settings("repair") is small
    models = Models(small, roles={"repair": coder})
    assert models.settings("write") is coder


async def test_texts_become_vectors_and_without_a_model_for_it_a_person_has_to_act() -> None:
    async with ScriptedModel() as server:
        models = Models(settings(server), embedding=settings(server, "openai/embedder"))
        one, other = await models.embed(["test", "tests"])
        assert await models.embed([]) == []
        assert server.embedded == ["test", "tests"]
        assert len(one) == len(other) > 0
        with pytest.raises(values.Misconfigured):
            await Models(settings(server)).embed(["test"])
    with pytest.raises(values.ModelUnavailable):
        await models.embed(["nobody is there any more"])


async def test_a_call_is_a_span_without_a_word_of_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    tracer = TracerProvider()
    tracer.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", tracer.get_tracer("test"))
    async with ScriptedModel([Reply("hi there", tokens=(100, 20)), Reply("Say hello. is bad", status=401)]) as server:
        await Asked(server).ask()
        with pytest.raises(values.Misconfigured):
            await Asked(server).ask()
    answered, failed = exporter.get_finished_spans()
    assert answered.name == "chat openai/scripted"
    assert answered.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "openai/scripted",
        "gen_ai.request.temperature": 0.0,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.response.finish_reasons": ("stop",),
    }
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "Misconfigured"
    told = "".join(span.to_json() for span in (answered, failed))
    assert "hello" not in told.lower()
    assert "hi there" not in told


async def test_anthropic_is_told_to_keep_the_beginning_of_the_prompt() -> None:
    class Anthropic(OnThisLoop):
        async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            body = await reader.readexactly(int(head.partition("content-length:")[2].split("\r")[0]))
            self.asked.append(body.decode())
            said = {
                "id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 1, "output_tokens": 1},
            }  # fmt: skip
            sent = json.dumps(said).encode()
            lines = ("HTTP/1.1 200 OK", "content-type: application/json", f"content-length: {len(sent)}", "connection: close")
            writer.write("\r\n".join((*lines, "", "")).encode() + sent)
            await writer.drain()
            writer.close()

    server = Anthropic()
    prompt = Prompt("repair", 1, ({"role": "system", "content": "Rules."}, {"role": "user", "content": "Say hello."}))
    async with server as base:
        models = Models(ModelSettings("anthropic/claude-3-5-haiku-latest", base, "sk-ant-secret-of-the-test", 20.0))
        assert (await models.ask(prompt, seconds=20.0, emit=silent)).text == "hello"
    (system,) = json.loads(server.asked[0])["system"]
    assert system == {"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("installed", "found"),
    [
        (("llama3", "codellama:7b", "qwen2.5-coder:7b"), "ollama_chat/qwen2.5-coder:7b"),
        (("llama3", "deepseek-coder"), "ollama_chat/deepseek-coder"),
        (("llama3",), None),
        ((), None),
    ],
)
async def test_an_installed_coder_is_found(installed: tuple[str, ...], found: str | None) -> None:
    async with ScriptedModel(models=installed) as server:
        assert await find_local_model(server.ollama_url) == found


async def test_ollamas_own_variable_says_where_its_models_are(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedModel(["hello"], models=("qwen2.5-coder:7b",)) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.ollama_url.removeprefix("http://"))
        name = await find_local_model()
        assert name == "ollama_chat/qwen2.5-coder:7b"
        asked = Asked(server)
        asked.models = Models(ModelSettings(name))
        assert (await asked.ask()).text == "hello"
    assert await find_local_model() is None


async def test_a_server_that_is_no_ollama_has_no_model() -> None:
    async with ScriptedModel() as server:
        assert await find_local_model(f"{server.url}/elsewhere") is None


async def test_without_ollama_there_is_no_local_model() -> None:
    async with ScriptedModel() as server:
        pass
    assert await find_local_model(server.url) is None


async def silent(event: events.AnyEvent) -> None: ...


class OnThisLoop:
    """A server on the client's own loop: a blocking call from this loop could never be answered."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.partition("content-length:")[2].split("\r")[0] or 0))
        self.asked.append(path := head.split()[1])
        message = {"role": "assistant", "content": "hello"}
        said = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message}],
        }
        if path == "/api/chat":
            said = {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": True, "done_reason": "stop"}
        body = json.dumps(said).encode()
        lines = ("HTTP/1.1 200 OK", "content-type: application/json", f"content-length: {len(body)}", "connection: close")
        writer.write("\r\n".join((*lines, "", "")).encode() + body)
        await writer.drain()
        writer.close()


@pytest.mark.parametrize(
    ("name", "path"), [("ollama_chat/nobody-knows:7b", "/api/chat"), ("openai/nobody-knows", "/chat/completions")]
)
@pytest.mark.timeout(60)
async def test_the_loop_is_never_blocked_by_a_call_and_only_the_model_is_asked(name: str, path: str) -> None:
    server = OnThisLoop()
    async with server as base:
        models = Models(ModelSettings(name, base, "sk-secret-of-the-test", 20.0))
        answers = []
        for _ in range(2):
            answers.append(await models.ask(HELLO, seconds=20.0, emit=silent))
            await asyncio.sleep(0.3)  # what LiteLLM does after an answer, it does now
    assert [answer.text for answer in answers] == ["hello", "hello"]
    assert server.asked == [path, path]


async def test_a_server_that_wants_no_key_is_asked_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = OnThisLoop()
    async with server as base:
        answer = await Models(ModelSettings("openai/nobody-knows", base, None, 20.0)).ask(HELLO, seconds=20.0, emit=silent)
    assert answer.text == "hello"
    with pytest.raises(values.Misconfigured, match="SELFHEAL_MODEL_API_KEY"):
        await Models(ModelSettings("openai/nobody-knows", None, None, 20.0)).ask(HELLO, seconds=20.0, emit=silent)


@pytest.mark.long
def test_an_env_file_around_is_not_obeyed(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=http://elsewhere.invalid\n")
    program = "import os, agent.models.provider; agent.models.provider.load(); print(os.environ.get('OPENAI_BASE_URL'))"
    environment = {name: value for name, value in os.environ.items() if name not in ("LITELLM_MODE", "OPENAI_BASE_URL")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout == "None\n"
