"""SIGKILL for the worker, at a point of the story; a supervisor starts another one at once.

A blow at a request falls while that very request waits for its answer. One in a step falls where the timeline's last word is,
read once the worker is dead: where that is another step, or the story is over, it is tried over another repository.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Literal

from tests.chaos.stage import PATIENCE, Missed, Stage

_BLOWS = 6  # before a step counts as one that cannot be met


async def in_step(step: str, stage: Stage, name: str) -> None:
    met: list[str | None] = []
    while len(met) < _BLOWS:
        repository = await stage.repository(f"{name}-{len(met) + 1}")
        await stage.turns_red(repository)
        await stage.until(f"the attempt begins to {step}", partial(stage.has_begun, repository, step))
        pid = await stage.victim(repository)
        if pid is None:
            met.append("nobody")
            continue
        await stage.kill_worker(repository, pid)
        met.append(await stage.last_step(repository))
        await stage.service.start_worker()
        if met[-1] == step:
            break
    if met != [step]:
        stage.notes.append(f"blows fell in {', '.join(map(str, met))}")
    if met[-1] != step:
        raise Missed(f"no blow fell in {step}")


async def while_reconciling(stage: Stage, name: str) -> None:
    """No webhook of a red run comes. The worker that finds it dies before it is taken up; the next one finds it again.

    Then the webhooks are sent after all, which must not double it.
    """
    repository = await stage.repository(name)
    await stage.service.start_worker()  # each looks soon after its start
    await stage.until("a worker has found the repository", partial(stage.is_known, repository))
    stage.github.deliver_to(None)
    sha = await stage.turns_red(repository)
    await stage.github.settled()
    for run in stage.github.runs(repository):
        run.updated -= timedelta(minutes=5)  # else a look would wait for its webhook
    done = stage.kill_at(repository, "GET", "git/ref/heads/main", "after")
    await stage.service.start_worker()
    try:
        async with asyncio.timeout(PATIENCE):
            await done.wait()
    except TimeoutError:
        raise Missed(f"no worker found that {sha} is red") from None
    await stage.service.start_worker()
    await stage.until("it is taken up", partial(stage.is_claimed, repository))
    stage.github.deliver_to(f"{stage.service.url}/webhooks/github")
    stage.notes.append(f"{await stage.redeliver()} webhooks were sent late")


async def at_request(
    method: str,
    path: str,
    when: Literal["before", "after"],
    stage: Stage,
    name: str,
    after: tuple[str, str] | None = None,
    *,
    by_command: bool = True,
) -> None:
    """`after`: only once this other request, that creates something, was carried out. Without `by_command` a red run asks."""
    repository = stage.full_name(name)
    line = None if after is None else f"{after[0]} /repos/{repository}/{after[1]} > 201"
    done = stage.kill_at(repository, method, path, when, line)  # first of all: the story is fast
    if by_command:
        await stage.asked(name)
    else:
        await stage.turns_red(await stage.repository(name))
    try:
        async with asyncio.timeout(PATIENCE):
            await done.wait()
    except TimeoutError:
        raise Missed(f"there was no {method} {path}") from None
    await stage.service.start_worker()
