from __future__ import annotations

import pytest

from webhooks.triggers import Heal, command_in


@pytest.mark.parametrize(
    "comment",
    ["/heal", "/heal please", "Look at this:\n/heal\n", "  /heal", "/HEAL", "```\ncode\n```\n/heal", "text\r\n/heal\r\n"],
)
def test_a_line_that_starts_with_the_command_is_one(comment: str) -> None:
    assert command_in(comment) == Heal(flaky=False)


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
    assert command_in(comment) is None


@pytest.mark.parametrize("comment", ["/heal flaky", "/HEAL  Flaky", "/heal flaky, please", "Look:\n/heal flaky\n/heal"])
def test_flakiness_is_repaired_when_it_is_named(comment: str) -> None:
    assert command_in(comment) == Heal(flaky=True)


@pytest.mark.parametrize("comment", ["/heal the flaky test", "/heal flakyness", "/heal\nflaky", "/heal\n/heal flaky"])
def test_a_word_elsewhere_is_not_the_wish(comment: str) -> None:
    assert command_in(comment) == Heal(flaky=False)
