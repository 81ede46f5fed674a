"""A failure that comes and goes: each cause by a small repository of its own, really run, and told for what it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent.contract import events
from agent.contract.blobs import MemoryBlobs
from agent.contract.budget import Budget
from agent.contract.outcome import ConfirmedFailure, Flakiness, NoRepair, Outcome, Repair
from agent.contract.proposal import FileChange
from agent.contract.task import Task
from agent.contract.verdicts import Check, Conditions, VerdictId
from agent.graph import confirm, repair
from agent.reproduce.flakiness import EAST, by_signs, in_words, reported_in, series, trials, varied
from agent.reproduce.probing import TRIALS, UNREPORTED
from agent.state import Context
from sandbox.base import Sandbox
from tests.agent.workbench import PYTEST, Scripted, sandbox_with

CHECK = replace(PYTEST, timeout=60, env={**PYTEST.env, "PYTHONHASHSEED": "1"})  # where nothing else is asked for
BUDGET = Budget(seconds=900)


@dataclass
class Case:
    """One repository, and what was told of it. `sandbox` is a jail where its walls matter."""

    folder: Path
    files: Mapping[str, str]
    sandbox: Sandbox | None = None
    events: list[events.AnyEvent] = field(default_factory=list)

    async def emit(self, event: events.AnyEvent) -> None:
        self.events.append(event)

    @asynccontextmanager
    async def task(self) -> AsyncIterator[Task]:
        if self.sandbox is not None:
            for path, text in self.files.items():
                await self.sandbox.base.write(path, text.encode())
            yield Task(
                "flaky", self.sandbox, (Check("tests", "python -m pytest -q", "pytest"),), budget=BUDGET, failed_in_ci=True
            )
            for path in self.files:
                await self.sandbox.base.remove(path)
            return
        async with sandbox_with(self.folder, self.files) as sandbox:
            yield Task("flaky", sandbox, (CHECK,), budget=BUDGET, failed_in_ci=True)

    def context(self, *proposers: Scripted) -> Context:
        return Context(self.emit, proposers, None, MemoryBlobs(), InMemorySaver())

    async def seen(self, **known: object) -> ConfirmedFailure | NoRepair:
        async with self.task() as task:
            return await confirm(replace(task, **known), self.context())

    async def healed(self, *proposers: Scripted, **known: object) -> Repair | NoRepair:
        async with self.task() as task:
            result = await repair(replace(task, **known), self.context(*proposers))
            assert isinstance(result, Repair | NoRepair)
            return result

    def probes(self) -> list[events.Probed]:
        return [event for event in self.events if isinstance(event, events.Probed)]


def flaky(result: ConfirmedFailure | Repair | NoRepair) -> Flakiness:
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.FLAKY, result
    assert result.flakiness is not None
    found = result.flakiness
    assert f"failed in {found.red} of {found.runs} runs" in result.reason
    assert f"Suspected cause: {found.cause}" in result.reason
    assert 0 < found.red < found.runs
    return found


STOCK = """\
CACHE = {}

def price(name, table):
    if name not in CACHE:
        CACHE[name] = table[name]
    return CACHE[name]
