"""What the settings of a model say about where it runs."""

from __future__ import annotations

import pytest

from agent.models.values import ModelSettings


@pytest.mark.parametrize(
    ("name", "base", "is_here"),
    [
        ("openai/gpt-5", None, False),
        ("openai/qwen", "http://127.0.0.1:1234/v1", True),
        ("openai/qwen", "http://localhost:8000/v1", True),
        ("openai/qwen", "http://[::1]:8000/v1", True),
        ("openai/qwen", "https://models.example.org/v1", False),
        ("ollama_chat/qwen", None, True),
        ("ollama_chat/qwen", "http://ollama:11434", True),
    ],
)
def test_a_server_on_this_machine_needs_its_cores(name: str, base: str | None, is_here: bool) -> None:
    assert ModelSettings(name, base).is_on_this_machine is is_here
