"""What the settings of a model say about where it runs."""

from __future__ import annotations

import pytest

from agent.models.values import ModelSettings, ollama_address


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


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({}, "http://localhost:11434"),
        ({"OLLAMA_HOST": ""}, "http://localhost:11434"),
        ({"OLLAMA_HOST": "gpu"}, "http://gpu:11434"),
        ({"OLLAMA_HOST": "gpu:8000"}, "http://gpu:8000"),
        ({"OLLAMA_HOST": ":8000"}, "http://localhost:8000"),
        ({"OLLAMA_HOST": "0.0.0.0:11434"}, "http://localhost:11434"),
        ({"OLLAMA_HOST": "[::1]:8000"}, "http://[::1]:8000"),
        ({"OLLAMA_HOST": "::1"}, "http://[::1]:11434"),
        ({"OLLAMA_HOST": "https://models.example.org/ollama/"}, "https://models.example.org/ollama"),
        ({"OLLAMA_HOST": "gpu:many"}, "http://gpu:many"),
        ({"OLLAMA_API_BASE": "http://one:1", "OLLAMA_HOST": "two:2"}, "http://one:1"),
    ],
)
def test_ollamas_own_variables_name_its_server(variables: dict[str, str], address: str) -> None:
    assert ollama_address(variables) == address
