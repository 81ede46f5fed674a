"""The failing checks at the last good commit: whose failure it is, what changed, and what broke it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.contract import events
from agent.contract.budget import Budget
from agent.contract.last_good import ChangedFile, LastGood
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.proposal import FileChange
from agent.contract.task import Policy
from agent.contract.verdicts import Check
from agent.proposers.history.proposer import HistoryProposer
from agent.proposers.patterns.proposer import PatternsProposer
from tests.agent.workbench import CALC, RIGHT, SAMPLE, TESTS, Bench, Scripted, change

pytestmark = pytest.mark.usefixtures("remembered_runs")
PARENT = "the parent commit 3f2a91c0de"
FIXED = CALC.replace("a - b", "a + b")
# The commit adds a function with its test, and breaks `add`.
FEATURE = CALC + "\n\ndef half(a):\n    if a % 2:\n        raise ValueError(a)\n    return a // 2\n"
FEATURE_TESTS = "from calc import half\n\n\ndef test_half():\n    assert half(8) == 4\n"
COMMIT = {"calc.py": FEATURE, "test_calc.py": TESTS, "test_half.py": FEATURE_TESTS}
BEFORE = LastGood(PARENT, (ChangedFile("calc.py", FIXED.encode()), ChangedFile("test_half.py")))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def at(text: str, *others: ChangedFile, passed_in_ci: bool = False) -> LastGood:
    return LastGood(PARENT, (ChangedFile("calc.py", text.encode()), *others), passed_in_ci)


async def test_the_part_of_the_change_that_broke_the_tests_is_reported_and_not_taken_back(bench: Bench) -> None:
    result = await bench.heal(HistoryProposer(), PatternsProposer(), good=(at(FIXED),))
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.NEEDS_TEST_CHANGE
    start = "The only line changed since the parent commit 3f2a91c0de breaks `test_calc.py::test_add`: `calc.py:2`."
    assert result.reason.startswith(start)
    assert "assert -1 == 5" in result.reason, "the test's side"
    assert result.culprit is not None
    assert result.culprit.reversal == RIGHT
    assert [(p.path, p.first_line, p.last_line, p.name) for p in result.culprit.places] == [("calc.py", 2, 2, "add")]
    (found,) = bench.of(events.CulpritFound)
    assert "-    return a + b\n+    return a - b\n" in found.diff
    assert bench.of(events.Proposed) == []


@pytest.mark.long
async def test_a_test_that_fails_only_after_others_is_compared_after_others_too(bench: Bench) -> None:
    tests = "import calc\n\n\ndef test_a(): calc.seen = 1\n\n\ndef test_b(): assert not hasattr(calc, 'seen')\n"
    files = {"calc.py": FIXED, "test_calc.py": tests}
    result = await bench.heal(HistoryProposer(), files=files, good=(at(FIXED + "\n\nOTHER = 1\n", passed_in_ci=True),))
    (told,) = bench.of(events.Compared)
    there = "`test_calc.py::test_b` fails at the parent commit 3f2a91c0de too"
    assert told.text == f"{there}: the cause is older, or only this sandbox has it"
    assert isinstance(result, NoRepair), result
    assert result.culprit is None


@pytest.mark.long
async def test_the_smallest_part_of_a_larger_change_is_found(bench: Bench) -> None:
    result = await bench.heal(HistoryProposer(), files=COMMIT, good=(BEFORE,))
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.GAVE_UP
    assert result.culprit is not None
    assert (result.culprit.lines, result.culprit.of) == (1, 7)
    assert result.culprit.reversal[0].after == FEATURE.replace("a - b", "a + b")
    assert result.culprit.breaks == ()
    assert "1 of the 7 lines changed since" in result.reason


@pytest.mark.long
async def test_a_search_may_repair_that_part_where_the_author_changed_tests_too(bench: Bench) -> None:
    result = await bench.heal(HistoryProposer(), PatternsProposer(), files=COMMIT, good=(BEFORE,))
    assert isinstance(result, Repair), result
    assert result.edits[0].after == FEATURE.replace("a - b", "a + b")
    assert f"it takes back 2 of the 6 lines of code that changed since {PARENT}" in result.doubts


@pytest.mark.long
async def test_a_reversal_is_proposed_if_the_policy_allows_it(bench: Bench) -> None:
    result = await bench.heal(HistoryProposer(), good=(at(FIXED),), policy=Policy(allow_reversals=True))
    assert isinstance(result, Repair), result
    assert result.edits == RIGHT
    assert result.log.rungs[0].rung == "history"


@pytest.mark.long
async def test_an_import_that_the_change_lost_was_not_taken_away_on_purpose(bench: Bench, tmp_path: Path) -> None:
    good = "import json\n\n\ndef read(text):\n    return json.loads(text)\n"
    now = good.removeprefix("import json\n\n\n")
    files = {"m.py": now, "test_m.py": "from m import read\n\n\ndef test_m():\n    assert read('1') == 1\n"}
    known = (LastGood(PARENT, (ChangedFile("m.py", good.encode()),)),)

    result = await bench.heal(HistoryProposer(), files=files, good=known)
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.GAVE_UP
    assert "The code fails with `NameError: name 'json' is not defined`" in result.reason
    assert "update the test" not in result.next_step

    for rung, refused in (("tools", False), ("patterns", True)):
        (tmp_path / rung).mkdir()
        other = Bench(tmp_path / rung)
        restored = Scripted([((FileChange("m.py", now, f"import json\n{now}"),),)], rung=rung)
        await other.heal(restored, HistoryProposer(), files=files, good=known)
        assert bool(other.of(events.Guarded)) is refused, rung


async def test_no_rung_takes_the_whole_change_back(bench: Bench) -> None:
    whole = (FileChange("calc.py", FEATURE, FIXED),)
    result = await bench.heal(Scripted([(whole,)], rung="model:m"), files=COMMIT, good=(BEFORE,))
    assert isinstance(result, NoRepair), result
    assert "removes `half`, which the change since" in result.log.iterations[0].result


@pytest.mark.long
async def test_without_the_last_lines_a_needed_line_is_missing(bench: Bench) -> None:
    good = "def check(a):\n    seen = []\n    seen.append(a)\n    return seen\n"
    files = {
        "m.py": good.replace("    seen.append(a)\n", ""),
        "test_m.py": "from m import check\n\ndef test_m():\n    assert check(1) == [1]\n",
    }
    result = await bench.heal(HistoryProposer(), files=files, good=(LastGood(PARENT, (ChangedFile("m.py", good.encode()),)),))
    assert isinstance(result, NoRepair)
    assert result.culprit is not None
    assert result.culprit.reversal[0].after == good
    assert [(p.first_line, p.last_line) for p in result.culprit.places] == [(3, 3)]


async def test_changed_lines_are_suspected_first(bench: Bench) -> None:
    model = Scripted([], rung="model:m")
    await bench.heal(model, files=COMMIT, good=(BEFORE,))
    suspect = model.seen[0].suspects[0]
    assert (suspect.path, suspect.first_line) == ("calc.py", 2)
    assert suspect.reason.startswith(f"changed since {PARENT}")
    assert model.seen[0].regression is not None
    assert model.seen[0].regression.ids == ("test_calc.py::test_add",)


@pytest.mark.long
async def test_what_failed_before_the_change_leaves_the_target(bench: Bench) -> None:
    files = {**COMMIT, "test_old.py": "def test_old():\n    assert False\n"}
    right = change("a - b", "a + b", source=FEATURE)
    result = await bench.heal(Scripted([(right,)], rung="model:m"), files=files, good=(BEFORE,))
    assert isinstance(result, Repair), result
    assert result.evidence.checks[0].target == ("test_calc.py::test_add",)
    assert any(f"`test_old.py::test_old` fails at {PARENT} too" in note for note in result.log.notes)


USAGE = Check("tests", "sh ./run.sh", "exit", timeout=30)


async def test_a_plugin_that_the_sandbox_lacks_is_not_reported_as_the_repositorys(bench: Bench) -> None:
    run = "echo 'usage: pytest [options]'\necho 'pytest: error: unrecognized arguments: --nbval'\nexit 4\n"
    files = {"run.sh": run, "calc.py": FIXED}
    result = await bench.heal(Scripted([]), files=files, checks=(USAGE,), good=(at(FIXED + "\n"),))
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.NOT_REPRODUCED
    assert "(`unrecognized arguments:`)" in result.reason


NEEDS = "import socket\n\ndef test_remote():\n    socket.create_connection(('127.0.0.1', 9), timeout=5)\n"


@pytest.mark.parametrize("passed_in_ci", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_failure_of_the_sandbox_is_not_reported_as_the_repositorys(bench: Bench, passed_in_ci: bool) -> None:
    files = {"calc.py": FIXED, "test_calc.py": TESTS, "test_remote.py": NEEDS}
    result = await bench.heal(Scripted([]), files=files, good=(at(FIXED + "\n", passed_in_ci=passed_in_ci),))
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.NOT_REPRODUCED
    assert "`test_remote.py::test_remote` fails here (`ConnectionRefusedError`), but fails at" in result.reason
    assert ("--good" in result.next_step) is not passed_in_ci


@pytest.mark.long
async def test_an_older_bug_is_repaired_all_the_same(bench: Bench) -> None:
    result = await bench.heal(PatternsProposer(), good=(at(CALC + "\n"),))
    assert isinstance(result, Repair), result
    assert any("at the parent commit 3f2a91c0de too" in note for note in result.log.notes)


async def test_the_nearest_commit_that_passes_is_the_good_one(bench: Bench) -> None:
    older = LastGood("the merge base", (ChangedFile("calc.py", FIXED.encode()),))
    result = await bench.heal(HistoryProposer(), good=(at(CALC + "\n"), older))
    assert isinstance(result, NoRepair), result
    assert result.culprit is not None
    assert result.culprit.good == "the merge base"


@pytest.mark.long
async def test_a_failure_that_only_cis_log_lacks_and_that_is_older_leaves_the_target(bench: Bench) -> None:
    files = {**SAMPLE, "test_old.py": "def test_old():\n    assert False\n"}
    old = at(CALC + "\n", passed_in_ci=True)
    result = await bench.heal(
        Scripted([(RIGHT,)], rung="model:m"), files=files, good=(old,), reported_ids=("test_calc.py::test_add",)
    )
    assert isinstance(result, Repair), result
    assert result.evidence.checks[0].target == ("test_calc.py::test_add",)


async def test_a_change_is_searched_by_runs_where_the_tests_are_not_python(bench: Bench) -> None:
    script = Check("tests", "sh ./check.sh", "exit", timeout=30)
    good = "one\ntwo\nthree\nfour\nfive\n"
    files = {"data.cfg": good.replace("two", "2").replace("five", "5"), "check.sh": "grep -qx two data.cfg\n"}
    before = LastGood(PARENT, (ChangedFile("data.cfg", good.encode()),))
    result = await bench.heal(HistoryProposer(), files=files, checks=(script,), good=(before,))
    assert isinstance(result, NoRepair), result
    assert result.culprit is not None
    assert result.culprit.reversal[0].after == good.replace("five", "5")


@pytest.mark.long
async def test_a_changed_test_is_no_part_of_the_culprit(bench: Bench) -> None:
    changed = TESTS.replace("== 8", "== 9")
    before = LastGood(PARENT, (ChangedFile("test_calc.py", TESTS.encode()), ChangedFile("calc.py", (FIXED + "\n").encode())))
    result = await bench.heal(HistoryProposer(), files={"calc.py": FIXED, "test_calc.py": changed}, good=(before,))
    assert isinstance(result, NoRepair), result
    assert result.culprit is None
    assert "no part of the change since the parent commit 3f2a91c0de makes the tests pass" in result.reason


@pytest.mark.long
async def test_what_only_the_sandbox_lacks_leaves_the_target_if_cis_log_names_others(bench: Bench) -> None:
    files = {**SAMPLE, "test_remote.py": NEEDS}
    result = await bench.heal(Scripted([(RIGHT,)], rung="model:m"), files=files, reported_ids=("test_calc.py::test_add",))
    assert isinstance(result, Repair), result
    assert result.evidence.checks[0].target == ("test_calc.py::test_add",)
    assert any("`test_remote.py::test_remote` fails here, but not according to CI's log" in note for note in result.log.notes)


PLUGIN = """
import pytest

