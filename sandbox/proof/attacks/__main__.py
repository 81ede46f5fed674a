"""Reads on standard input what was planted and which attacks are wanted; prints a line of JSON for each."""

import json
import sys

from selfheal_proof import environment, files, kernel, limits, neighbours, network, processes, rights  # noqa: F401 - they register
from selfheal_proof.trying import ATTACKS


def main():
    if len(sys.argv) == 3:
        neighbours.stay(sys.argv[1], float(sys.argv[2]))
        return
    planted = json.load(sys.stdin)
    for name in planted["attacks"]:
        try:
            held, saw = ATTACKS[name](planted)
        except Exception as error:  # one that breaks is told, and the others are still tried
            held, saw = False, "the attack broke: %s: %s" % (type(error).__name__, error)
        print(json.dumps({"attack": name, "held": held, "saw": saw}), flush=True)
