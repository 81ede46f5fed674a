"""What GitHub answers on an attempt's way becomes an outcome or a wait, and nothing goes on spinning there."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
import structlog
from langchain_core.runnables import RunnableConfig
from sqlalchemy import select, update

from agent.case import Case, without_a_run
from agent.contract.blobs import Blobs
from agent.contract.events import Emit, Remembered, StepStarted
from agent.contract.memory import Memory
from agent.contract.outcome import NoRepair, Outcome
from agent.contract.question import Reply
from agent.engine import Engine
from app.attempt.story import heal
from app.github.client import GitHub
from app.github.repository import Repository
from app.github.types import OPTIONAL, PUBLISHING, READING
from app.store.leases.heartbeat import LeaseLost
from app.store.leases.leases import NotificationLease
from app.store.models import BlobRow
from sandbox.base import Isolation, Limits, Sandbox, SandboxUnavailable
from tests.app.plant import HASTY, NAME, Plant
from tests.app.requests import cancel, taken
from tests.app.waiting import until
from tests.standins.github.faults import Fault
from tests.standins.github.routing import Refusal
from tests.standins.github.state import PullRequest, Ruleset
from tests.tiers import long_but
from webhooks.triggers import decide


async def test_an_attempt_waits_while_github_is_away(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.faults.status("GET", f"/repos/{NAME}/*", 502, times=20)

    await heal(attempt_id, plant.deps)

    attempt = await plant.store.attempt(attempt_id)
    assert attempt is not None
    assert (attempt.status, attempt.tries) == ("queued", 0)
    assert await plant.store.due() == []


async def test_an_attempt_waits_while_the_key_is_wrong(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.faults.status("POST", "/app/installations/*/access_tokens", 401, times=20)
    # Hours in the queue are no waiting for GitHub.
    await plant.change(attempt_id, created_at=plant.store.clock.now() - timedelta(hours=7))

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert (attempt.status, attempt.tries) == ("queued", 0)
    assert await plant.store.due() == []


async def test_the_log_tells_that_a_worker_was_stopped_in_the_middle(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    asked, stopped = asyncio.Event(), asyncio.Event()

    async def is_asked(*_: str) -> None:
        asked.set()
        await stopped.wait()

    plant.github.faults.on("GET", f"/repos/{NAME}/*", is_asked, "before")
    with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as logged:
        working = asyncio.create_task(heal(attempt_id, plant.deps))
        await asked.wait()
        working.cancel()
        await asyncio.wait({working})
    stopped.set()

    assert (await plant.attempt(attempt_id)).status == "queued"
    told = {line["event"]: line["attempt"] for line in logged if line["event"].startswith("attempt ")}
    assert told == {"attempt claimed": attempt_id, "attempt interrupted; it is queued again": attempt_id}


@pytest.mark.parametrize("name", long_but(sorted({*READING, *PUBLISHING} - {*OPTIONAL, "metadata"}), "contents"))
async def test_a_permission_that_the_app_lacks_is_named(plant: Plant, name: str) -> None:
    attempt_id = await taken(plant.store, plant.request)
    permissions = plant.github.installation("acme").permissions
    if name in PUBLISHING:
        permissions[name] = "read"
    else:
        del permissions[name]

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    lacking = f"{name}={PUBLISHING.get(name) or READING[name]}"
    assert attempt.reason == f"The App lacks a permission on GitHub: the installation does not grant {lacking}."
    shown = f"{name.replace('_', ' ').capitalize()} ({'read and write' if name in PUBLISHING else 'read-only'})"
    assert attempt.next_step == (
        f"Ask the App's owner to grant it the permission {shown}, and an owner of `acme` to accept that in the installation. "
        "Then comment `/heal`."
    )
    assert attempt.is_reported
    assert plant.shown() == ([("completed", "neutral")] if name != "checks" else [])
    assert all(lacking in run.output["summary"] for run in plant.github.check_runs(NAME))


async def test_without_the_permission_for_actions_another_ci_service_is_enough(plant: Plant) -> None:
    sha = await plant.broken()
    await plant.github.set_status(NAME, sha, "ci/jenkins", "failure")
    del plant.github.installation("acme").permissions["actions"]
    attempt_id = await taken(plant.store, replace(plant.request, source="status", head_sha=sha, title="ci/jenkins"))
    await heal(attempt_id, plant.deps)
    attempt = await plant.attempt(attempt_id)
    assert (attempt.outcome, attempt.reason) == (
        Outcome.HEALED,
        "Opened pull request #1: `a - b` becomes `a + b` in `add` (calc.py:2)",
    )


async def test_a_refusal_that_names_no_permission_asks_for_none(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.faults.refuse("POST", f"/repos/{NAME}/check-runs", 403, "Sorry. Your account was blocked.")
    await heal(attempt_id, plant.deps)
    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    path = f"POST /repos/{NAME}/check-runs"
    assert attempt.reason == f"GitHub refuses this: {path}: 403 Sorry. Your account was blocked."
    assert attempt.next_step == "Ask an admin of the repository to change the setting behind this answer, then comment `/heal`."


ARCHIVED = "Repository was archived so is read-only."
ALLOWED_ADDRESSES = (
    "Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow list enabled, "
    "and your IP address is not permitted to access this resource."
)


@pytest.mark.parametrize(
    ("words", "reason", "first_step"),
    [
        (ARCHIVED, f"{NAME} is archived, so nothing can be written there.", "Unarchive it in its settings, "),
        (ALLOWED_ADDRESSES, "The IP allow list of `acme` does not admit the server of Selfheal.", "Ask whoever runs Selfheal "),
    ],
)
async def test_a_refusal_that_people_can_end_tells_them_how(plant: Plant, words: str, reason: str, first_step: str) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.faults.refuse("*", f"/repos/{NAME}/*", 403, words, times=99)
    await heal(attempt_id, plant.deps)
    attempt = await plant.attempt(attempt_id)
    assert (attempt.outcome, attempt.reason) == (Outcome.REFUSED, reason)
    assert (attempt.next_step or "").startswith(first_step)


async def test_sets_of_permissions_are_told_as_github_means_them(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    refusal = Refusal(403, "Resource not accessible by integration").answer()
    refusal.headers["x-accepted-github-permissions"] = "contents=read,pull_requests=write; issues=write"
    plant.github.faults.waiting.append(Fault("POST", f"/repos/{NAME}/check-runs", 1, "answer", answer=refusal))
    await heal(attempt_id, plant.deps)
    sets = "Contents (read-only) and Pull requests (read and write), or Issues (read and write)"
    assert f"grant it the permission {sets}, and an owner" in ((await plant.attempt(attempt_id)).next_step or "")


async def test_a_repository_that_is_gone_ends_its_attempt(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.remove_repository(NAME)

    await heal(attempt_id, plant.deps)

    attempt = await plant.store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.CANCELLED
    assert NAME in (attempt.reason or "")


async def test_an_attempt_that_fails_for_good_closes_its_check_run(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt_id = await taken(plant.store, plant.request)

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(Engine, "heal", broken)

    await heal(attempt_id, plant.deps)

    attempt = await plant.store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.ERROR
    (run,) = plant.github.check_runs(NAME)
    assert (run.status, run.conclusion) == ("completed", "neutral")


async def test_a_commit_without_tests_is_told_so(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)

    await heal(attempt_id, plant.deps)

    attempt = await plant.store.attempt(attempt_id)
    assert attempt is not None
    assert attempt.outcome is Outcome.NOTHING_FAILED
    (run,) = plant.github.check_runs(NAME)
    assert "test:" in run.output["summary"]


async def test_a_second_command_of_a_busy_head_waits(plant: Plant) -> None:
    first = await taken(plant.store, plant.request)
    async with plant.store.lease(first, "w0"):
        plant.github.add_collaborator(NAME, "maria", "write")
        pull = await plant.github.open_pull(NAME, "main", base="old")
        comment = await plant.github.comment(NAME, pull.number, "maria", "/heal")
        command = replace(plant.request, source="comment", head_sha=None, head_branch=None, sender="maria")
        second = await taken(plant.store, replace(command, pull_number=pull.number, comment_id=comment.id))

        await heal(second, plant.deps)

        waiting = await plant.store.attempt(second)
        assert waiting is not None
        assert (waiting.status, waiting.tries) == ("queued", 0)


@pytest.mark.parametrize(
    ("status", "outcome", "conclusion"),
    [(404, Outcome.CANCELLED, "neutral"), (403, Outcome.REFUSED, "neutral"), (422, Outcome.ERROR, "neutral")],
)
async def test_what_github_ends_on_the_way_is_shown_there(plant: Plant, status: int, outcome: Outcome, conclusion: str) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.faults.status("GET", f"/repos/{NAME}/commits/*/check-runs", status)

    await heal(attempt_id, plant.deps)

    assert (await plant.attempt(attempt_id)).outcome is outcome
    assert plant.shown() == [("completed", conclusion)]
    assert await plant.store.due() == []


@pytest.mark.long
async def test_an_attempt_that_a_webhook_cancels_while_it_waits_is_told(plant: Plant) -> None:
    attempt_id = await plant.postponed()
    await cancel(plant.store, attempt_id, Outcome.SUPERSEDED, "A newer commit was pushed.")
    assert await plant.store.due() == [attempt_id]

    await heal(attempt_id, plant.deps)

    assert plant.shown() == [("completed", "neutral")]
    assert await plant.store.due() == []


async def test_an_attempt_that_is_cancelled_after_its_worker_died_is_told(plant: Plant) -> None:
    attempt_id = await plant.postponed()
    past = plant.store.clock.now() - timedelta(seconds=1)
    await plant.change(attempt_id, status="running", lease_owner="dead", lease_expires_at=past)
    await cancel(plant.store, attempt_id, Outcome.CANCELLED, "Selfheal was removed.")

    await heal(attempt_id, plant.deps)

    assert (await plant.attempt(attempt_id)).outcome is Outcome.CANCELLED
    assert plant.shown() == [("completed", "neutral")]
    assert await plant.store.due() == []


async def test_an_end_that_cannot_be_told_now_is_told_later(plant: Plant) -> None:
    attempt_id = await plant.postponed()
    await cancel(plant.store, attempt_id, Outcome.SUPERSEDED, "A newer commit was pushed.")
    plant.github.faults.status("GET", f"/repos/{NAME}/commits/*/check-runs", 502, times=2)

    await heal(attempt_id, plant.deps)

    assert plant.shown() == [("queued", None)]
    assert await plant.store.due() == []  # not before a while
    await plant.change(attempt_id, due_at=None)
    assert await plant.store.due() == [attempt_id]
    await heal(attempt_id, plant.deps)
    assert plant.shown() == [("completed", "neutral")]
    assert await plant.store.due() == []


async def test_an_end_is_told_by_one_worker_at_a_time(plant: Plant) -> None:
    attempt_id = await plant.postponed()
    await cancel(plant.store, attempt_id, Outcome.SUPERSEDED, "A newer commit was pushed.")
    async with plant.store.notification(attempt_id, "w2") as telling:
        assert await plant.store.due() == []

        await heal(attempt_id, plant.deps)

        assert plant.shown() == [("queued", None)]
        telling.retry_later(0.0)
    await heal(attempt_id, plant.deps)
    assert plant.shown() == [("completed", "neutral")]


async def test_who_may_have_lost_the_telling_writes_nothing(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt_id = await plant.postponed()
    await cancel(plant.store, attempt_id, Outcome.SUPERSEDED, "A newer commit was pushed.")

    def late(telling: NotificationLease) -> None:
        raise LeaseLost

    monkeypatch.setattr(NotificationLease, "check", late)

    with pytest.raises(LeaseLost):
        await heal(attempt_id, plant.deps)

    assert plant.shown() == [("queued", None)]
    assert not (await plant.attempt(attempt_id)).is_reported


async def test_of_a_repository_that_is_gone_nothing_is_left_to_tell(plant: Plant) -> None:
    attempt_id = await plant.postponed()
    await cancel(plant.store, attempt_id, Outcome.CANCELLED, "Selfheal was removed.")
    plant.github.remove_repository(NAME)

    await heal(attempt_id, plant.deps)

    assert await plant.store.due() == []


@pytest.mark.long
async def test_an_expired_log_does_not_keep_a_commit_from_its_repair(plant: Plant) -> None:
    workflow = "name: CI\non: [push]\njobs:\n  tests:\n    runs-on: ubuntu-latest\n    steps:\n      - run: exit 1\n"
    sha = await plant.github.push(NAME, "main", {".github/workflows/ci.yml": workflow})
    await plant.github.settled()
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=sha))
    plant.github.faults.status("GET", f"/repos/{NAME}/actions/jobs/*", 410, times=9)

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is not Outcome.CANCELLED
    steps = [getattr(stored.event, "step", "") for stored in await plant.store.timeline(attempt_id)]
    assert any("unpack" in step for step in steps)


async def test_an_archive_that_is_too_big_is_refused(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt_id = await taken(plant.store, plant.request)
    archive = Repository.archive
    monkeypatch.setattr(Repository, "archive", lambda self, ref: archive(self, ref, limit=10))

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    assert "larger than 10 bytes" in (attempt.reason or "")
    assert plant.shown() == [("completed", "neutral")]


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """A machine on which nothing can be opened."""

    retry_after: float | None

    @property
    def isolation(self) -> Isolation:
        return Isolation("full", untrusted=True)

    def open(self, label: str, limits: Limits) -> AbstractAsyncContextManager[Sandbox]:
        raise SandboxUnavailable("all slots are in use", self.retry_after)


async def test_a_full_machine_costs_no_try(plant: Plant) -> None:
    attempt_id = await taken(plant.store, plant.request)
    full = replace(plant.deps, engine=replace(plant.deps.engine, sandboxes=NoSandbox(30.0)))

    await heal(attempt_id, full)

    attempt = await plant.attempt(attempt_id)
    assert (attempt.status, attempt.tries) == ("queued", 0)
    assert await plant.store.due() == []


@pytest.mark.long
async def test_a_repair_that_could_not_be_published_is_published_without_another_run(plant: Plant) -> None:
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))
    plant.github.faults.status("POST", f"/repos/{NAME}/git/refs", 502)
    await heal(attempt_id, plant.deps)
    assert (await plant.attempt(attempt_id)).status == "queued"
    await plant.change(attempt_id, due_at=None)

    await heal(attempt_id, replace(plant.deps, engine=replace(plant.deps.engine, sandboxes=NoSandbox(None))))

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.HEALED, attempt.reason
    assert plant.shown() == [("completed", "neutral")]


RULES = {
    "Cannot create ref due to creations being restricted.": (Ruleset(restricts_creations=True), "bypass the rule"),
    "Branch name must match a given regex pattern: ^bot/": (Ruleset(branch_name="^bot/"), "`SELFHEAL_BRANCH_PREFIX`"),
    "Commit message must match a given regex pattern: ^fix: ": (Ruleset(commit_message="^fix: "), "`commit_prefix`"),
}


def shown_patch(plant: Plant) -> str:
    """The check run's text, which shows the repair that has no pull request."""
    (run,) = plant.github.check_runs(NAME)
    assert (run.status, run.conclusion, run.output["title"]) == (
        "completed",
        "neutral",
        "Repair found, but GitHub refuses the pull request: 1 failing → 1 passing",
    )
    assert "+    return a + b" in run.output["summary"]
    assert not plant.github.pull_requests(NAME)
    return str(run.output["summary"])


