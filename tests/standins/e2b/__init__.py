"""A local E2B for tests: its control plane and its guest agent on one port of 127.0.0.1, machines that are really run.

Spoken to by the unmodified SDK over real sockets. A machine is a folder, and each of its commands a bubblewrap in it, as root
where the tests run as root. What it cannot show: a kernel of its own, memory that is snapshotted, and a network that is closed
for commands that were started while it was open.
"""

from tests.standins.e2b.faults import Fault
from tests.standins.e2b.server import E2B

__all__ = ["E2B", "Fault"]
