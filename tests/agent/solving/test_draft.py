"""Drafts of models: what is read from them, and what unusable ones cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.contract.events import AnyEvent
from agent.edits.changes import EditProblem
from agent.models.router import Models
from agent.models.values import Misconfigured, ModelError, ModelSettings
from agent.solving.draft import Draft, designed, path_of, read_draft
from agent.solving.specification import Example, specify

GOOD = '```python\ndef total(numbers):\n    """Adds."""\n    raise NotImplementedError\n```'


async def _silent(_: AnyEvent) -> None: ...


def _models(folder: Path, *lines: Sequence[str]) -> Models:
    """Each line has a word of the prompt and its answers; the first line that fits answers."""
    told = [{"role": "design", "when": [when], "answers": answers} for when, *answers in lines]
    script = folder / "script.jsonl"
    script.write_text("\n".join(json.dumps(each) for each in told))
    return Models(ModelSettings(f"scripted:{script}"))


async def test_two_unusable_designs_are_paid_for_and_no_outage(tmp_path: Path) -> None:
    models = _models(tmp_path, ("Add", "I cannot."))
    with pytest.raises(ModelError, match=r"designs could not be used\. The last one has no block") as failed:
        await designed(specify("Add the numbers."), models, _silent)
    assert not failed.value.is_outage
    assert failed.value.usage.calls == 2
    assert failed.value.usage.tokens_out > 0


async def test_a_second_request_that_fails_keeps_what_the_first_one_cost(tmp_path: Path) -> None:
    models = _models(tmp_path, ("Add", "I cannot."))

    async def spoil(_: AnyEvent) -> None:
        _models(tmp_path, ("Something else", "I cannot."))

    with pytest.raises(Misconfigured) as failed:
        await designed(specify("Add the numbers."), models, spoil)
    assert failed.value.is_outage
    assert failed.value.usage.calls == 2
    assert failed.value.usage.tokens_out > 0


async def test_a_second_answer_that_can_be_used_is_the_draft(tmp_path: Path) -> None:
    models = _models(tmp_path, ("Answer again", GOOD), ("Add", "I cannot."))
    assert (await designed(specify("Add the numbers."), models, _silent)).name == "total"


async def test_words_that_contradict_each_other_are_told_with_both(tmp_path: Path) -> None:
    said = 'CONTRADICTION: "always the sum" and "never a number"'
    with pytest.raises(
        ModelError, match=r"contradicts itself, says the model: .always the sum. and .never a number.\. Say"
    ) as failed:
        await designed(specify("Add: always the sum, never a number."), _models(tmp_path, ("Add", said)), _silent)
    assert failed.value.usage.calls == 1
    assert not failed.value.is_outage


def _drafted(examples: str, doctests: str = "") -> Draft | EditProblem:
    inside = examples.replace("\n", "\n    ")
    answer = f'```python\ndef f(n):\n    """Count.\n\n    {inside}\n    """\n    raise NotImplementedError\n```'
    return read_draft(answer, specify("Count.", name="f", doctests=doctests), "solution.py")


def test_a_drafted_example_that_is_nested_too_deeply_is_a_problem_of_the_draft() -> None:
    found = _drafted(">>> " + "-" * 100_000 + "1\n1")
    assert isinstance(found, EditProblem)
    assert "nested too deeply" in found.sentence


def test_a_drafted_default_that_is_nested_too_deeply_is_a_problem_of_the_draft() -> None:
    answer = f"```python\ndef f(n={'-' * 900}1):\n    raise NotImplementedError\n```"
    found = read_draft(answer, specify("Count.", name="f"), "solution.py")
    assert isinstance(found, EditProblem)
    assert "nested too deeply" in found.sentence


def test_drafted_examples_keep_the_statements_that_the_user_has_too() -> None:
    given = ">>> n = 1\n>>> f(n)\n1\n>>> n = 2\n>>> f(n)\n2"
    found = _drafted(f"{given}\n>>> n = 1\n>>> f(n + 1)\n2", given)
    assert isinstance(found, Draft)
    assert [each.source for each in found.examples] == ["n = 1", "n = 2", "n = 1", "f(n + 1)"]


def test_the_users_examples_are_not_among_the_drafted_ones() -> None:
    given = ">>> import math\n>>> f(1)\n1"
    repeated, more = _drafted(given, given), _drafted(">>> f(1)\n1\n>>> f(2)\n2", ">>> f(1)\n1")
    assert isinstance(repeated, Draft)
    assert isinstance(more, Draft)
    assert repeated.examples == ()
    assert more.examples == (Example("f(2)", "2"),)


def test_a_drafted_example_that_contradicts_the_users_is_a_problem_of_the_draft() -> None:
    found = _drafted(">>> f(1)\n2", ">>> f(1)\n1")
    assert isinstance(found, EditProblem)
    assert "contradict" in found.sentence
    assert isinstance(_drafted(">>> n = 2\n>>> f(n)\n4", ">>> n = 1\n>>> f(n)\n1"), Draft)


@pytest.mark.parametrize(
    ("files", "given", "path"),
    [
        (("shop/__init__.py", "shop/cart.py"), {}, "shop/__init__.py"),
        (("shop/cart.py", "shop/__init__.py"), {"name": "total"}, "shop/cart.py"),
        (("cart.py", "price.py"), {}, "cart.py"),
        (
            ("shop/cart.py", "shop/__init__.py"),
            {"tests": "from shop import Cart\n\ndef test():\n    Cart()\n"},
            "shop/__init__.py",
        ),
    ],
)
def test_a_package_needs_no_file_of_the_usual_name(files: Sequence[str], given: dict[str, str], path: str) -> None:
    code = {"shop/__init__.py": "from shop.cart import Cart\n", "price.py": "PRICE = 1\n"}
    cart = "class Cart:\n    pass\n\ndef total(cart):\n    raise NotImplementedError\n"
    answer = "\n".join(f"{each}\n```python\n{code.get(each, cart)}```" for each in files)
    spec = specify("A small package.", **given)
    found = read_draft(answer, spec, path_of(spec))
    assert isinstance(found, Draft), found
    assert found.path == path