@pytest.mark.parametrize("rule", long_but(RULES, list(RULES)[1]))
async def test_a_repair_that_a_ruleset_refuses_is_a_patch_with_the_rule_and_its_remedy(plant: Plant, rule: str) -> None:
    plant.github.repository(NAME).ruleset, remedy = RULES[rule]
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    assert f"refuses its pull request: Repository rule violations found: {rule.rstrip('. ')}." in (attempt.reason or "")
    assert remedy in (attempt.next_step or "")
    assert remedy in shown_patch(plant)


@pytest.mark.long
async def test_a_refusal_without_a_reason_names_what_can_protect_the_branch(plant: Plant) -> None:
    plant.github.repository(NAME).protected = "selfheal/*"
    plant.github.installation("acme").permissions["workflows"] = "write"
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    remedy = "let the App bypass the branch protection rule or ruleset that matches `selfheal/…`"
    assert remedy in (attempt.next_step or "")
    assert remedy in (patch := shown_patch(plant))
    assert "GitHub refuses the pull request: Reference update failed." in patch
    assert "`SELFHEAL_BRANCH_PREFIX`" in patch
    assert any("workflows" in token.actor.permissions for token in plant.github.tokens.known.values()), "it may be for them"


async def test_a_repair_whose_pull_request_github_does_not_know_is_a_patch(plant: Plant) -> None:
    plant.github.faults.refuse("POST", f"/repos/{NAME}/pulls", 404, "Not Found", times=9)
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    words = "GitHub refuses its pull request: Pull requests cannot be opened here (404)."
    assert words in (attempt.reason or "")
    remedy = "ask an admin of the repository to turn on pull requests and to let the App write them"
    assert f"To get pull requests, {remedy}" in (attempt.next_step or "")
    assert remedy in shown_patch(plant)
    assert not any(name.startswith("selfheal/") for name in await plant.github.branches(NAME))


