"""The App on GitHub: its credentials, what it may do, which events it gets, and whether this machine's clock is right."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping

from app.assembly import github_of
from app.cli.doctor.checks import Check
from app.clock import Clock
from app.github import BadCredentials, GitHub, GitHubError, NotFound, Patience
from app.github.types import PUBLISHING, READING, RERUNNING, Access, AppFacts, InstallationFacts
from app.settings import PREFIX, Settings, SettingsError

PATIENCE = Patience(tries=2, first_delay=0.2, longest_delay=0.5, longest_rate_limit=1.0, timeout=6.0)
SKEW = 30.0  # seconds: GitHub takes a token that was made a minute ahead of its own clock, and no more
STOPS: Mapping[str, str] = {
    "actions": "failing jobs and their logs cannot be read, so nothing is reproduced",
    "checks": "the check run on the commit cannot be shown, and failures of other CI services are not seen",
    "contents": "neither the code can be read nor the repair committed",
    "issues": "no comment can be written, so nobody is told why something was not healed",
    "metadata": "the repository is not seen at all",
    "pull_requests": "no pull request can be opened",
}
EVENTS: Mapping[str, str] = {
    "workflow_run": "failing workflows of GitHub Actions are not noticed",
    "check_run": "failures of other CI services are not noticed",
    "check_suite": "failures of other CI services are not noticed",
    "issue_comment": "commands such as /heal in a comment are not heard",
    "pull_request": "it is not learned what became of a repair",
}
_LEVELS = ("none", "read", "write", "admin")


async def look(settings: Settings, clock: Clock) -> AsyncIterator[Check]:
    try:
        github = github_of(settings, PATIENCE)
    except SettingsError as error:
        fix = "create or open the App's page on GitHub: it has both"
        if isinstance(error.__cause__, OSError):  # the key's file
            file = settings.github_private_key_file
            fix = f"put the key at {file}, readable for the user {os.geteuid()}, or correct {PREFIX}GITHUB_PRIVATE_KEY_FILE"
        yield Check("github", "credentials", "failed", str(error), fix)
        return
    async with github:
        try:
            theirs = await github.time()
        except GitHubError as error:
            fix = f"see that this machine may reach it (a proxy: HTTPS_PROXY), and that {PREFIX}GITHUB_API_URL is right"
            yield Check("github", "reachable", "failed", f"{settings.github_api_url}: {error}", fix)
            return
        yield Check("github", "reachable", "ok", f"{settings.github_api_url} answers")
        ahead = (clock.now() - theirs).total_seconds() if theirs is not None else 0.0
        if abs(ahead) > SKEW:
            seen = f"this machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} GitHub's"
            yield Check(
                "github", "clock", "failed", f"{seen}: its tokens are refused", "set the clock (timedatectl set-ntp true)"
            )
        else:
            yield Check("github", "clock", "ok", f"it differs from GitHub's by {abs(ahead):.0f} s")
        async for check in _as_the_app(github, settings):
            yield check


async def _as_the_app(github: GitHub, settings: Settings) -> AsyncIterator[Check]:
    try:
        facts = await github.itself()
        installations = await github.installations()
    except (BadCredentials, NotFound) as error:
        fix = (
            f"compare {PREFIX}GITHUB_APP_ID with the App ID on the App's page, and make a new private key there "
            f"(Private keys → Generate) if {PREFIX}GITHUB_PRIVATE_KEY_FILE is not one of its keys"
        )
        yield Check("github", "credentials", "failed", f"GitHub refuses App {github.app_id} with this key: {error}", fix)
        return
    except GitHubError as error:
        yield Check("github", "credentials", "failed", str(error), "try again later: githubstatus.com tells of outages")
        return
    yield Check("github", "credentials", "ok", f"the App is {facts.name} ({facts.url}), the key is one of its own")
    needed = _needed(settings)
    where = f"grant it at {facts.permissions_page} and accept it in each installation"
    missing = [(name, access) for name, access in needed.items() if not _has(facts.permissions, name, access)]
    for name, access in missing:
        seen = f"{name}: {access} is missing ({facts.permissions.get(name, 'none')}): {_stops(name, access)}"
        yield Check("github", f"permission {name}", "failed", seen, where)
    if not missing:
        yield Check("github", "permissions", "ok", ", ".join(f"{name} {access}" for name, access in sorted(needed.items())))
    unheard = [event for event in EVENTS if event not in facts.events]
    for event in unheard:
        fix = f"subscribe to it at {facts.permissions_page} (Subscribe to events)"
        yield Check("github", f"event {event}", "failed", f"it is not subscribed to: {EVENTS[event]}", fix)
    if not unheard:
        yield Check("github", "events", "ok", ", ".join(EVENTS))
    for check in _installed(facts, installations, needed):
        yield check


def _installed(facts: AppFacts, installations: tuple[InstallationFacts, ...], needed: Mapping[str, Access]) -> list[Check]:
    if not installations:
        return [Check("github", "installations", "warning", "the App is not installed anywhere", f"install it: {facts.url}")]
    told = []
    for one in installations:
        if one.suspended:
            told.append(Check("github", one.account, "warning", "its installation is suspended", f"resume it at {one.url}"))
            continue
        lacks = [f"{name}: {access}" for name, access in sorted(needed.items()) if not _has(one.permissions, name, access)]
        if lacks and all(_has(facts.permissions, *each.split(": ")) for each in lacks):
            seen = f"its installation has not accepted {', '.join(lacks)}"
            told.append(Check("github", one.account, "failed", seen, f"accept the new permissions at {one.url}"))
    names = ", ".join(one.account for one in installations[:5])
    return told or [Check("github", "installations", "ok", f"installed by {names}")]


def _needed(settings: Settings) -> dict[str, Access]:
    needed: dict[str, Access] = {}
    for token in (READING, PUBLISHING, *((RERUNNING,) if settings.rerun_flaky == "once" else ())):
        for name, access in token.items():
            if needed.get(name) != "write":
                needed[name] = access
    return needed


def _stops(name: str, access: Access) -> str:
    if (name, access) == ("actions", "write"):
        return f"failed jobs cannot be run again ({PREFIX}RERUN_FLAKY)"
    return STOPS.get(name, "what needs it fails")


def _has(granted: Mapping[str, str], name: str, access: str) -> bool:
    had = granted.get(name, "none")
    return had in _LEVELS and _LEVELS.index(had) >= _LEVELS.index(access)
