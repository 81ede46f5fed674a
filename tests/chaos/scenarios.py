"""The scenarios, as values: what is done to whom and when, and under which setting. What must come of it is always the same
(`judge`): nothing acknowledged is lost, nothing is there twice, nothing is left.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from tests.chaos import crowds, kills, outages
from tests.chaos.outages import Outage, outage
from tests.chaos.stage import DEFAULTS, Setting, Stage

Act = Callable[[Stage, str], Awaitable[None]]
"""Makes repositories under names that begin with the second argument, breaks them, and deals the blows."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`heads`: red commits that must have been taken in the end. `brief`: belongs to what every test run repeats. `alone`:
    means little while other scenarios use the machine."""

    name: str
    what: str
    act: Act
    heads: int = 1
    setting: Setting = field(default_factory=Setting)
    brief: bool = False
    alone: bool = False


def _step(step: str, *, brief: bool = False, defaults: bool = False) -> Scenario:
    setting = Setting(DEFAULTS) if defaults else Setting()
    name = f"kill-{step}{'-defaults' if defaults else ''}"
    return Scenario(
        name, f"SIGKILL the worker as it begins to {step}", partial(kills.in_step, step), setting=setting, brief=brief
    )


def _request(
    name: str, method: str, path: str, when: Literal["before", "after"] = "after", after: tuple[str, str] | None = None
) -> Scenario:
    moment = "which is never served" if when == "before" else "after it took effect, before it is answered"
    act = partial(kills.at_request, method, path, when, after=after)
    return Scenario(f"kill-{name}", f"SIGKILL the worker at {method} {path}, {moment}", act)


KILLS = (
    Scenario(
        "kill-claimed",
        "SIGKILL the worker at the first thing that it asks, once it has claimed the attempt",
        partial(kills.at_request, "*", "*", "before", by_command=False),
    ),
    _request("permission", "GET", "collaborators/*"),
    _request("reaction", "POST", "issues/comments/*/reactions"),
    _request("check-run", "POST", "check-runs"),
    _step("gather"),
    _request("tarball", "GET", "tarball/*"),
    *(_step(step) for step in ("unpack", "install")),
    _step("reproduce", brief=True),
    *(_step(step) for step in ("localize", "propose", "verify", "prove", "report")),
    _request("tree", "POST", "git/trees"),
    _request("commit", "POST", "git/commits"),
    _request("ref-before", "POST", "git/refs", "before"),
    _request("ref", "POST", "git/refs"),
    _request("pull-before", "POST", "pulls", "before"),
    _request("pull", "POST", "pulls"),
    _request("conclusion", "PATCH", "check-runs/*", after=("POST", "pulls")),
    _request("comment", "POST", "issues/*/comments"),
    Scenario(
        "kill-reconciling",
        "SIGKILL the worker that finds a red run without a webhook, before it is taken up",
        kills.while_reconciling,
    ),
    _step("propose", defaults=True),
)


def _outage(name: str, what: str, of: Outage, seconds: float, setting: Setting | None = None) -> Scenario:
    return Scenario(name, what, partial(outage, of, seconds), 2, setting or Setting())


_REDIS = Setting(redis=True)
_REDIS_DEFAULTS = Setting(DEFAULTS, redis=True)
OUTAGES = (
    _outage("redis-flushed", "FLUSHALL twice a second for 10 s", outages.redis_flushed, 10, _REDIS),
    _outage("redis-killed", "SIGKILL Redis; a new, empty one after 15 s", outages.redis_killed, 15, _REDIS),
    _outage("redis-frozen", "SIGSTOP Redis for 20 s", outages.redis_frozen, 20, _REDIS),
    _outage("redis-killed-defaults", "SIGKILL Redis; a new, empty one after 45 s", outages.redis_killed, 45, _REDIS_DEFAULTS),
    _outage("redis-frozen-defaults", "SIGSTOP Redis for 45 s", outages.redis_frozen, 45, _REDIS_DEFAULTS),
    _outage("embedded-redis-killed", "SIGKILL the embedded Redis", outages.embedded_redis(signal.SIGKILL), 1),
    _outage("embedded-redis-frozen", "SIGSTOP the embedded Redis for ever", outages.embedded_redis(signal.SIGSTOP), 1),
    _outage("sqlite-locked", "another process holds SQLite's write lock for 10 s", outages.database_locked, 10),
    _outage("github-502", "GitHub answers everything with 502 for 20 s", outages.github_away, 20),
    _outage("sqlite-locked-defaults", "SQLite locked for 10 s", outages.database_locked, 10, Setting(DEFAULTS)),
    _outage("postgres-stopped", "stop PostgreSQL for 10 s", outages.postgres_stopped, 10, Setting(postgres=True)),
    _outage("postgres-killed", "kill PostgreSQL for 10 s", outages.postgres_killed, 10, Setting(postgres=True)),
    _outage(
        "postgres-stopped-defaults", "stop PostgreSQL for 45 s", outages.postgres_stopped, 45, Setting(DEFAULTS, postgres=True)
    ),
    _outage("disk-full", "no byte is left in the data folder for 15 s", outages.disk_full, 15, Setting(disk=96)),
)
OTHERS = (
    Scenario("github-limits", "secondary rate limits (403 and 429) on the way", outages.limited),
    Scenario("token-expires", "every token expires in the middle, twice", outages.tokens_expire),
    Scenario(
        "worker-frozen",
        "SIGSTOP the worker between looking and writing, SIGCONT when another goes on",
        outages.worker_frozen,
        brief=True,
    ),
    Scenario("web-killed", "SIGKILL the web process with a delivery in its hands, five times", crowds.web_killed, 5),
    Scenario("web-restarted", "SIGTERM the web process and start it again, twice", crowds.web_restarted, 2),
    Scenario(
        "storm",
        "1,000 different deliveries, each three times, shuffled, 32 at a time",
        partial(crowds.storm, 1000, 12),
        12,
        alone=True,
    ),
    Scenario("burst", "120 different deliveries, each three times, shuffled", partial(crowds.storm, 120, 3), 3),
    Scenario(
        "workers-share",
        "the same work for one, two and four workers",
        partial(crowds.shared, 8),
        24,
        Setting({**DEFAULTS, "SELFHEAL_WORKER_JOBS": "1"}, workers=1, redis=True, postgres=True),
        alone=True,
    ),
)
SCENARIOS = (*KILLS, *OTHERS[:-1], *OUTAGES, *OTHERS[-1:])
