from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests import data
from webhooks.intake import Ignored, InstallationChange, PullRequestChange, RepairRequest
from webhooks.triggers import Malformed, decide

APP = 99
REPOSITORY = {"id": 7, "full_name": "octo/calculator", "default_branch": "trunk", "private": True}
BASE = {"repository": REPOSITORY, "installation": {"id": 11}, "sender": {"login": "alice", "type": "User"}}
RUN = BASE | {
    "action": "completed",
    "workflow_run": {
        "id": 1,
        "name": "CI",
        "head_sha": "a" * 40,
        "head_branch": "trunk",
        "head_repository": {"id": 7},
        "conclusion": "failure",
    },
}
CHECK = BASE | {
    "action": "completed",
    "check_run": {
        "id": 2,
        "name": "build",
        "head_sha": "a" * 40,
        "conclusion": "failure",
        "app": {"id": 5, "slug": "other-ci"},
        "check_suite": {"id": 3, "head_branch": "trunk"},
        "pull_requests": [],
    },
}
SUITE = BASE | {
    "action": "completed",
    "check_suite": {
        "id": 3,
        "head_sha": "a" * 40,
        "head_branch": "trunk",
        "conclusion": "failure",
        "app": {"id": 5, "slug": "other-ci", "name": "Other CI"},
        "pull_requests": [],
    },
}
STATUS = BASE | {
    "id": 4,
    "sha": "a" * 40,
    "state": "failure",
    "context": "continuous-integration/jenkins",
    "branches": [
        {"name": "behind", "commit": {"sha": "b" * 40}},
        {"name": "topic", "commit": {"sha": "a" * 40}},
    ],
}
COMMENT = BASE | {
    "action": "created",
    "issue": {"number": 3, "state": "open", "pull_request": {"url": "https://api.github.com/x"}},
    "comment": {"id": 4, "body": "/heal", "user": {"login": "alice", "type": "User"}},
}
PULL = BASE | {
    "action": "synchronize",
    "before": "b" * 40,
    "pull_request": {
        "number": 3,
        "merged": False,
        "head": {"ref": "fix", "sha": "a" * 40, "repo": {"id": 7}},
        "base": {"ref": "trunk", "sha": "c" * 40, "repo": {"id": 7}},
    },
}


