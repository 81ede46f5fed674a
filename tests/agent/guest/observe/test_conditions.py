"""What a run does not leave to chance is as it was asked for, seen by real tests from inside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from agent.checks.runner import Runner
from agent.contract.verdicts import Check, CheckRun, Conditions, Reader
from agent.guest.observe.conditions import ordered
from sandbox.base import Sandbox
from tests.agent.conftest import Repository

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEW_YEAR = datetime(2031, 12, 31, 23, 59, 58, tzinfo=UTC).timestamp()
NAMES = ["a.py::test_1", "a.py::test_2", "a.py::C::test_1", "a.py::C::test_2[x::y]", "b.py::test_1"]


@pytest.fixture
def under(sandbox: Sandbox, repository: Repository):  # type: ignore[no-untyped-def]
    runner = Runner(sandbox)

    async def run(
        files: Mapping[str, str], *conditions: Conditions, command: str = "pytest -q", reader: Reader = "pytest"
    ) -> CheckRun:
        return await runner.run(await repository(files), Check("tests", command, reader, conditions=conditions), timeout=60)

    return run


async def test_the_same_number_is_the_same_order_whatever_runs_beside() -> None:
    first = ordered(NAMES, 3)
    for names in permutations(NAMES):
        assert ordered(names, 3) == first
    assert ordered(NAMES, -3) == first[::-1]
    assert [name for name in first if name != NAMES[1]] == ordered([name for name in NAMES if name != NAMES[1]], 3)
    assert len({tuple(ordered(NAMES, seed)) for seed in range(1, 20)}) > 4


async def test_what_is_set_up_together_stays_together() -> None:
    for seed in range(1, 10):
        files = [name.partition("::")[0] for name in ordered(NAMES, seed)]
        assert files == sorted(files, reverse=files[0] == "b.py")
        in_class = ["::C::" in name for name in ordered(NAMES, seed) if name.startswith("a.py")]
        assert sum(one != other for one, other in pairwise(in_class)) <= 2


ORDER = """
import pathlib
def note(name):
    with pathlib.Path(__file__).with_name("order.txt").open("a") as file:
        file.write(name + " ")
"""


@pytest.mark.parametrize("reader", ["pytest", "unittest"])
async def test_tests_run_in_the_order_that_is_asked_for(sandbox: Sandbox, repository: Repository, reader: Reader) -> None:
    body = "".join(f"    def test_{n}(self): note('{n}')\n" for n in range(6))
    files = {"test_it.py": f"import unittest\n{ORDER}\nclass Tests(unittest.TestCase):\n{body}"}
    workspace = await repository(files)
    command = "pytest -q" if reader == "pytest" else "python -m unittest"
    check = Check("tests", command, reader, conditions=(Conditions(shuffle=5), Conditions(shuffle=-5), Conditions()))
    run = await Runner(sandbox).run(workspace, check, timeout=60)
    assert len(run.green) == 6, run
    noted = (await workspace.read("order.txt")).decode().split()
    wanted = [id_[-1] for id_ in ordered(run.green, 5)]
    assert wanted != sorted(wanted)
    assert noted == [*wanted, *wanted[::-1], *sorted(wanted)]


@pytest.mark.parametrize(("command", "reader"), [("pytest -q", "pytest"), ("python -m unittest", "unittest")])
async def test_seeds_make_chance_repeat_itself(under, command: str, reader: Reader) -> None:  # type: ignore[no-untyped-def]
    files = {
        "test_it.py": """
import random, unittest
class Tests(unittest.TestCase):
    def test_one(self): raise AssertionError("%.9f %s" % (random.random(), hash("x")))
    def test_two(self): raise AssertionError("%.9f %s" % (random.random(), hash("x")))
"""
    }

    async def said(*conditions: Conditions) -> list[str]:
        run = await under(files, *conditions, command=command, reader=reader)
        return [failure.message.partition(": ")[2] for failure in run.failures]

    one = await said(Conditions(seed=7, hash_seed=1))
    assert one[0] == one[1]
    assert await said(Conditions(seed=7, hash_seed=1)) == one
    other_seed, other_hash = (await said(Conditions(seed=8, hash_seed=1)))[0], (await said(Conditions(seed=7, hash_seed=2)))[0]
    drawn, hashed = one[0].split()
    assert other_seed.split()[0] != drawn
    assert other_seed.split()[1] == hashed
    assert other_hash.split()[0] == drawn
    assert other_hash.split()[1] != hashed


CLOCK = """
import copy, datetime, pickle, time
from datetime import date, datetime as moment, timedelta, timezone