async def test_a_repository_that_is_gone_before_its_pull_request_ends_the_attempt(plant: Plant) -> None:
    plant.github.faults.on("POST", f"/repos/{NAME}/git/refs", lambda *_: plant.github.remove_repository(NAME))
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.CANCELLED
    assert f"{NAME} or the failing commit is gone" in (attempt.reason or "")


async def test_a_branch_named_like_our_folder_is_told(plant: Plant) -> None:
    await plant.github.push(NAME, "selfheal", {"a.txt": "A person's.\n"})
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    assert attempt.reason == ("It could not be pushed: the branch selfheal exists, so GitHub makes none below `selfheal/`.")
    assert attempt.next_step == "Remove or rename that branch, then comment `/heal`."
    (check,) = plant.github.check_runs(NAME)
    assert "return a + b" in check.output["summary"]


async def test_a_repair_that_is_submitted_too_quickly_is_published_later(plant: Plant) -> None:
    reasons = [{"resource": "PullRequest", "code": "custom", "message": "was submitted too quickly"}]
    plant.github.faults.refuse("POST", f"/repos/{NAME}/pulls", 422, "Validation Failed", reasons)
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))

    await heal(attempt_id, plant.deps)
    assert (await plant.attempt(attempt_id)).status == "queued"
    await plant.change(attempt_id, due_at=None)
    async with GitHub(plant.github.app_id, plant.github.private_key, api_url=plant.github.url, retry_policy=HASTY) as later:
        await heal(attempt_id, replace(plant.deps, github=later))

    assert (await plant.attempt(attempt_id)).outcome is Outcome.HEALED
    assert len(plant.github.pull_requests(NAME)) == 1


