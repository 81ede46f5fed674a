from __future__ import annotations

import pytest

from webhooks.commands import asks_to_heal


@pytest.mark.parametrize(
    "comment",
    ["/heal", "/heal please", "Look at this:\n/heal\n", "  /heal", "/HEAL", "```\ncode\n```\n/heal", "text\r\n/heal\r\n"],
)
def test_a_line_that_starts_with_the_command_is_one(comment: str) -> None:
    assert asks_to_heal(comment)


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "please /heal this",
        "/healthy",
        "/heal-me",
        "> /heal",
        "    /heal",
        "```\n/heal\n```",
        "~~~sh\n/heal\n~~~",
        "````\n```\n/heal\n````",
        "```\n/heal",
        "``` \n/heal\n~~~\n/heal",
        "`/heal`",
        "<!-- \n/heal\n-->",
        "<!-- /heal",
    ],
)
def test_code_quotations_and_prose_are_no_commands(comment: str) -> None:
    assert not asks_to_heal(comment)
