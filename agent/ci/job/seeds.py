"""The seed of chance that a run in CI had, as its log tells it."""

from __future__ import annotations

import re

# pytest-randomly and others say with which option a run is repeated; programs of one's own say "random seed: 7".
_SEED = re.compile(r"(?:--randomly-seed[= ]|\brandom[ _-]?seed(?: is| set to|:| =|=) ?)(\d{1,10})\b", re.IGNORECASE)


def told_seed(log: str) -> int | None:
    """The first one; None where the log tells none."""
    found = _SEED.search(log)
    return int(found.group(1)) if found else None