async def test_a_refusal_that_is_no_rule_blames_none(plant: Plant) -> None:
    reasons = [{"resource": "PullRequest", "code": "custom", "message": "Pull requests are restricted"}]
    plant.github.faults.refuse("POST", f"/repos/{NAME}/pulls", 422, "Validation Failed", reasons)
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))

    await heal(attempt_id, plant.deps)

    assert (
        "To get pull requests, ask an admin of the repository to change the setting behind GitHub's answer above."
        in shown_patch(plant)
    )


@pytest.mark.long
async def test_a_repair_that_follows_the_ruleset_becomes_a_pull_request(plant: Plant) -> None:
    rules = Ruleset(branch_name="^bot/", commit_message="^fix: ", requires_signatures=True)
    plant.github.repository(NAME).ruleset = rules
    sha = await plant.broken("commit_prefix: 'fix:'\n")
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=sha))

    await heal(attempt_id, replace(plant.deps, branch_prefix="bot/"))

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.HEALED, attempt.reason
    (pull,) = plant.github.pull_requests(NAME)
    assert (pull.head_branch, pull.title[:10]) == (f"bot/main-{sha[:8]}", "fix: Heal ")


async def red_with_other_workflows(plant: Plant) -> str:
    """An attempt on a branch that `main` has not, with a workflow file that `main` has not."""
    changed = {".github/workflows/new.yml": "on: push\njobs: {}\n", "calc.py": "def add(a, b):\n    return a - b  # no\n"}
    sha = await plant.github.push(NAME, "feature", changed, base=await plant.broken())
    return await taken(plant.store, replace(plant.request, head_sha=sha, head_branch="feature"))