def changed(payload: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    payload = copy.deepcopy(payload)
    *parents, last = path.split(".")
    target = payload
    for name in parents:
        target = target[name]
    target[last] = value
    return payload


def decided(event: str, payload: dict[str, Any]) -> Any:
    return decide(event, json.dumps(payload).encode(), APP)[1]


@pytest.mark.parametrize(("event", "workflow"), [("push", None), ("workflow_dispatch", None), ("pull_request", 6)])
def test_only_a_pull_requests_further_runs_of_a_workflow_are_known_again(event: str, workflow: int | None) -> None:
    run = changed(RUN, "workflow_run.workflow_id", 6)
    request = decided("workflow_run", changed(run, "workflow_run.event", event))
    assert request.workflow_id == workflow


@pytest.mark.parametrize("event", ["deployment_status", "pull_request_review"])
def test_what_tests_a_deployed_or_reviewed_commit_counts(event: str) -> None:
    assert isinstance(decided("workflow_run", changed(RUN, "workflow_run.event", event)), RepairRequest)


def test_a_failing_run_asks_for_an_attempt() -> None:
    request = decided("workflow_run", RUN)
    assert isinstance(request, RepairRequest)
    assert (request.source, request.installation_id, request.run_id, request.title) == ("workflow_run", 11, 1, "CI")
    assert (request.head_sha, request.head_branch) == ("a" * 40, "trunk")
    assert (request.repository.id, request.repository.full_name) == (7, "octo/calculator")
    assert (request.repository.default_branch, request.repository.private) == ("trunk", True)


@pytest.mark.parametrize("conclusion", ["failure", "timed_out"])
def test_failing_conclusions_ask_for_an_attempt(conclusion: str) -> None:
    assert isinstance(decided("workflow_run", changed(RUN, "workflow_run.conclusion", conclusion)), RepairRequest)


@pytest.mark.parametrize(
    ("fields", "is_news"),
    [
        ({"event": "push"}, True),
        ({"event": "schedule"}, False),
        ({"event": "schedule", "run_attempt": 2, "triggering_actor": {"login": "alice", "type": "User"}}, True),
        ({"event": "schedule", "run_attempt": 2, "triggering_actor": {"login": "selfheal[bot]", "type": "Bot"}}, False),
        ({"run_attempt": 2, "triggering_actor": {"login": "alice", "type": "User"}}, True),
        ({"run_attempt": 2, "triggering_actor": {"login": "selfheal[bot]", "type": "Bot"}}, False),
        ({"run_attempt": 1, "triggering_actor": {"login": "renovate[bot]", "type": "Bot"}}, True),
    ],
)
def test_only_some_failures_of_a_known_commit_are_news(fields: dict[str, Any], is_news: bool) -> None:
    request = decided("workflow_run", BASE | {"action": "completed", "workflow_run": {**RUN["workflow_run"], **fields}})
    assert isinstance(request, RepairRequest)
    assert (request.run_attempt, request.is_news) == (fields.get("run_attempt", 1), is_news)


@pytest.mark.parametrize("event", ["push", "pull_request", "merge_group", "schedule", "workflow_dispatch"])
def test_workflows_that_test_their_commit_ask_for_an_attempt(event: str) -> None:
    assert isinstance(decided("workflow_run", changed(RUN, "workflow_run.event", event)), RepairRequest)


@pytest.mark.parametrize(
    "event", ["issue_comment", "issues", "workflow_run", "pull_request_target", "release", "fork", "watch"]
)
def test_workflows_that_test_no_commit_are_ignored(event: str) -> None:
    """Everybody can comment; GitHub runs these workflows on the default branch."""
    ignored = decided("workflow_run", changed(RUN, "workflow_run.event", event))
    assert isinstance(ignored, Ignored)
    assert event in ignored.reason
    assert not ignored.refused


@pytest.mark.parametrize(
    "conclusion", ["success", "neutral", "cancelled", "skipped", "stale", "action_required", "startup_failure", None]
)
@pytest.mark.parametrize(("event", "payload"), [("workflow_run", RUN), ("check_run", CHECK), ("check_suite", SUITE)])
def test_other_conclusions_are_ignored(event: str, payload: dict[str, Any], conclusion: str | None) -> None:
    ignored = decided(event, changed(payload, f"{event}.conclusion", conclusion))
    assert isinstance(ignored, Ignored)
    assert not ignored.refused


@pytest.mark.parametrize(("event", "payload"), [("check_run", CHECK), ("check_suite", SUITE)])
def test_failing_checks_of_other_ci_services_ask_for_an_attempt(event: str, payload: dict[str, Any]) -> None:
    request = decided(event, payload)
    assert isinstance(request, RepairRequest)
    assert (request.source, request.head_branch) == (event, "trunk")
    assert (request.check_run_id, request.check_suite_id) == ((2, None) if event == "check_run" else (None, 3))


@pytest.mark.parametrize("state", ["failure", "error"])
def test_a_failing_status_of_a_branchs_newest_commit_asks_for_an_attempt(state: str) -> None:
    request = decided("status", changed(STATUS, "state", state))
    assert isinstance(request, RepairRequest)
    assert (request.source, request.head_sha, request.head_branch) == ("status", "a" * 40, "topic")
    assert request.title == "continuous-integration/jenkins"
    assert request.is_news


def heads(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "commit": {"sha": "a" * 40}} for name in names]


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["fresh", "trunk"], "trunk"),
        (["selfheal/trunk-1", "topic"], "topic"),
        (["gh-readonly-queue/trunk/pr-3-0123abc", "topic"], "topic"),
        (["one", "other"], "one"),
    ],
)
def test_of_several_branches_with_the_commit_the_one_where_it_does_harm_is_healed(names: list[str], chosen: str) -> None:
    assert decided("status", changed(STATUS, "branches", heads(*names))).head_branch == chosen


@pytest.mark.parametrize(("branches", "is_refused"), [([], True), ([{"name": "on", "commit": {"sha": "b" * 40}}], False)])
def test_a_status_of_a_fork_is_refused_and_one_of_an_old_commit_is_ignored(
    branches: list[dict[str, Any]], is_refused: bool
) -> None:
    ignored = decided("status", changed(STATUS, "branches", branches))
    assert isinstance(ignored, Ignored)
    assert "no branch of this repository" in ignored.reason
    assert ignored.refused is is_refused


