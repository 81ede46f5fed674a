"""What is decisive has to be shown: not having tried it is no proof."""

from __future__ import annotations

import pytest

from sandbox.proof.findings import ATTACKS, DECISIVE, broken, finding


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_decisive_and_was_not_tried_does_not_hold(name: str) -> None:
    told = finding(name, held=None, saw="there was nothing to try it with")
    assert told.is_decisive == (ATTACKS[name].part in DECISIVE)
    assert told.status == ("failed" if told.is_decisive else "skipped")
    assert bool(told.fix) == told.is_decisive


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_that_breaks_is_no_hole_and_no_protection(name: str) -> None:
    told, hole = broken(name, "OSError: no /proc"), finding(name, held=False, saw="")
    assert (told.status, told.is_decisive) == (hole.status, hole.is_decisive)
    assert told.seen == "could not be tried: OSError: no /proc"
    assert told.fix.startswith("fix what prevented the test")