@pytest.mark.long
@pytest.mark.parametrize("is_private", [False, True])
async def test_a_branch_with_other_workflow_files_needs_a_permission(plant: Plant, is_private: bool) -> None:
    plant.github.repository(NAME).private = is_private
    attempt_id = await red_with_other_workflows(plant)

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.REFUSED
    words = "404 Not Found." if is_private else "Resource not accessible by integration."
    assert words in (attempt.reason or "")
    assert "the permission Workflows" in shown_patch(plant)


@pytest.mark.long
async def test_the_permission_for_workflow_files_is_used_where_it_is_granted_and_needed(plant: Plant) -> None:
    plant.github.installation("acme").permissions["workflows"] = "write"
    attempt_id = await red_with_other_workflows(plant)

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.HEALED, attempt.reason
    (pull,) = plant.github.pull_requests(NAME)
    assert pull.base_branch == "feature"
    granted = ["workflows" in token.actor.permissions for token in plant.github.tokens.known.values()]
    assert granted.count(True) == 1, "asked for once, after GitHub's refusal"


@pytest.mark.long
async def test_a_failing_status_becomes_a_pull_request(plant: Plant) -> None:
    sha = await plant.broken()
    await plant.github.set_status(NAME, sha, "ci/build", "failure", "1 test failed", "https://ci.test/7")
    (told,) = [delivery for delivery in plant.github.deliveries if delivery.event == "status"]
    attempt_id = await taken(plant.store, decide("status", told.body, plant.github.app_id)[1])

    await heal(attempt_id, plant.deps)

    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.HEALED, attempt.reason
    (pull,) = plant.github.pull_requests(NAME)
    assert "- **Failed:** `ci/build` on `main`" in pull.body
    assert "https://ci.test/7" in pull.body