"""
ORDER = {
    "stock.py": STOCK,
    "test_a.py": "from stock import price\n\ndef test_first():\n    assert price('tea', {'tea': 3}) == 3\n",
    "test_b.py": "\n".join(f"def test_{n}(): pass" for n in range(6)) + "\n",
    "test_c.py": "from stock import price\n\ndef test_other():\n    assert price('jam', {'jam': 7}) == 7\n\n"
    "def test_dear():\n    assert price('tea', {'tea': 3}) == 3\n    from stock import CACHE\n    CACHE['tea'] = 9\n",
}


@pytest.mark.long
async def test_a_failure_that_needs_an_order_names_the_test_to_blame(tmp_path: Path) -> None:
    case = Case(tmp_path, ORDER)
    found = flaky(await case.seen(reported_ids=("test_a.py::test_first",)))
    assert (found.cause, found.ids) == ("order", ("test_a.py::test_first",))
    assert varied(found.under[0]) == ("shuffle",)
    assert "`test_c.py::test_dear`, which leaves state behind" in found.evidence[-1]
    assert len(case.probes()) <= 20
    assert [event.run for event in case.probes()] == list(range(1, len(case.probes()) + 1))


@pytest.mark.long
async def test_a_test_that_needs_another_one_before_it_is_told_so(tmp_path: Path) -> None:
    files = {
        "state.py": "READY = []\n",
        "test_a.py": "import state\ndef test_a(): state.READY.append(1)\ndef test_b(): assert state.READY\n",
    }
    found = flaky(await Case(tmp_path, files).seen())
    assert (found.cause, found.ids) == ("order", ("test_a.py::test_b",))
    assert "also fails alone" in found.evidence[-1]


RUN = datetime(2027, 3, 31, 10, 0, tzinfo=UTC)
TIME = {
    "due.py": """\
import datetime

def next_month():
    today = datetime.date.today()
    return today.replace(month=today.month + 1)
""",
    "test_due.py": """\
import datetime
from due import next_month

def test_due():
    assert next_month() > datetime.date.today()
""",
}
MENDED = TIME["due.py"].replace("today.replace(month=today.month + 1)", "today + datetime.timedelta(31)")


@pytest.mark.long
async def test_what_is_red_at_the_clock_of_the_run_is_reproduced(tmp_path: Path) -> None:
    case = Case(tmp_path, TIME)
    result = await case.seen(reported_ids=("test_due.py::test_due",), clock=RUN)
    assert isinstance(result, ConfirmedFailure), result
    assert result.failing == ("test_due.py::test_due",)
    (fixed,) = result.oracle.checks[0].conditions
    assert varied(fixed) == ("clock",)
    assert fixed.clock == RUN.timestamp()
    assert "2027-03-31 10:00 UTC" in result.notes[0]


@pytest.mark.long
async def test_the_gate_judges_at_the_clock_of_the_run(tmp_path: Path) -> None:
    case = Case(tmp_path, TIME)
    wrong = (FileChange("due.py", TIME["due.py"], TIME["due.py"].replace("+ 1", "+ 3")),)
    right = (FileChange("due.py", TIME["due.py"], MENDED),)
    rung = Scripted([(wrong,), (right,)])
    result = await case.healed(rung, reported_ids=("test_due.py::test_due",), clock=RUN)
    assert isinstance(result, Repair), result
    assert result.edits == right
    assert any("Suspected cause: time" in hint for hint in rung.seen[0].hints)
    (evidence,) = result.evidence.checks
    assert (evidence.base_red, evidence.with_red, evidence.without_red) == (1, 0, 1)


@pytest.mark.long
async def test_a_failure_of_another_time_zone_is_one_of_time(tmp_path: Path) -> None:
    files = {"test_zone.py": "import time\ndef test_zone(): assert time.localtime().tm_gmtoff < 14 * 3600\n"}
    found = flaky(await Case(tmp_path, files).seen())
    assert found.cause == "time"
    assert found.under == (Conditions(timezone=EAST),)


HASHES = {
    "names.py": "def first(names):\n    return list(set(names))[0]\n",
    "test_names.py": "from names import first\ndef test_first(): assert first(['b', 'a', 'c', 'd']) != 'c'\n",
}


@pytest.mark.long
async def test_a_failure_that_needs_a_hash_seed_is_one_of_randomness(tmp_path: Path) -> None:
    found = flaky(await Case(tmp_path, HASHES).seen())
    assert found.cause == "randomness"
    assert varied(found.under[0]) == ("hash_seed",)
    assert "PYTHONHASHSEED=" in found.evidence[0]


@pytest.mark.long
async def test_a_failure_that_needs_a_random_seed_is_one_of_randomness(tmp_path: Path) -> None:
    files = {"test_dice.py": "import random\ndef test_dice(): assert random.randrange(10**6) != 249523\n"}
    found = flaky(await Case(tmp_path, files).seen())
    assert found.cause == "randomness"
    assert found.under == (Conditions(seed=3),)


@pytest.mark.long
async def test_the_seed_that_the_log_tells_reproduces_the_run(tmp_path: Path) -> None:
    files = {"test_dice.py": "import random\ndef test_dice(): assert random.randrange(10**6) != 142592\n"}  # seed 4711 draws it
    result = await Case(tmp_path, files).seen(seed=4711, reported_ids=("test_dice.py::test_dice",))
    assert isinstance(result, ConfirmedFailure), result
    assert result.oracle.checks[0].conditions == (Conditions(seed=4711),)


# Red in every third run, whatever is fixed: the runs at the base are green, the next one is red, the one after that is not.
THIRD = """
from pathlib import Path

