"""Checks the GitHub App: credentials, permissions, events, installations, and this machine's clock."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import httpx

from agent.models.values import is_loopback
from app.assembly import github_of
from app.cli.doctor.checks import Check, Status
from app.clock import Clock
from app.github.client import GitHub
from app.github.download_address import has_proxy, requests_for
from app.github.errors import BadCredentials, GitHubError, NotFound, Unavailable, UnsafeDownload
from app.github.retries import RetryPolicy
from app.github.types import PUBLISHING, READING, RERUNNING, Access, AppFacts, InstallationFacts, has_permission
from app.settings import PREFIX, Settings, SettingsError

PATIENCE = RetryPolicy(tries=2, first_delay=0.2, longest_delay=0.5, longest_rate_limit=1.0, timeout=6.0)
INSIDE = ("localhost", "127.0.0.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254")
SKEW = 30.0  # seconds; GitHub rejects tokens issued more than a minute ahead of its clock
CONSEQUENCES: Mapping[str, str] = {
    "actions": "cannot see failing workflows of GitHub Actions or their logs; only other CI services start attempts",
    "checks": "cannot show a check run on the commit or see failures of other CI services",
    "contents": "cannot read the code or commit a repair",
    "issues": "cannot comment, so nobody learns why there is no repair",
    "metadata": "cannot see the repository",
    "pull_requests": "cannot open pull requests",
    "statuses": "cannot see failures of CI services that set commit statuses, such as Jenkins",
}
EVENTS: Mapping[str, str] = {
    "workflow_run": "failing GitHub Actions workflows go unnoticed",
    "check_run": "failures of other CI services go unnoticed",
    "check_suite": "failures of other CI services go unnoticed",
    "issue_comment": "commands in comments, such as /heal, are ignored",
    "pull_request": "merged and closed pull requests are not recorded",
    "status": "failures of CI services that set commit statuses go unnoticed",
}
_LATER = {"statuses", "status"}  # Apps made for earlier versions lack these, and work without them
_NO_WORKFLOWS = (
    "without workflows write, a repair of a branch with other workflow files than the default branch is only a patch"
)


async def check_github(settings: Settings, clock: Clock) -> AsyncIterator[Check]:
    try:
        github = github_of(settings, PATIENCE)
    except SettingsError as error:
        fix = "create the App, or open its page on GitHub, to get its id and a private key"
        if isinstance(error.__cause__, OSError):  # the key's file
            file = settings.github_private_key_file
            fix = f"make {file} readable for user {os.geteuid()}, or correct {PREFIX}GITHUB_PRIVATE_KEY_FILE"
        yield Check("github", "credentials", "failed", str(error), fix)
        return
    async with github:
        try:
            github_time = await github.time()
        except GitHubError as error:
            fix = f"check {PREFIX}GITHUB_API_URL, and that this machine can reach it (for a proxy, set HTTPS_PROXY)"
            yield Check("github", "reachable", "failed", f"{settings.github_api_url}: {error}", fix)
            return
        yield Check("github", "reachable", "ok", f"{settings.github_api_url} answers")
        ahead = (clock.now() - github_time).total_seconds() if github_time is not None else 0.0
        if abs(ahead) > SKEW:
            seen = f"this machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} GitHub's"
            fix = "set the clock (timedatectl set-ntp true)"
            yield Check("github", "clock", "failed", f"{seen}, so GitHub rejects its tokens", fix)
        else:
            yield Check("github", "clock", "ok", f"{abs(ahead):.0f} s from GitHub's")
        yield await _downloads(settings)
        async for check in _app_checks(github, settings):
            yield check


async def _downloads(settings: Settings) -> Check:
    """Check that a redirect of GitHub to this machine, or to a cloud's metadata, would not be followed, however it is spelled.

    That depends on the resolver and the settings. No request is sent.
    """
    own, hosts, timeout = (
        httpx.URL(settings.github_api_url).host,
        settings.github_download_hosts,
        httpx.Timeout(PATIENCE.timeout),
    )
    reached = []
    for host in INSIDE:
        with suppress(UnsafeDownload, Unavailable):
            await requests_for(f"https://{host}/", settings.github_api_url, hosts, timeout)
            reached.append(host)
    if reached and not is_loopback(own):
        fix = f"remove what names this machine or its network from {PREFIX}GITHUB_DOWNLOAD_HOSTS"
        return Check("github", "downloads", "failed", f"redirects to {', '.join(reached)} would be followed", fix)
    proxied = "; the proxy decides about names that only it can resolve" if has_proxy(httpx.URL("https://logs.example")) else ""
    return Check("github", "downloads", "ok", f"only from {', '.join((own, *hosts))} and public addresses{proxied}")


async def _app_checks(github: GitHub, settings: Settings) -> AsyncIterator[Check]:
    try:
        facts = await github.itself()
        installations = await github.installations()
    except (BadCredentials, NotFound) as error:
        fix = (
            f"compare {PREFIX}GITHUB_APP_ID with the App ID on the App's page; if the key in {PREFIX}GITHUB_PRIVATE_KEY_FILE "
            "is not listed there, generate a new one (Private keys → Generate)"
        )
        yield Check("github", "credentials", "failed", f"GitHub rejects App {github.app_id} with this key: {error}", fix)
        return
    except GitHubError as error:
        yield Check("github", "credentials", "failed", str(error), "try again later; see githubstatus.com for outages")
        return
    yield Check("github", "credentials", "ok", f"App {facts.name} ({facts.url}), valid key")
    needed = _needed(settings)
    where = f"grant it at {facts.permissions_page} and accept it in each installation"
    missing = [(name, access) for name, access in needed.items() if not has_permission(facts.permissions, name, access)]
    for name, access in missing:
        seen = f"needs {access}, has {facts.permissions.get(name, 'none')}: {_consequence(name, access)}"
        yield Check("github", f"permission {name}", _severity(name), seen, where)
    if not missing:
        has = ", ".join(f"{name} {access}" for name, access in sorted(needed.items()))
        lacks = "" if has_permission(facts.permissions, "workflows", "write") else f"; {_NO_WORKFLOWS}"
        yield Check("github", "permissions", "ok", f"{has}{lacks}")
    unsubscribed = [event for event in EVENTS if event not in facts.events]
    for event in unsubscribed:
        fix = f"subscribe to it at {facts.permissions_page} (Subscribe to events)"
        yield Check("github", f"event {event}", _severity(event), f"not subscribed: {EVENTS[event]}", fix)
    if not unsubscribed:
        yield Check("github", "events", "ok", ", ".join(EVENTS))
    for check in _installed(facts, installations, needed):
        yield check


def _installed(facts: AppFacts, installations: tuple[InstallationFacts, ...], needed: Mapping[str, Access]) -> list[Check]:
    if not installations:
        return [Check("github", "installations", "warning", "the App is not installed anywhere", f"install it: {facts.url}")]
    asked = {name: access for name, access in needed.items() if has_permission(facts.permissions, name, access)}
    problems = []
    for one in installations:
        if one.suspended_at:
            problems.append(Check("github", one.account, "warning", "installation suspended", f"resume it at {one.url}"))
            continue
        lacks = [name for name, access in sorted(asked.items()) if not has_permission(one.permissions, name, access)]
        if lacks:
            seen = f"the installation has not accepted {', '.join(f'{name}: {asked[name]}' for name in lacks)}"
            worst = max(map(_severity, lacks), key=("warning", "failed").index)
            problems.append(Check("github", one.account, worst, seen, f"accept the new permissions at {one.url}"))
    names = ", ".join(one.account for one in installations[:5])
    return problems or [Check("github", "installations", "ok", f"installed by {names}")]


def _needed(settings: Settings) -> dict[str, Access]:
    needed: dict[str, Access] = {}
    for token in (READING, PUBLISHING, *((RERUNNING,) if settings.rerun_flaky == "once" else ())):
        for name, access in token.items():
            if needed.get(name) != "write":
                needed[name] = access
    return needed


def _severity(name: str) -> Status:
    return "warning" if name in _LATER else "failed"


def _consequence(name: str, access: Access) -> str:
    if (name, access) == ("actions", "write"):
        return f"cannot rerun failed jobs ({PREFIX}RERUN_FLAKY)"
    return CONSEQUENCES.get(name, "operations that need it fail")