@pytest.mark.parametrize("by", ["status", "check_run"])
async def test_another_ci_service_that_fails_after_the_end_gets_a_further_attempt(plant: Plant, by: str) -> None:
    sha = await plant.github.push(NAME, "main", {"notes.txt": "x\n"})

    async def failed(name: str) -> str:
        if by == "status":
            await plant.github.set_status(NAME, sha, name, "failure", "red", "https://ci.test/1")
        else:
            plant.github.set_check(NAME, sha, name).suite.head_branch = "main"
            plant.github.set_check(NAME, sha, name, "failure")
        told = [delivery for delivery in plant.github.deliveries if delivery.event == by][-1]
        return await taken(plant.store, decide(by, told.body, plant.github.app_id)[1])

    first = await failed("ci/one")
    await heal(first, plant.deps)
    assert (await plant.attempt(first)).status == "ended"
    assert await failed("ci/one") == first, "it is told again and again"
    second = await failed("ci/two")
    assert second != first
    assert (await plant.attempt(second)).number == 2


async def healed(plant: Plant) -> PullRequest:
    """The pull request of a first attempt."""
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))
    await heal(attempt_id, plant.deps)
    (pull,) = plant.github.pull_requests(NAME)
    return pull


@pytest.mark.long
async def test_a_commit_of_ours_is_not_healed_on_a_branch_that_a_person_renamed(plant: Plant) -> None:
    sha = (await healed(plant)).head_sha
    await plant.github.repository(NAME).git.create_ref("refs/heads/renamed", sha)
    again = await taken(plant.store, replace(plant.request, head_sha=sha, head_branch="renamed"))
    before = len(plant.github.requests)

    await heal(again, plant.deps)

    attempt = await plant.attempt(again)
    assert (attempt.outcome, attempt.is_reported) == (Outcome.REFUSED, True)
    assert "a repair of Selfheal's own" in (attempt.reason or "")
    assert not [request for request in plant.github.requests[before:] if request.startswith(("POST /repos", "PATCH /repos"))]


@pytest.mark.long
async def test_a_commit_of_ours_that_a_person_merged_is_healed_like_any_other(plant: Plant) -> None:
    pull = await healed(plant)
    await plant.github.close_pull(NAME, pull.number, merged=True)
    again = await taken(plant.store, replace(plant.request, head_sha=pull.head_sha))
    await heal(again, plant.deps)
    assert (await plant.attempt(again)).outcome is not Outcome.REFUSED