def test_dates():
    assert date.today() == moment.now().date() and date.today().year >= 2031
    assert moment.utcnow().year in (2031, 2032) and moment.now(timezone.utc).year in (2031, 2032)
    assert time.gmtime().tm_year in (2031, 2032) and time.strftime("%Y") in ("2031", "2032")
    assert str(time.gmtime().tm_year) in time.asctime(time.gmtime()) and time.ctime()[-4:] in ("2031", "2032")
    assert abs(time.time() - moment.now().timestamp()) < 1 and abs(time.time_ns() / 1e9 - time.time()) < 1
    assert abs(time.clock_gettime(time.CLOCK_REALTIME) - time.time()) < 1

def test_it_goes_on():
    before = time.time()
    time.sleep(0.05)
    assert 0.04 < time.time() - before < 5
    assert time.monotonic() < 10**9

def test_objects_are_as_ever():
    now = moment.now(timezone.utc)
    assert isinstance(now, moment) and isinstance(now, date) and isinstance(moment.min, moment)
    assert isinstance(now.date(), date) and not isinstance(now.date(), moment)
    assert issubclass(moment, date) and not issubclass(date, moment)
    assert type(now + timedelta(1)) is type(now) is moment and now - now == timedelta(0)
    assert pickle.loads(pickle.dumps(now)) == copy.deepcopy(now) == now
    assert pickle.loads(pickle.dumps(date.today())) == date.today()
    assert repr(moment(2020, 1, 2)) == "datetime.datetime(2020, 1, 2, 0, 0)"
    assert repr(date(2020, 1, 2)) == "datetime.date(2020, 1, 2)"
    assert moment.strptime("2020-01-02", "%Y-%m-%d") == moment.fromisoformat("2020-01-02") == moment(2020, 1, 2)
    assert moment.fromtimestamp(0, timezone.utc).year == 1970 and date(2020, 1, 2) < date.today()
    assert str(moment(2020, 1, 2)) == "2020-01-02 00:00:00" and f"{date(2020, 1, 2):%d}" == "02"
    assert {moment(2020, 1, 2): 1}[datetime.datetime(2020, 1, 2)] == 1
    class Mine(moment): pass
    assert isinstance(Mine(2020, 1, 2), moment) and not isinstance(now, Mine) and not issubclass(moment, Mine)
"""


@pytest.mark.long
async def test_the_clock_is_the_one_that_is_asked_for(under) -> None:  # type: ignore[no-untyped-def]
    files = {"test_clock.py": CLOCK}
    run = await under(files, Conditions(clock=NEW_YEAR, timezone="UTC"))
    assert (run.red, len(run.green)) == (frozenset(), 3), run.failures
    assert run.seconds < 30
    assert max(run.durations.values()) < 5, "the runner's own clock is not shifted"
    assert (await under(files)).red == {"test_clock.py::test_dates"}


@pytest.mark.parametrize("name", ["freezegun", "time_machine"])
async def test_where_a_package_sets_the_clock_it_is_not_set(name: str, tmp_path: Path) -> None:
    """freezegun derives a class with a metaclass of its own from the real one."""
    (tmp_path / f"{name}.py").write_text(
        "import datetime\nclass Kind(type): pass\nclass Frozen(datetime.datetime, metaclass=Kind): pass\n"
    )
    script = (
        "from agent.guest.observe.conditions import set_clock; print(set_clock(2e9))\n"
        f"import {name}, time; assert time.time() < 1.99e9"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).resolve().parents[4]}"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"the clock cannot be set because {name.replace('_', '-')} is installed")


async def test_midnight_comes_in_the_zone_that_is_asked_for(under) -> None:  # type: ignore[no-untyped-def]
    files = {"test_it.py": "import datetime\ndef test_it(): assert datetime.date.today().year == 2032\n"}
    assert not (await under(files, Conditions(clock=NEW_YEAR, timezone="<+14>-14"))).red
    assert (await under(files, Conditions(clock=NEW_YEAR, timezone="<-12>12"))).red


async def test_unittest_has_the_clock_too(under) -> None:  # type: ignore[no-untyped-def]
    body = "class T(unittest.TestCase):\n    def test(self): assert time.gmtime().tm_year > 2030\n"
    files = {"test_it.py": f"import time, unittest\n{body}"}
    run = await under(files, Conditions(clock=NEW_YEAR), command="python -m unittest", reader="unittest")
    assert len(run.green) == 1, run


@pytest.mark.long
async def test_a_run_under_several_conditions_is_red_where_one_of_them_is(under) -> None:  # type: ignore[no-untyped-def]
    files = {
        "test_it.py": "import os\ndef test_odd(): assert int(os.environ['PYTHONHASHSEED']) % 2\ndef test_even(): assert True\n"
    }
    run = await under(files, Conditions(hash_seed=1), Conditions(hash_seed=2), Conditions(hash_seed=3))
    assert run.red == {"test_it.py::test_odd"}
    assert run.green == {"test_it.py::test_even"}
    assert [failure.id for failure in run.failures] == ["test_it.py::test_odd"]
    assert run.exit_code == 1
    assert not (await under(files, Conditions(hash_seed=1), Conditions(hash_seed=3))).red
