"""Trees from several threads."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent.guard import rules
from agent.source import syntax
from agent.source.outline import Module

TEXTS = [inspect.getsource(module) for module in (rules, sys.modules[Module.__module__])]


class Finalized:
    """What the collector finds in a circle while another object is made, as it finds the loop's transports."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sum(range(50))


@pytest.fixture
def busy_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("busy_threads")
def test_threads_do_not_disturb_each_other() -> None:
    def parse(_: int) -> None:
        for text in TEXTS * 10:
            Finalized()
            syntax.tree(text)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(parse, range(4)))


def test_an_expression_is_one() -> None:
    assert syntax.expression("a + 1").body
    with pytest.raises(SyntaxError):
        syntax.expression("a = 1")
