"""The scenarios, as values: what is done to whom and when, and under which setting. What must come of it is always the same
(`judge`): nothing acknowledged is lost, nothing is there twice, nothing is left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from tests.chaos.stage import DEFAULTS, Setting, Stage

Act = Callable[[Stage, str], Awaitable[None]]
"""Makes repositories under names that begin with the second argument, breaks them, and deals the blows."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`heads`: red commits that must have been taken in the end. `brief`: belongs to what every test run repeats."""

    name: str
    what: str
    act: Act
    heads: int = 1
    setting: Setting = field(default_factory=Setting)
    brief: bool = False


async def _kill_when_claimed(stage: Stage, name: str) -> None:
    repository = await stage.repository(name)
    await stage.turns_red(repository)
    await stage.until("the attempt is claimed", partial(stage.is_claimed, repository))
    await stage.kill_worker(repository)


async def _kill_in_step(step: str, stage: Stage, name: str) -> None:
    repository = await stage.repository(name)
    await stage.turns_red(repository)
    await stage.until(f"the attempt begins to {step}", partial(stage.has_begun, repository, step))
    await stage.kill_worker(repository)


async def _kill_at_request(
    method: str, path: str, when: Literal["before", "after"], stage: Stage, name: str, after: tuple[str, str] | None = None
) -> None:
    """`after`: only once this other request was carried out."""
    repository = await stage.asked(name)
    if after is not None:
        await stage.seen(repository, *after)
    await stage.github.settled()
    done = stage.kill_at(repository, method, path, when)
    await stage.until(f"{method} {path}", lambda: _is_set(done))


async def _is_set(event: object) -> bool:
    return bool(event.is_set())  # type: ignore[attr-defined]


def _step(step: str, *, brief: bool = False, defaults: bool = False) -> Scenario:
    setting = Setting(DEFAULTS) if defaults else Setting()
    name = f"kill-{step}{'-defaults' if defaults else ''}"
    return Scenario(
        name, f"SIGKILL the worker as it begins to {step}", partial(_kill_in_step, step), setting=setting, brief=brief
    )


def _request(
    name: str, method: str, path: str, when: Literal["before", "after"] = "after", after: tuple[str, str] | None = None
) -> Scenario:
    moment = "before it is served" if when == "before" else "after it took effect, before it is answered"
    act = partial(_kill_at_request, method, path, when, after=after)
    return Scenario(f"kill-{name}", f"SIGKILL the worker at {method} {path}, {moment}", act)


KILLS = (
    Scenario("kill-claimed", "SIGKILL the worker as soon as it has claimed the attempt", _kill_when_claimed),
    _request("permission", "GET", "collaborators/*"),
    _request("reaction", "POST", "issues/comments/*/reactions"),
    _request("check-run", "POST", "check-runs"),
    _step("gather"),
    _request("tarball", "GET", "tarball/*"),
    *(_step(step) for step in ("unpack", "install", "reproduce", "localize", "propose", "verify", "prove", "report")),
    _request("tree", "POST", "git/trees"),
    _request("commit", "POST", "git/commits"),
    _request("ref-before", "POST", "git/refs", "before"),
    _request("ref", "POST", "git/refs"),
    _request("pull-before", "POST", "pulls", "before"),
    _request("pull", "POST", "pulls"),
    _request("conclusion", "PATCH", "check-runs/*", after=("POST", "pulls")),
    _request("comment", "POST", "issues/*/comments"),
    _step("propose", defaults=True),
)
SCENARIOS = KILLS
