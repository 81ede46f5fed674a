"""Messages from forks that run code under test."""

import os
import time

from agent.guest.trial.forks import Fork, Write


def test_a_message_that_is_there_is_read_although_there_is_no_time_to_wait() -> None:
    reader, writer = os.pipe()

    def work(write: Write) -> None:
        write("here")
        os.write(writer, b".")
        time.sleep(30)

    fork = Fork(work)
    try:
        os.read(reader, 1)
        assert [fork.receive(time.monotonic() - 1) for _ in range(2)] == ["here", None]
        assert not fork.is_closed
    finally:
        fork.end()
        os.close(reader)
        os.close(writer)
