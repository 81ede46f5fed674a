"""The random seed of a run in CI, from its log."""

from __future__ import annotations

import re

# pytest-randomly and others print the option that repeats a run; other programs print "random seed: 7".
_SEED = re.compile(r"(?:--randomly-seed[= ]|\brandom[ _-]?seed(?: is| set to|:| =|=) ?)(\d{1,10})\b", re.IGNORECASE)


def read_seed(log: str) -> int | None:
    """The first seed in the log, or None."""
    found = _SEED.search(log)
    return int(found.group(1)) if found else None
