"""A local E2B for tests: its control plane and its guest agent on one port of 127.0.0.1, machines that are really run.

Spoken to by the unmodified SDK over real sockets. A machine is a folder with a network of its own, and each of its commands a
bubblewrap in it, as root. What it cannot show: a kernel of its own, and memory that is bounded, paused or copied as a whole.
"""

from tests.standins.e2b.faults import Fault
from tests.standins.e2b.server import E2B

__all__ = ["E2B", "Fault"]
