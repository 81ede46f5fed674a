"""What is not left to chance in this process of tests: their order, the seed of `random`, the clock. Runs before their code.

The hash seed and the time zone are variables of the environment, and are set from outside.
"""

import random
import sys

from . import clock
from .ordering import ordered


class Conditions(object):
    def __init__(self, sender):
        told = sender.conditions
        self.shuffle, self.seed = told["shuffle"], told["seed"]
        if told["clock"] is not None:
            problem = clock.install(told["clock"])
            if problem:
                sender.send("note", text=problem)
        self.sow()

    def sow(self):
        """Before each test, so that what one draws does not depend on what the others drew."""
        if self.seed is None:
            return
        random.seed(self.seed)
        numpy = sys.modules.get("numpy.random")
        if numpy is not None and hasattr(numpy, "seed"):
            numpy.seed(self.seed % 2**32)

    def ordered(self, tests, name):
        """The tests as `shuffle` has it; those of one name stay together."""
        tests = list(tests)
        if self.shuffle is None:
            return tests
        known = {}
        for test in tests:
            known.setdefault(name(test), []).append(test)
        return [test for each in ordered(known, self.shuffle) for test in known[each]]
