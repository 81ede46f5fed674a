"""Reads the canaries and the names of the attacks from standard input, and prints a line of JSON for each attack."""

from __future__ import annotations

import json
import sys

from . import kernel, limits, network, worker  # noqa: F401 - they register their attacks
from .trying import ATTACKS


def main() -> None:
    if len(sys.argv) == 3:
        network.stay(sys.argv[1], float(sys.argv[2]))
        return
    planted = json.load(sys.stdin)
    for name in planted["attacks"]:
        try:
            held, saw = ATTACKS[name](planted)
            line = {"attack": name, "held": held, "saw": saw}
        except Exception as error:  # whatever this machine lacks: the broken attack is reported, and the others still run
            line = {"attack": name, "broken": "%s: %s" % (type(error).__name__, error)}
        print(json.dumps(line), flush=True)
