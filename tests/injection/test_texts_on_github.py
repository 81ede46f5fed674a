"""Whatever a repository, a stranger or a model writes: on GitHub it mentions nobody, closes, loads and commands nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import pytest

from agent.contract.budget import RungCost, Usage
from agent.contract.outcome import CheckEvidence, Evidence, Iteration, NoRepair, Outcome, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, FileChange
from agent.contract.question import Question
from agent.contract.verdicts import VerdictId
from app.publish import messages, publish
from app.publish.messages import Publication
from tests.injection.readers import PULL, effects_of_markdown, effects_of_plain
from tests.injection.texts import TEXTS

PUBLICATION = Publication(
    "att_1", 1, "f" * 40, "main", "CI", "https://github.com/acme/calc/actions/runs/7", PULL, by_command=True
)
LOG = ReflectionLog(
    Diagnosis("cause", "logic", 0.8, "model:x", ("seen",), ("perhaps",), ("calc.py::add",)),
    (Iteration(1, "model:x", "title", "-a\n+b", "result", "lesson"), Iteration(2, "patterns", "title", "+c", "verified")),
    ("lesson",),
    (RungCost("model:x", 2.5, 40, 1, Usage(), "note"),),
    ("note",),
)
CHECK = CheckEvidence("tests", "pytest", (VerdictId("test_a.py::test_b"),), 1, 3, 1.0, 0, 4, 1.0, 1, 1.0)
REPAIR = Repair(
    (FileChange("calc.py", "a\n", "b\n"), FileChange("new.py", None, "c\n")),
    "title",
    Diagnosis("another cause", "other", 0.8, "model:x"),
    Evidence((CHECK,), "Python 3.12", ("another system",)),
    0.5,
    Usage(10, 10, 1, 0.1),
    LOG,
    doubts=("a doubt",),
)
# Never from outside, or GitHub's own; the prefixes are the operator's and the owners', and are checked when they are read.
OURS = {"attempt_id", "head_sha", "run_url", "about", "branch_prefix", "commit_prefix"}


def filled(value: Any, texts: Iterator[str]) -> Any:
    """The value with every text in it, however deep, replaced by a hostile one."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return next(texts)
    if isinstance(value, tuple):
        return tuple(filled(each, texts) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.init and field.name not in OURS]
        return replace(value, **{name: filled(getattr(value, name), texts) for name in names})
    return value


def effects(texts: Iterator[str]) -> list[str]:
    """What all texts of one attempt would do on GitHub if everything from outside were hostile."""
    where, repair = filled(PUBLICATION, texts), filled(REPAIR, texts)
    failed = filled(NoRepair(Outcome.GAVE_UP, "reason", "next step", Usage(), LOG), texts)
    bodies = [
        messages.pull_body(where, repair),
        messages.healed_summary(where, repair, "https://github.com/acme/calc/pull/4"),
        messages.healed_comment(where, repair, 4, "https://github.com/acme/calc/pull/4"),
        messages.receipt_summary(where, repair, "https://github.com/acme/calc/pull/4"),
        messages.patch_summary(where, repair, next(texts)),
        messages.patch_comment(where, repair, next(texts)),
        messages.no_repair_summary(where, failed),
        messages.no_repair_comment(where, failed),
        messages.question_summary(where, filled(Question("publish", "text", "+diff"), texts)),
        messages.question_comment(where, filled(Question("publish", "text", "+diff"), texts)),
        messages.closed_body(where.attempt_id, messages.pull_body(where, repair), messages.needless(where, "f" * 40)),
        messages.progress_summary(where, next(texts)),
    ]
    plain = [
        messages.title(where, repair),
        messages.commit_message(where, repair),
        messages.no_repair_title(where, failed),
    ]
    found = [effect for body in bodies for effect in effects_of_markdown(body)]
    found += [effect for text in plain for effect in effects_of_plain(text)]
    for name in (publish.branch_name(where), publish.branch_name(where, 2)):
        found += effects_of_plain(name) if not name.isascii() or " " in name else []
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_does_nothing_wherever_it_is_shown(name: str) -> None:
    rounds = iter(lambda: TEXTS[name], None)
    assert effects(rounds) == []


@pytest.mark.long
def test_texts_that_are_joined_and_cut_do_nothing() -> None:
    chance = random.Random(20261124)
    pieces = [piece for text in TEXTS.values() for piece in (text, *text.split(), text[::-1])]

    def joined() -> str:
        return chance.choice(["", " ", "\n", "`", "**", "x"]).join(chance.choices(pieces, k=chance.randrange(1, 30)))

    for _ in range(40):
        assert effects(iter(joined, None)) == []


@pytest.mark.parametrize("name", ["mention", "closing", "prow", "bors", "skipped CI", "image", "bidirectional", "links"])
def test_the_readers_see_what_is_not_cleaned(name: str) -> None:
    """So that the tests above can fail."""
    assert effects_of_markdown(f"Before.\n\n{TEXTS[name]}\n")
    assert effects_of_plain(TEXTS[name]) or name == "image"
