"""Which believed causes a failed change speaks against, so that they are never tried again; `reflect` collects them. Pure.

A change that left the failure exactly as it was, or the second one that failed for the same cause, refutes it. One that changed
the failure was near: its cause may still be right.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.alike import alike
from agent.contract.proposal import Diagnosis


def causes_left(diagnosis: Diagnosis, refuted: Sequence[str]) -> tuple[str, ...]:
    """What may still be the cause, likeliest first."""
    causes = (diagnosis.cause, *diagnosis.hypotheses)
    return tuple(cause for cause in causes if not any(alike(cause, each) for each in refuted))