def is_third():
    counter = Path(COUNTER)
    n = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(n + 1))
    return n % 3 == 2
"""
RACE = {
    "bank.py": """
import threading, time
from third import is_third

class Account:
    def __init__(self):
        self.balance = 0

    def pay(self, pause):
        seen = self.balance
        time.sleep(pause)
        self.balance = seen + 1

def pay_twice(account):
    pause = 0.3 if is_third() else 0
    threads = [threading.Thread(target=account.pay, args=(pause,)) for _ in range(2)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    check(account)

def check(account):
    assert account.balance == 2
""",
    "test_bank.py": "from bank import Account, pay_twice\n\ndef test_pay(): pay_twice(Account())\n",
}


@pytest.mark.long
async def test_a_failure_that_nothing_fixes_is_suspected_of_concurrency_by_its_code(tmp_path: Path) -> None:
    third = THIRD.replace("COUNTER", repr(str(tmp_path / "n")))
    found = flaky(await Case(tmp_path, {**RACE, "third.py": third}).seen())
    assert (found.cause, found.red, found.runs, found.under) == ("concurrency", 1, 4, ())
    assert "failed in some runs and passed in others under the same conditions (in shuffled order 1" in found.evidence[0]
    assert "threading" in found.evidence[1]


@pytest.mark.long
async def test_a_failure_that_nothing_explains_is_unknown(tmp_path: Path) -> None:
    third = THIRD.replace("COUNTER", repr(str(tmp_path / "n")))
    test = "from third import is_third\ndef test_luck(): assert not is_third()\n"
    found = flaky(await Case(tmp_path, {"test_luck.py": test, "third.py": third}).seen())
    assert (found.cause, len(found.evidence)) == ("unknown", 1)


@pytest.mark.long
async def test_a_failure_that_nothing_fixes_and_that_asks_for_the_time_is_suspected_of_time(tmp_path: Path) -> None:
    third = THIRD.replace("COUNTER", repr(str(tmp_path / "n")))
    test = "import datetime\nfrom third import is_third\n\ndef test_now():\n    late = is_third()\n"
    test += "    assert datetime.datetime.now().year == (1900 if late else datetime.datetime.now().year)\n"
    found = flaky(await Case(tmp_path, {"test_now.py": test, "third.py": third}).seen())
    assert (found.cause, found.under) == ("time", ())
    assert "datetime.now" in found.evidence[-1]


@pytest.mark.long
async def test_what_came_and_went_at_the_base_is_announced_as_that(tmp_path: Path) -> None:
    second = THIRD.replace("COUNTER", repr(str(tmp_path / "n"))).replace("n % 3 == 2", "n % 2 == 0")
    test = "from third import is_third\ndef test_luck(): assert not is_third()\n"
    case = Case(tmp_path, {"test_luck.py": test, "third.py": second})
    flaky(await case.seen())
    (told,) = [event.text for event in case.events if isinstance(event, events.Reproduced)]
    assert told.startswith("Flaky: `test_luck.py::test_luck` failed in only some of 3 runs")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("    now = datetime.now()", "time"), ("E  assert time.time() - start < 1", "time"), ("today = date.today()", "time"),
        ("    if Date.now() > due:", "time"), ("    time.sleep(1)", "unknown"), ("    datetime(2020, 1, 1)", "unknown"),
        ("threading.Thread(target=lambda: time.time())", "concurrency"), ("    uptime.time_of(x)", "unknown"),
    ],
)  # fmt: skip
def test_words_that_ask_for_the_time(text: str, cause: str) -> None:
    assert by_signs([text])[0] == cause


NETWORK = {"test_net.py": "import socket\ndef test_net(): socket.create_connection(('example.invalid', 80), 2)\n"}


@pytest.mark.asyncio(loop_scope="session")
async def test_red_for_want_of_a_network_is_not_what_ci_saw(sandbox: Sandbox, tmp_path: Path) -> None:
    result = await Case(tmp_path, NETWORK, sandbox).seen(
        reported_ids=("test_net.py::test_net",), hints=("E  assert 404 == 200",)
    )
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.NOT_REPRODUCED
    assert "has no network" in result.reason


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.long
async def test_where_ci_had_no_network_either_it_is_flaky(sandbox: Sandbox, tmp_path: Path) -> None:
    hints = ("E  socket.gaierror: [Errno -3] Temporary failure in name resolution",)
    result = await Case(tmp_path, NETWORK, sandbox).seen(reported_ids=("test_net.py::test_net",), hints=hints)
    assert isinstance(result, NoRepair), result
    assert (result.outcome, result.flakiness and result.flakiness.cause) == (Outcome.FLAKY, "network")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.long
async def test_where_nothing_is_known_of_ci_the_network_is_what_it_needs(sandbox: Sandbox, tmp_path: Path) -> None:
    result = await Case(tmp_path, NETWORK, sandbox).seen()
    assert isinstance(result, NoRepair), result
    assert result.outcome is Outcome.NEEDS_SERVICES
    assert "has no network" in result.reason


@pytest.mark.long
async def test_a_failure_that_is_never_red_is_not_reproduced_and_says_what_was_tried(tmp_path: Path) -> None:
    case = Case(tmp_path, {"test_fine.py": "def test_fine(): pass\n"})
    result = await case.seen(reported_ids=("test_fine.py::test_fine",), clock=RUN)
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.NOT_REPRODUCED
    assert len(case.probes()) == TRIALS + 1
    assert case.probes()[-1].under.endswith("only 1 test")
    assert f"{TRIALS + 1} more runs with other test orders" in result.reason


@pytest.mark.long
async def test_where_nothing_says_that_anything_was_red_few_more_runs_are_made(tmp_path: Path) -> None:
    case = Case(tmp_path, {"test_fine.py": "def test_fine(): pass\n"})
    result = await case.seen()
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.NOT_REPRODUCED
    assert len(case.probes()) == UNREPORTED < TRIALS


async def test_where_nothing_failed_anywhere_no_more_runs_are_made(tmp_path: Path) -> None:
    case = Case(tmp_path, {"test_fine.py": "def test_fine(): pass\n"})
    result = await case.seen(failed_in_ci=False)
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.NOT_REPRODUCED
    assert "`selfheal fix --flaky`" in result.next_step
    assert case.probes() == []


@pytest.mark.long
async def test_short_of_time_nothing_more_is_tried(tmp_path: Path) -> None:
    case = Case(tmp_path, {"test_slow.py": "import time\ndef test_slow(): time.sleep(1)\n"})
    result = await case.seen(budget=Budget(seconds=10))
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.NOT_REPRODUCED
    assert len(case.probes()) <= 1


@pytest.mark.long
async def test_flakiness_is_repaired_only_when_it_is_asked_for(tmp_path: Path) -> None:
    right = (FileChange("names.py", HASHES["names.py"], HASHES["names.py"].replace("list(set(names))", "sorted(set(names))")),)
    unasked = Scripted([(right,)])
    found = flaky(await Case(tmp_path, HASHES).healed(unasked))
    assert found.cause == "randomness"
    assert not unasked.seen

    rung = Scripted([(right,)], rung="model:scripted")
    result = await Case(tmp_path, HASHES).healed(rung, heals_flakiness=True)
    assert isinstance(result, Repair), result
    assert any("Suspected cause: randomness" in hint for hint in rung.seen[0].hints)
    (evidence,) = result.evidence.checks
    assert (evidence.base_red, evidence.with_red, evidence.without_red) == (1, 0, 1)


@pytest.mark.long
async def test_a_repair_that_is_green_by_luck_is_no_repair_of_flakiness(tmp_path: Path) -> None:
    """It mends the one order that was tried first, and is red in another."""
    source = HASHES["names.py"]
    lucky = source.replace("list(set(names))[0]", "names[hash('x') % 3]")
    right = source.replace("list(set(names))", "sorted(set(names))")
    changes = [((FileChange("names.py", source, text),),) for text in (lucky, right)]
    rung = Scripted(changes, rung="model:scripted")
    result = await Case(tmp_path, HASHES).healed(rung, heals_flakiness=True)
    assert isinstance(result, Repair), result
    assert result.edits[0].after == right


@pytest.mark.long
async def test_state_that_tests_share_is_healed_under_the_order_that_shows_it(tmp_path: Path) -> None:
    files = {
        **ORDER,
        "test_c.py": "from stock import price\n\ndef test_dear():\n    assert price('tea', {'tea': 9}) in (3, 9)\n",
    }
    fixed = STOCK.replace(
        "    if name not in CACHE:\n        CACHE[name]", "    if CACHE.get(name) != table[name]:\n        CACHE[name]"
    )
    result = await Case(tmp_path, files).healed(
        Scripted([((FileChange("stock.py", STOCK, fixed),),)], rung="model:scripted"),
        reported_ids=("test_a.py::test_first",),
        heals_flakiness=True,
    )
    assert isinstance(result, Repair), result


async def test_the_likeliest_conditions_come_first_and_are_fixed_in_all_that_varies() -> None:
    tried = list(trials(5, RUN, datetime.now(UTC)))
    assert tried[0] == Conditions(hash_seed=1, seed=5, clock=RUN.timestamp())
    assert tried[1].shuffle == 1
    assert tried[2].shuffle == -1
    assert all(each.hash_seed is not None and each.seed is not None for each in tried)
    assert len({each.hash_seed for each in tried}) == len(tried)
    assert all(in_words(each) for each in tried)


async def test_cis_names_are_found_below_folders() -> None:
    ids = [VerdictId("pkg/tests/test_a.py::test_b"), VerdictId("tests/test_a.py::test_c")]
    assert reported_in(["tests/test_a.py::test_b"], ids) == {"pkg/tests/test_a.py::test_b"}
    assert reported_in(["sts/test_a.py::test_c", "test_b"], ids) == frozenset()


@pytest.mark.parametrize(("red", "runs", "length"), [(1, 2, 5), (9, 10, 3), (1, 10, 10), (1, 4, 10)])
async def test_a_series_is_as_long_as_makes_luck_unlikely(red: int, runs: int, length: int) -> None:
    found = Flakiness((VerdictId("a"),), red, runs, "unknown")
    assert series(found, 50) == (Conditions(),) * length
    assert len(series(found, 0)) == 3


async def test_a_series_has_what_made_it_red_first_and_others_like_it() -> None:
    under = Conditions(shuffle=-1)
    made = series(Flakiness((VerdictId("a"),), 1, 2, "order", (), (under,)), 4)
    assert made[:2] == (under, Conditions(shuffle=1))
    assert len(set(made)) == 4