@pytest.mark.parametrize(("event", "path"), [("workflow_run", "workflow_run.head_branch"), ("status", "branches")])
def test_branches_of_the_set_prefix_and_of_the_default_one_are_ours(event: str, path: str) -> None:
    payload = RUN if event == "workflow_run" else STATUS
    for branch, is_ours in (("bot/trunk-1", True), ("selfheal/trunk-1", True), ("bots/x", False)):
        named = changed(payload, path, branch if event == "workflow_run" else heads(branch))
        decision = decide(event, json.dumps(named).encode(), APP, "bot/")[1]
        assert isinstance(decision, Ignored) is is_ours, branch


@pytest.mark.parametrize(("event", "payload"), [("check_run", CHECK), ("check_suite", SUITE)])
def test_a_person_who_reruns_our_check_asks_for_a_further_attempt(event: str, payload: dict[str, Any]) -> None:
    pressed = changed(changed(payload, "action", "rerequested"), f"{event}.app", {"id": APP, "slug": "selfheal"})
    request = decided(event, pressed)
    assert isinstance(request, RepairRequest)
    assert (request.source, request.head_branch, request.is_news) == (event, "trunk", True)
    by_maria = decided(event, pressed | {"sender": {"login": "maria", "type": "User"}})
    assert isinstance(by_maria, RepairRequest)
    assert by_maria.sender == "maria"
    suite = f"{event}.check_suite" if event == "check_run" else event
    assert isinstance(decided(event, changed(pressed, f"{suite}.head_branch", None)), RepairRequest)
    assert isinstance(decided(event, changed(payload, "action", "rerequested")), Ignored), "of another service"


@pytest.mark.parametrize("app", [{"id": 1, "slug": "github-actions"}, {"id": APP, "slug": "selfheal"}])
@pytest.mark.parametrize(("event", "payload"), [("check_run", CHECK), ("check_suite", SUITE)])
def test_checks_of_github_actions_and_our_own_are_ignored(event: str, payload: dict[str, Any], app: object) -> None:
    assert isinstance(decided(event, changed(payload, f"{event}.app", app)), Ignored)


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("workflow_run", changed(RUN, "workflow_run.head_repository", {"id": 8})),
        ("workflow_run", changed(RUN, "workflow_run.head_repository", None)),
        ("workflow_run", changed(RUN, "workflow_run.head_branch", None)),
        ("check_run", changed(CHECK, "check_run.check_suite", {"id": 3, "head_branch": None})),
        ("check_suite", changed(SUITE, "check_suite.head_branch", None)),
    ],
)
def test_forks_are_refused_visibly(event: str, payload: dict[str, Any]) -> None:
    refused = decided(event, payload)
    assert isinstance(refused, Ignored)
    assert refused.refused


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("workflow_run", changed(RUN, "workflow_run.head_branch", "selfheal/fix-1")),
        ("workflow_run", changed(RUN, "workflow_run.head_branch", "gh-readonly-queue/main/pr-3-0123abc")),
        ("workflow_run", changed(RUN, "workflow_run.event", "dynamic")),
        ("workflow_run", changed(RUN, "action", "requested")),
        ("workflow_run", changed(RUN, "installation", None)),
        ("check_run", changed(CHECK, "check_run.check_suite.head_branch", "selfheal/fix-1")),
        ("check_run", changed(CHECK, "action", "rerequested")),
        ("status", changed(STATUS, "state", "pending")),
        ("status", changed(STATUS, "state", "success")),
        ("status", changed(STATUS, "installation", None)),
        ("issue_comment", changed(COMMENT, "action", "edited")),
        ("issue_comment", changed(COMMENT, "comment.body", "nice")),
        ("issue_comment", changed(COMMENT, "comment.body", None)),
        ("issue_comment", changed(COMMENT, "comment.user.type", "Bot")),
        ("issue_comment", changed(COMMENT, "comment.user", None)),
        ("issue_comment", changed(COMMENT, "comment.performed_via_github_app", {"id": APP})),
        ("issue_comment", changed(COMMENT, "issue.pull_request", None)),
        ("issue_comment", changed(COMMENT, "installation", None)),
        ("pull_request", changed(PULL, "action", "labeled")),
        ("pull_request", changed(PULL, "pull_request.head.repo", {"id": 8})),
        ("pull_request", changed(PULL, "pull_request.head.repo", None)),
        ("ping", {"zen": "Keep it logically awesome."}),
        ("star", {"action": "created"}),
    ],
)
def test_what_asks_for_nothing_is_ignored_with_a_reason(event: str, payload: dict[str, Any]) -> None:
    ignored = decided(event, payload)
    assert isinstance(ignored, Ignored)
    assert ignored.reason
    assert not ignored.refused