@pytest.mark.long
async def test_what_an_attempt_was_made_from_is_dropped_days_after_its_end(plant: Plant) -> None:
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))
    await heal(attempt_id, plant.deps)
    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.HEALED, attempt.reason
    thread: RunnableConfig = {"configurable": {"thread_id": attempt_id}}
    async with plant.store.database.read() as session:
        kept = list(await session.scalars(select(BlobRow.sha256)))
    assert kept
    assert await plant.deps.engine.checkpointer.aget_tuple(thread) is not None
    assert await plant.store.due() == []

    long_ago = plant.store.clock.now() - timedelta(days=15)
    await plant.change(attempt_id, ended_at=long_ago, created_at=long_ago)
    async with plant.store.database.write() as session:
        await session.execute(update(BlobRow).where(BlobRow.sha256 != kept[0]).values(created_at=long_ago))
    younger = await taken(plant.store, replace(plant.request, head_sha="f" * 40))
    assert await plant.store.due() == [younger, attempt_id], "whoever waits comes before what is only to be dropped"
    await heal(attempt_id, plant.deps)

    assert await plant.deps.engine.checkpointer.aget_tuple(thread) is None
    assert await plant.store.due() == [younger]
    async with plant.store.database.read() as session:
        assert list(await session.scalars(select(BlobRow.sha256))) == [kept[0]], "what a younger attempt put again stays"


@pytest.mark.long
async def test_a_later_attempt_learns_from_an_earlier_one_of_its_repository(plant: Plant) -> None:
    first = await taken(plant.store, replace(plant.request, head_sha=await plant.broken()))
    await heal(first, plant.deps)
    await plant.github.push(NAME, "main", {"notes.txt": "Something else."})
    second = await taken(plant.store, replace(plant.request, head_sha=await plant.broken("protected: [notes.txt]\n")))

    await heal(second, plant.deps)

    assert (await plant.attempt(second)).outcome is Outcome.HEALED
    told = [stored.event for stored in await plant.store.timeline(second) if isinstance(stored.event, Remembered)]
    assert [event.attempts for event in told] == [[first]]
    assert told[0].text == f"Learned from attempt `{first[:12]}`"
    learned = [pull for pull in plant.github.pull_requests(NAME) if f"Learned from attempt `{first[:12]}`." in pull.body]
    assert len(learned) == 1
    assert len(await plant.store.memories(repository=NAME)) == 2


@pytest.mark.long
async def test_progress_that_github_does_not_take_does_not_hold_up_the_work(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt_id = await taken(plant.store, plant.request)
    plant.github.faults.secondary_limit("PATCH", f"/repos/{NAME}/check-runs/*", retry_after=3)
    took = 0.0

    async def stepping(
        _: Engine, __: Case, *, blobs: Blobs, emit: Emit, reply: Reply | None, memory: Memory | None
    ) -> NoRepair:
        nonlocal took
        began = time.monotonic()
        for step in ("unpack", "install", "reproduce"):
            await emit(StepStarted(step=step, text=f"Step {step}"))
        took = time.monotonic() - began
        await until(lambda: any(request.startswith("PATCH") for request in plant.github.requests))
        return without_a_run(Outcome.NOTHING_FAILED, "Nothing is red.", "Nothing to do.")

    monkeypatch.setattr(Engine, "heal", stepping)
    async with asyncio.timeout(30):
        await heal(attempt_id, plant.deps)

    assert (await plant.attempt(attempt_id)).outcome is Outcome.NOTHING_FAILED
    assert took < 2
    assert plant.shown() == [("completed", "neutral")]


async def test_progress_shows_the_latest_step_and_no_more_often_than_people_read(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt_id = await taken(plant.store, plant.request)
    monkeypatch.setattr("app.attempt.progress.STEP_SECONDS", 2.0)
    seen: list[str] = []
    plant.github.watch(lambda call: seen.append(call.json()["output"]["title"]) if call.method == "PATCH" else None)

    async def stepping(
        _: Engine, __: Case, *, blobs: Blobs, emit: Emit, reply: Reply | None, memory: Memory | None
    ) -> NoRepair:
        for number in range(6):
            await emit(StepStarted(step="verify", text=f"Verifying candidate {number}"))
            await emit(StepStarted(step="select", text=""))  # takes no time
        await until(lambda: seen[-1:] == ["Verifying candidate 5"], seconds=20)
        await emit(StepStarted(step="verify", text="Verifying candidate 5"))  # nothing new
        await emit(StepStarted(step="prove", text="Proving the patch"))
        return without_a_run(Outcome.NOTHING_FAILED, "Nothing is red.", "Nothing to do.")

    monkeypatch.setattr(Engine, "heal", stepping)
    await heal(attempt_id, plant.deps)

    assert (await plant.attempt(attempt_id)).outcome is Outcome.NOTHING_FAILED
    assert len(seen) == 3, seen
    assert "" not in seen
    assert plant.shown() == [("completed", "neutral")]
