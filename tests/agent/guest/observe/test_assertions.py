"""An assertion that failed in a test that passed: who swallowed it decides."""

from __future__ import annotations

import pytest

from agent.contract.verdicts import Reader
from tests.agent.conftest import RunCheck

QUIET = """\
class quiet:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return bool(error)
"""
SWALLOWED = "from quiet import quiet\n\ndef test_it():\n    with quiet():\n        assert 1 == 2\n"


async def marks(run_check: RunCheck, test: str, reader: Reader = "pytest") -> list[str]:
    run = await run_check({"quiet.py": QUIET, "test_it.py": test}, f"python -m {reader}", reader)
    assert len(run.green) == 1, run
    return [mark for mark in run.marks if "swallowed" in mark]


async def test_code_that_swallows_a_failed_assertion_is_marked(run_check: RunCheck) -> None:
    assert await marks(run_check, SWALLOWED) == [": an assertion of test_it.py::test_it failed, and the failure was swallowed"]


async def test_so_is_one_of_unittest(run_check: RunCheck) -> None:
    text = """\
import unittest
from quiet import quiet

class Tests(unittest.TestCase):
    def test_it(self):
        with quiet():
            self.assertEqual(1, 2)
"""
    assert len(await marks(run_check, text)) == 1
    assert len(await marks(run_check, text, "unittest")) == 1


@pytest.mark.parametrize(
    "body",
    [
        "assert 1 == 1",
        "with pytest.raises(AssertionError):\n        assert 1 == 2",
        "try:\n        assert 1 == 2\n    except AssertionError:\n        pass",
        "with contextlib.suppress(AssertionError):\n        assert 1 == 2",
    ],
)
async def test_what_the_test_itself_expects_is_not(run_check: RunCheck, body: str) -> None:
    assert await marks(run_check, f"import contextlib\nimport pytest\n\ndef test_it():\n    {body}\n") == []