def test_a_command_on_a_pull_request_asks_for_an_attempt_whose_head_is_unknown() -> None:
    request = decided("issue_comment", COMMENT)
    assert isinstance(request, RepairRequest)
    assert request.by_command
    assert (request.pull_number, request.comment_id, request.sender, request.head_sha) == (3, 4, "alice", None)


def test_a_push_and_a_close_are_told() -> None:
    pushed = decided("pull_request", PULL)
    assert isinstance(pushed, PullRequestChange)
    assert (pushed.before, pushed.head_sha, pushed.closed) == ("b" * 40, "a" * 40, False)
    closed = decided("pull_request", changed(changed(PULL, "action", "closed"), "pull_request.merged", True))
    assert (closed.merged, closed.closed, closed.before) == (True, True, None)


def test_an_action_of_any_length_gives_a_short_answer() -> None:
    change = decided("installation", {"action": "x" * 70_000, "installation": {"id": 11, "account": None}})
    assert isinstance(change, InstallationChange)
    assert len(change.action) == 200


def test_installations_are_told() -> None:
    payload = {
        "action": "created",
        "installation": {"id": 11, "account": {"login": "octo"}, "permissions": {"checks": "write"}},
        "repositories": [{"id": 7, "full_name": "octo/calculator", "private": True}],
    }
    change = decided("installation", payload)
    assert isinstance(change, InstallationChange)
    assert (change.account, change.permissions) == ("octo", (("checks", "write"),))
    assert [repository.full_name for repository in change.added] == ["octo/calculator"]
    removed = decided("installation", payload | {"action": "deleted"})
    assert (len(removed.added), len(removed.removed)) == (0, 1)


def test_names_from_outside_become_one_short_printable_line() -> None:
    request = decided("workflow_run", changed(RUN, "workflow_run.name", "CI\n\x1b[31m" + "x" * 500))
    assert "\n" not in request.title
    assert "\x1b" not in request.title
    assert len(request.title) <= 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"action": "completed"}',
        b"[" * 100_000,
        json.dumps(changed(RUN, "workflow_run.id", "1")).encode(),
        json.dumps(changed(RUN, "workflow_run.id", 2**80)).encode(),
        json.dumps(changed(RUN, "workflow_run.head_sha", "a" * 1000)).encode(),
        json.dumps(changed(RUN, "workflow_run.head_sha", "\0")).encode(),
        json.dumps(changed(RUN, "workflow_run.head_sha", "a" * 40 + "\n")).encode(),
    ],
)
def test_malformed_payloads_are_said_so(body: bytes) -> None:
    with pytest.raises(Malformed):
        decide("workflow_run", body)


@pytest.mark.optional(reason="needs GitHub's public example payloads")
def test_every_public_example_payload_is_decided() -> None:
    seen = set()
    for group in _examples():
        for example in group["examples"]:
            decision = decide(group["name"], json.dumps(example).encode(), APP)[1]
            assert isinstance(decision, RepairRequest | Ignored | InstallationChange | PullRequestChange)
            seen.add(group["name"])
    handled = {"ping", "workflow_run", "check_suite", "check_run", "status", "issue_comment", "pull_request"}
    assert seen >= handled | {"installation", "installation_repositories"}


def _examples() -> list[dict[str, Any]]:
    try:
        examples: list[dict[str, Any]] = data.load(data.WEBHOOK_EXAMPLES)
    except data.DataMissing as missing:
        pytest.skip(str(missing))
    return examples
