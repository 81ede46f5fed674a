"""What is decisive has to be shown: not having tried it is no proof."""

from __future__ import annotations

import pytest

from sandbox.proof.findings import ATTACKS, DECISIVE, finding


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_decisive_and_was_not_tried_does_not_hold(name: str) -> None:
    told = finding(name, held=None, saw="there was nothing to try it with")
    assert told.is_decisive == (ATTACKS[name].part in DECISIVE)
    assert told.status == ("failed" if told.is_decisive else "skipped")
    assert bool(told.fix) == told.is_decisive
