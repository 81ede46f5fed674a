"""Heal a folder whose tests fail, without a model. The folder itself is not changed: the repair is a value."""

import sys

from agent import heal_sync
from agent.contract.outcome import Repair
from agent.edits.changes import diff

found = heal_sync(sys.argv[1])
print(diff(found.edits) if isinstance(found, Repair) else f"Not healed: {found.reason} {found.next_step}")
