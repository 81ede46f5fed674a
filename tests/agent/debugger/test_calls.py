"""Tool calls are read from plain text, also in the shapes that models were trained on."""

from __future__ import annotations

import pytest

from agent.debugger.calls import ToolCall, read_calls

SPAN = ToolCall("read_span", {"path": "pkg/a.py", "first": "10", "last": "40"})


@pytest.mark.parametrize(
    "text",
    [
        "TOOL read_span pkg/a.py 10 40",
        "I need to see more.\n\n`TOOL read_span pkg/a.py 10 40`\n",
        "- TOOL: read_span pkg/a.py 10-40",
        "TOOL read_span pkg/a.py:10-40",
        "TOOL read_span path=pkg/a.py first=10 last=40",
        '{"name": "read_span", "arguments": {"path": "pkg/a.py", "first": 10, "last": 40}}',
        '<tool_call>\n{"name": "read_span", "arguments": {"file": "pkg/a.py", "start_line": 10, "end_line": 40}}\n</tool_call>',
        '{"function": {"name": "read_span", "arguments": "{\\"path\\": \\"pkg/a.py\\", \\"first\\": 10, \\"last\\": 40}"}}',
        '{"tool": "read_span", "args": ["pkg/a.py", 10, 40]}',
    ],
)
def test_a_call_is_read_however_it_is_written(text: str) -> None:
    assert read_calls(text) == (SPAN,)


def test_a_snippet_is_the_fenced_code_below() -> None:
    text = "TOOL run_snippet\n```python\nimport pkg\n\nprint(pkg.f('x'))\n```\nand then I will know."
    assert read_calls(text) == (ToolCall("run_snippet", {"code": "import pkg\n\nprint(pkg.f('x'))"}),)


def test_a_search_keeps_its_blanks() -> None:
    assert read_calls('TOOL search "def parse(self, text)"') == (ToolCall("search", {"text": "def parse(self, text)"}),)


def test_only_the_first_few_calls_of_a_message_count() -> None:
    assert len(read_calls("TOOL search x\n" * 9)) == 3


@pytest.mark.parametrize("text", ["", "I think it is the parser.", '{"cause": "x"}', "{" * 5000, "TOOLBOX is empty", "[]"])
def test_no_call_is_no_call(text: str) -> None:
    assert read_calls(text) == ()


@pytest.mark.parametrize(
    "text", ["\n" * 200_000, "TOOL run_snippet\n```\n" + "\n" * 200_000, "TOOL run_snippet\n```\n" * 20_000]
)
def test_an_answer_of_any_shape_is_read_in_one_pass(text: str) -> None:
    assert len(read_calls(text)) <= 3  # these took minutes