def pytest_collect_file(file_path, parent):
    return Linted.from_parent(parent, path=file_path) if file_path.name == "calc.py" else None

class Linted(pytest.File):
    def collect(self):
        yield Finding.from_parent(self, name="ruff")

class Finding(pytest.Item):
    def runtest(self):
        raise Exception("calc.py:1:1: RUF100 unused suppression")
"""


async def test_findings_of_a_linter_among_the_tests_wait_for_failing_tests(bench: Bench) -> None:
    files = {**SAMPLE, "conftest.py": PLUGIN}
    result = await bench.heal(Scripted([(RIGHT,)], rung="model:m"), files=files)
    assert isinstance(result, Repair), result
    assert result.evidence.checks[0].target == ("test_calc.py::test_add",)
    assert any("`calc.py::ruff` fails here, but as a linter's finding" in note for note in result.log.notes)


async def test_a_linters_finding_alone_is_the_failure(bench: Bench) -> None:
    files = {**SAMPLE, "calc.py": FIXED, "conftest.py": PLUGIN}
    result = await bench.heal(Scripted([]), files=files)
    assert isinstance(result, NoRepair), result
    assert any("calc.py::ruff" in note for note in result.log.notes)
    assert not any("as a linter's finding" in note for note in result.log.notes)


@pytest.mark.long
async def test_a_slip_beside_a_new_feature_is_found_although_its_tests_need_the_feature(bench: Bench) -> None:
    uses_both = "from calc import add, half\n\n\ndef test_both():\n    assert half(add(3, 5)) == 4\n"
    files = {"calc.py": FEATURE, "test_both.py": uses_both}
    good = LastGood(PARENT, (ChangedFile("calc.py", FIXED.encode()), ChangedFile("test_both.py")))
    result = await bench.heal(HistoryProposer(), files=files, good=(good,))
    assert isinstance(result, NoRepair), result
    assert result.culprit is not None
    assert result.culprit.reversal[0].after == FEATURE.replace("a - b", "a + b")
    (compared,) = bench.of(events.Compared)
    assert compared.text == f"`test_both.py::test_both` is new since {PARENT}"


@pytest.mark.long
async def test_a_commit_that_cannot_be_laid_out_here_is_no_comparison(bench: Bench) -> None:
    good = LastGood(PARENT, (ChangedFile("calc.py/inner.py", b"x"),))
    result = await bench.heal(Scripted([(RIGHT,)], rung="model:m"), good=(good,))
    assert isinstance(result, Repair), result
    (compared,) = bench.of(events.Compared)
    assert compared.text == f"The failing checks could not be run at {PARENT}"


@pytest.mark.long
async def test_a_test_that_cannot_run_at_the_good_commit_is_not_new(bench: Bench) -> None:
    good = LastGood(PARENT, (ChangedFile("calc.py", b"def add(a, b)\n"),))
    result = await bench.heal(PatternsProposer(), good=(good,))
    assert isinstance(result, Repair), result
    assert bench.of(events.Compared)[0].broke == []


@pytest.mark.long
async def test_what_cis_log_names_stays_in_the_target_whatever_it_says(bench: Bench) -> None:
    files = {"calc.py": FIXED, "test_calc.py": TESTS, "test_remote.py": NEEDS}
    named, known = ("test_remote.py::test_remote",), at(FIXED + "\n", passed_in_ci=True)
    result = await bench.heal(Scripted([], rung="model:m"), files=files, good=(known,), reported_ids=named)
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.GAVE_UP, result.reason


@pytest.mark.long
async def test_a_budget_that_ran_out_is_not_hidden_by_what_broke_the_tests(bench: Bench) -> None:
    budget = Budget(iterations=1)
    result = await bench.heal(HistoryProposer(), Scripted([], rung="model:m"), files=COMMIT, good=(BEFORE,), budget=budget)
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.OUT_OF_BUDGET
    assert result.reason.startswith("The budget of 1 iterations is used up")
    assert "1 of the 7 lines changed since" in result.reason


@pytest.mark.long
async def test_what_the_change_broke_is_found_although_a_new_test_fails_for_its_own_reason(bench: Bench) -> None:
    files = {**COMMIT, "test_half.py": FEATURE_TESTS + "\n\ndef test_wrong():\n    assert nothing\n"}
    result = await bench.heal(HistoryProposer(), files=files, good=(BEFORE,))
    assert isinstance(result, NoRepair), result
    assert result.culprit is not None
    assert result.culprit.reversal[0].after == FEATURE.replace("a - b", "a + b")
    (failing,) = [note for note in result.log.notes if note.startswith("Failing: ")]
    assert "`test_half.py::test_wrong` (`NameError: name 'nothing' is not defined`)" in failing, "its own message"
    assert not any(note.startswith("Suspicious") for note in result.log.notes), "one line is known to be the cause"


@pytest.mark.long
async def test_many_failures_of_an_older_commit_are_repaired_unless_ci_says_that_it_passed(bench: Bench) -> None:
    many = "import pytest\nfrom calc import add\n\n@pytest.mark.parametrize('n', range(1, 9))\ndef test_n(n):\n"
    many += "    assert add(n, n) == 2 * n\n"
    files = {"calc.py": CALC, "test_calc.py": many}
    result = await bench.heal(PatternsProposer(), files=files, good=(at(CALC + "\n"),))
    assert isinstance(result, Repair), result


async def test_a_lost_executable_bit_is_this_changes_and_named(bench: Bench) -> None:
    run = "#!/bin/sh\ntrue\n"
    check = Check("tests", "test -x run.sh && ./run.sh", "exit", timeout=30)
    good = LastGood(PARENT, (ChangedFile("run.sh", run.encode(), executable=True), ChangedFile("notes.cfg", b"a\n")))
    files = {"run.sh": run, "notes.cfg": "b\n"}
    result = await bench.heal(HistoryProposer(), files=files, checks=(check,), good=(good,))
    assert isinstance(result, NoRepair), result
    assert len(bench.of(events.Compared)[0].broke) == 1
    assert "the executable bit of `run.sh` changed" in result.reason


@pytest.mark.long
async def test_what_fails_while_a_part_of_the_change_stays_is_not_blamed_on_others(bench: Bench) -> None:
    old = replace(at(FIXED, passed_in_ci=True), unread=("data.bin",))
    files = {"calc.py": FIXED + "\n", "test_calc.py": TESTS, "test_old.py": "def test_old():\n    assert False\n"}
    assert isinstance(result := await bench.heal(Scripted([]), files=files, good=(old,)), NoRepair)
    assert result.outcome is Outcome.GAVE_UP
    (compared,) = bench.of(events.Compared)
    assert compared.left == []
    assert compared.text == f"`test_old.py::test_old` fails at {PARENT} too; `data.bin` changed too and stays as now"


async def test_what_failed_before_stays_in_the_target_while_a_part_of_the_change_is_unknown(bench: Bench) -> None:
    files = {**COMMIT, "test_old.py": "def test_old():\n    assert False\n"}
    await bench.heal(Scripted([], rung="model:m"), files=files, good=(replace(BEFORE, unread=("data.bin",)),))
    (compared,) = bench.of(events.Compared)
    assert (compared.broke, compared.left) == (["test_calc.py::test_add"], [])


@pytest.mark.long
async def test_a_file_that_a_folder_replaced_stays_and_is_named(bench: Bench) -> None:
    good = LastGood(PARENT, (ChangedFile("data", b"x"), ChangedFile("data/inner.cfg"), ChangedFile("calc.py", FIXED.encode())))
    await bench.heal(HistoryProposer(), files={**SAMPLE, "data/inner.cfg": "y\n"}, good=(good,))
    (compared,) = bench.of(events.Compared)
    assert compared.text == f"`test_calc.py::test_add` passes at {PARENT}; `data` changed too and stays as now"


class Past:
    """The commits before the failing one: the texts of calc.py, the newest first; None: the tests cannot run there."""

    def __init__(self, *texts: str | None) -> None:
        self.texts, self.asked = texts, list[int]()

    async def before(self, count: int) -> LastGood | None:
        self.asked.append(count)
        if count > len(self.texts):
            return None
        text = self.texts[count - 1]
        files = [ChangedFile("calc.py", b"def add(a, b)\n" if text is None else text.encode())]
        name = PARENT if count == 1 else f"commit {count:010} ({count} commits ago)"
        return LastGood(name, tuple(files), subject=f"number {count}")


def later(text: str, count: int) -> str:
    """With functions that later commits added."""
    return text + "".join(f"\n\ndef later_{number}():\n    return {number}\n" for number in range(count))


@pytest.mark.long
async def test_the_commit_that_broke_it_is_found_among_older_ones(bench: Bench) -> None:
    past = Past(*(later(CALC, 6 - count) for count in range(1, 4)), later(FIXED, 2), later(FIXED, 1), FIXED)
    files = {"calc.py": later(CALC, 6), "test_calc.py": TESTS}
    good = await past.before(1)
    assert good is not None
    result = await bench.heal(HistoryProposer(), PatternsProposer(), files=files, good=(good,), history=past)
    assert isinstance(result, NoRepair), result
    assert past.asked[1:] == [1, 2, 4, 3]
    (compared,) = bench.of(events.Compared)
    assert compared.text == (
        "`test_calc.py::test_add` passes at commit 0000000004 (4 commits ago); "
        "commit 0000000003 (3 commits ago) broke it: `number 3`"
    )
    assert result.culprit is not None
    # What commit 3 changed alone: the later functions stay, and do not count.
    assert result.reason.startswith("1 of the 5 lines changed by commit 0000000003 (3 commits ago) breaks")
    assert result.culprit.reversal[0].after == later(FIXED, 6)


@pytest.mark.long
async def test_commits_where_the_tests_cannot_run_are_neither_good_nor_bad(bench: Bench) -> None:
    past = Past(later(CALC, 2), later(CALC, 1), FIXED, None, None, None)
    good = await past.before(1)
    assert good is not None
    await bench.heal(HistoryProposer(), files={"calc.py": later(CALC, 3), "test_calc.py": TESTS}, good=(good,), history=past)
    assert past.asked[1:] == [1, 2, 4, 3]
    assert "passes at commit 0000000003" in bench.of(events.Compared)[0].text


@pytest.mark.long
async def test_what_fails_at_every_commit_that_is_looked_at_is_not_repaired(bench: Bench) -> None:
    past = Past(*(later(CALC, 40 - count) for count in range(1, 40)))
    good = await past.before(1)
    assert good is not None
    files = {"calc.py": later(CALC, 40), "test_calc.py": TESTS}
    result = await bench.heal(PatternsProposer(), files=files, good=(good,), history=past)
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.NOT_REPRODUCED
    assert "fails here, but fails at commit 0000000031 (31 commits ago) too" in result.reason


@pytest.mark.long
async def test_a_commit_that_broke_the_same_test_otherwise_is_not_named(bench: Bench) -> None:
    other = FIXED.replace("a + b", "a + c")
    past = Past(later(CALC, 4), later(CALC, 3), later(CALC, 2), later(other, 1), FIXED, FIXED)
    good = await past.before(1)
    assert good is not None
    await bench.heal(HistoryProposer(), files={"calc.py": later(CALC, 5), "test_calc.py": TESTS}, good=(good,), history=past)
    (compared,) = bench.of(events.Compared)
    assert "broke it" not in compared.text


@pytest.mark.long
async def test_a_bug_that_is_as_old_as_everything_known_is_repaired_all_the_same(bench: Bench) -> None:
    past = Past(later(CALC, 1), CALC)
    good = await past.before(1)
    assert good is not None
    files = {"calc.py": later(CALC, 2), "test_calc.py": TESTS}
    result = await bench.heal(PatternsProposer(), files=files, good=(good,), history=past)
    assert isinstance(result, Repair), result
    (compared,) = bench.of(events.Compared)
    there = "`test_calc.py::test_add` fails at commit 0000000002 (2 commits ago) too"
    assert compared.text == f"{there}: the cause is older, or only this sandbox has it"


@pytest.mark.long
async def test_two_failures_that_two_commits_caused_are_not_blamed_on_one(bench: Bench) -> None:
    both = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 3\n"
    past = Past(both, CALC, FIXED)
    good = await past.before(1)
    assert good is not None
    await bench.heal(HistoryProposer(), files={"calc.py": later(both, 1), "test_calc.py": TESTS}, good=(good,), history=past)
    (compared,) = bench.of(events.Compared)
    assert compared.text.endswith("pass at commit 0000000003 (3 commits ago)")
    assert compared.left == []


@pytest.mark.parametrize("near_too", [pytest.param(True, marks=pytest.mark.long), False], ids=["preferred", "doubted"])
async def test_a_patch_of_the_changed_lines_is_preferred_and_another_is_doubted(bench: Bench, near_too: bool) -> None:
    code = "SIGN = 1\n\n\n" + CALC.replace("a - b", "a - b * SIGN")
    apart, near = change("SIGN = 1", "SIGN = -1", source=code), change("a - b", "a + b", source=code)
    files, good = {**SAMPLE, "calc.py": code}, (at(near[0].after or ""),)
    rung = Scripted([(apart, near) if near_too else (apart,)])
    result = await bench.heal(rung, files=files, good=good, policy=Policy(allow_reversals=True, min_confidence=0))
    assert isinstance(result, Repair), result
    assert result.edits == (near if near_too else apart)
    assert ("it changes no line that changed since the parent commit 3f2a91c0de" in result.doubts) is not near_too
