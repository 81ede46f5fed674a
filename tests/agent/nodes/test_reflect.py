"""What failed changes teach is told as it was seen, names each place once, and draws no conclusion that nobody checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.contract import events
from agent.contract.outcome import NoRepair
from agent.contract.proposal import Edits, FileChange
from agent.state import Objection, Opinion, State, Work, pack
from app.redaction import redact
from tests.agent.workbench import Bench, Scripted, change

pytestmark = pytest.mark.usefixtures("remembered_runs")

BEFORE = (
    "class Sign:\n    def of(self, number):\n        return number < 0\n\n\n"
    "def sign(number):\n    return -1 if Sign().of(number) else 1\n"
)
FILES = {
    "signs.py": BEFORE,
    "test_signs.py": (
        "from signs import sign\n\ndef test_zero():\n    assert sign(0) == 0\n\n"
        "def test_negative():\n    assert sign(-4) == -1\n\ndef test_positive():\n    assert sign(4) == 1\n"
    ),
}


def changed(before: str, after: str) -> tuple[FileChange, ...]:
    return (FileChange("signs.py", BEFORE, BEFORE.replace(before, after)),)


async def lessons(folder: Path, *candidates: tuple[FileChange, ...], title: str = "a change") -> list[str]:
    bench = Bench(folder)
    await bench.heal(Scripted([(each,) for each in candidates], title=title), files=FILES)
    return [event.lesson for event in bench.of(events.Reflected)]


async def test_a_lesson_names_the_changed_function_and_a_path_only_once(tmp_path: Path) -> None:
    (told,) = await lessons(tmp_path / "bare", changed("number < 0", "0 > number"))
    assert told.startswith("a change (signs.py::Sign.of): 1 of 1 failing test still fails")
    (told,) = await lessons(tmp_path / "placed", changed("number < 0", "0 > number"), title="x becomes y (signs.py:3)")
    assert told.count("signs.py") - told.count("test_signs.py") == 1


async def test_changes_that_leave_the_failure_as_it_was_say_so_and_conclude_nothing(tmp_path: Path) -> None:
    told = await lessons(tmp_path, changed("number < 0", "0 > number"), changed("number < 0", "not number >= 0"))
    assert told[-1] == "The last 2 changes (in signs.py) did not change the failure."


@pytest.mark.long
async def test_it_is_seen_of_several_failures_in_whatever_order_they_come(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    tests = (
        "from signs import sign\n\ndef test_zero():\n    assert sign(0) == 0\n\ndef test_none():\n    assert sign(0) in ()\n"
    )
    unmoved, moved = changed("number < 0", "0 > number"), changed("else 1", "else 2")
    rounds: list[tuple[Edits, ...]] = [(unmoved,), (changed("number < 0", "not number >= 0"),), (moved,)]
    await bench.heal(Scripted(rounds), files={**FILES, "test_signs.py": tests})
    told = [event.lesson for event in bench.of(events.Reflected)]
    assert told[2] == "The last 2 changes (in signs.py) did not change the failure."
    assert len(told) == 4


async def test_an_objection_is_told_from_what_the_gate_found_by_who_made_it(tmp_path: Path) -> None:
    async def object_to(state: State, work: Work) -> State:
        return {"objection": pack(Objection("refused by taste", "no"))}

    bench = Bench(tmp_path)
    await bench.heal(Scripted([(change("a - b", "a + b"),)], rung="model:m"), opinions=(Opinion("taste", object_to),))
    (told,) = bench.of(events.Reflected)
    assert told.lesson.endswith("The next change must pass the same checks without this fault.")
    assert "refused by taste objects: no" in told.text, "people need no advice for the next change"


@pytest.mark.long
async def test_changes_that_mend_the_failing_test_and_break_others_alike_are_not_called_stuck(tmp_path: Path) -> None:
    told = await lessons(tmp_path, changed("else 1", "else 0"), changed("else 1", "else 0 * number"))
    assert len(told) == 2
    assert all("it fixes the failing tests but breaks" in lesson for lesson in told)
    assert all("find the rule that gives both" in lesson for lesson in told)


@pytest.mark.parametrize(
    ("instead", "cause"),
    [
        ("len(bytes(10**14))", "It needs more memory than there is: bound what it builds, or work piece by piece."),
        (
            "__import__('socket').create_connection(('192.0.2.1', 80))",
            "There is no network here: nothing answers but what the tests start themselves.",
        ),
    ],
)
async def test_memory_and_network_that_there_is_not_are_named_as_the_cause(instead: str, cause: str, tmp_path: Path) -> None:
    (told,) = await lessons(tmp_path, changed("number < 0", instead))
    assert told.endswith(f". {cause}"), told


async def test_a_refusal_is_answered_with_what_is_allowed_instead(tmp_path: Path) -> None:
    weaker = (FileChange("test_signs.py", FILES["test_signs.py"], FILES["test_signs.py"].replace("== 0", "== 1")),)
    told = await lessons(tmp_path, weaker)
    assert told[0].endswith("test_signs.py is a test. Leave the tests as they are, and repair the code that they check.")


@pytest.mark.long
async def test_the_change_that_fixed_most_is_shown_until_the_end(tmp_path: Path) -> None:
    tests = (
        "from signs import sign\n\ndef test_zero():\n    assert sign(0) == 0\n\ndef test_large():\n    assert sign(4) == 2\n"
    )
    rounds = ["else 2", "else 3", "else 4", "else 5"]
    model = Scripted([(changed("else 1", each),) for each in rounds], rung="model:m")
    bench = Bench(tmp_path)
    ended = await bench.heal(model, files={**FILES, "test_signs.py": tests})
    assert isinstance(ended, NoRepair)
    assert ended.partial is not None
    assert "else 2" in ended.partial.diff
    assert ended.partial.result.startswith("1 of 2 failing tests still fails")
    first = bench.of(events.Reflected)[0].lesson
    assert "1 of 2 failing results now pass. Keep this part" in redact(first), "nothing in it looks like a secret"
    shown = [["else 2" in each.diff for each in now.earlier] for now in model.seen]
    assert shown == [[], [True], [True, False], [True, False]]


async def test_a_recursion_without_end_is_named_as_such(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.heal(Scripted([(change("a - b", "add(a, b)"),)], rung="model:m"))
    (told,) = bench.of(events.Reflected)
    assert told.lesson.endswith("It calls itself without end: stop at the smallest case, or do without recursion.")
