"""Decides what to do about an event: pure functions from a payload to a decision with a reason.

A command is `/heal` or `/heal flaky` at the start of a line of a comment, outside code and quotations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

import msgspec

from webhooks.events import (
    Account,
    CheckRun,
    CheckSuite,
    GitHubApp,
    InstallationEvent,
    IssueComment,
    Minimal,
    Other,
    Payload,
    PullLink,
    PullRequest,
    Repository,
    Status,
    WorkflowRun,
)
from webhooks.intake import RERUN, Decision, Ignored, InstallationChange, PullRequestChange, RepairRequest, RepositoryRef

_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<info>.*)")
_COMMAND = re.compile(r" {0,3}/heal(?=\s|$)(?P<flaky>[ \t]+flaky\b)?", re.IGNORECASE)
_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Heal:
    """The command `/heal`; `flaky`: repair flaky failures too."""

    flaky: bool = False


def command_in(comment: str) -> Heal | None:
    """The first command in the comment outside fenced or indented code, quotations (`>`) and HTML comments.

    Other words after `/heal` are allowed.
    """
    fence: str | None = None
    for line in _HIDDEN.sub("", comment).splitlines():
        marks = _FENCE.match(line)
        if fence is not None:
            if marks and marks["marks"].startswith(fence) and not marks["info"].strip():
                fence = None
        elif marks and not (marks["marks"][0] == "`" and "`" in marks["info"]):
            fence = marks["marks"]
        elif found := _COMMAND.match(line):
            return Heal(flaky=found["flaky"] is not None)
    return None


FAILING: Final = frozenset({"failure", "timed_out"})
"""Conclusions that mean that the code failed. `startup_failure` is a broken workflow file, which a repair never edits;
`action_required` waits for a person; `cancelled`, `stale`, `skipped` and `neutral` say nothing about the code."""

FAILING_STATES: Final = frozenset({"failure", "error"})
"""States of a commit status that mean that the commit failed. Services set `error` if a build could not be finished."""

DYNAMIC: Final = "dynamic"
"""The event of runs of GitHub's own workflows, which no file of the repository defines."""

TESTING: Final = frozenset({
    "push", "pull_request", "pull_request_review", "merge_group", "schedule", "workflow_dispatch", "deployment",
    "deployment_status",
})  # fmt: skip
"""Events whose workflows test the commit that their runs name. Most others (a comment, an issue, another workflow's end) run on
the default branch, whatever it contains, and many of them are caused by anybody."""

BRANCH_PREFIX: Final = "selfheal/"
"""Begins the names of Selfheal's branches, unless a setting names another prefix."""

_QUEUE: Final = "gh-readonly-queue/"
_ACTIONS_SLUG: Final = "github-actions"
_FORK: Final = Ignored("the head is in a fork, to which Selfheal cannot push", refused=True)

E = TypeVar("E", bound=msgspec.Struct)


class Malformed(ValueError):
    """The payload does not match the event's schema; the message names the field."""


def decide(
    event: str, body: bytes, own_app_id: int | None = None, branch_prefix: str = BRANCH_PREFIX
) -> tuple[str | None, Decision]:
    """The payload's action and the decision. Failures of Selfheal's own branches are ignored. Raises `Malformed`."""
    action, decision = _decide(event, body, own_app_id, (branch_prefix, BRANCH_PREFIX))
    if isinstance(decision, RepairRequest):
        decision = unless_own(decision, branch_prefix)
    return action, decision


def unless_own(request: RepairRequest | Ignored, branch_prefix: str) -> RepairRequest | Ignored:
    """The request, unless it is for a branch of Selfheal's, also of one that it made before the prefix was set.

    A person who re-runs our check there is answered by `app/service/needless.py`.
    """
    if isinstance(request, RepairRequest) and (request.head_branch or "").startswith((branch_prefix, BRANCH_PREFIX)):
        return Ignored("the branch belongs to Selfheal")
    return request


def _decide(event: str, body: bytes, own_app_id: int | None, own_branches: tuple[str, ...]) -> tuple[str | None, Decision]:
    match event:
        case "workflow_run":
            run = _parse(body, WorkflowRun)
            return run.action, on_workflow_run(run)
        case "check_run":
            check = _parse(body, CheckRun)
            return check.action, on_check_run(check, own_app_id)
        case "check_suite":
            suite = _parse(body, CheckSuite)
            return suite.action, on_check_suite(suite, own_app_id)
        case "status":
            status = _parse(body, Status)
            return status.action, on_status(status, own_branches)
        case "issue_comment":
            comment = _parse(body, IssueComment)
            return comment.action, on_issue_comment(comment, own_app_id)
        case "pull_request":
            pull = _parse(body, PullRequest)
            return pull.action, on_pull_request(pull)
        case "installation" | "installation_repositories":
            installation = _parse(body, InstallationEvent)
            return installation.action, on_installation(installation)
        case "ping":
            return _parse(body, Other).action, Ignored("pong: the webhook reaches Selfheal")
        case _:
            return _parse(body, Other).action, Ignored(f"{one_line(event)} events are not handled")


def on_workflow_run(event: WorkflowRun) -> RepairRequest | Ignored:
    run = event.workflow_run
    if event.action != "completed":
        return Ignored(f"the run was {one_line(event.action)}, not completed")
    if run.conclusion not in FAILING:
        return Ignored(f"the run ended with {one_line(run.conclusion)}")
    if run.event == DYNAMIC:
        return Ignored("the run is of a workflow of GitHub's own (Dependabot, Pages, CodeQL)")
    if run.event is not None and run.event not in TESTING:
        return Ignored(f"the run was started by {one_line(run.event)}, so it need not test this commit")
    if event.repository is not None and (run.head_repository is None or run.head_repository.id != event.repository.id):
        return _FORK  # a deleted one is null
    request = _automatic(event, "workflow_run", run.head_sha, run.head_branch, run.name, run_id=run.id)
    if isinstance(request, Ignored):
        return request
    # A schedule repeats a failure of the same commit, and so does the rerun of a bot, such as our own.
    attempt, actor = run.run_attempt or 1, run.triggering_actor
    is_news = run.event != "schedule" if attempt == 1 else actor is not None and actor.type == "User"
    # Labels and edits start a pull request's workflow again. Other events each say something of their own.
    workflow = run.workflow_id if run.event == "pull_request" else None
    return replace(request, run_attempt=attempt, workflow_id=workflow, is_news=is_news)


def on_check_run(event: CheckRun, own_app_id: int | None = None) -> RepairRequest | Ignored:
    check = event.check_run
    if _is_rerequested(event.action, check.app, own_app_id):
        branch = check.check_suite.head_branch if check.check_suite else None
        again = _automatic(event, "check_run", check.head_sha, branch, RERUN, check_run_id=check.id)
        return _by(event.sender, _as_news(again))
    ignored = _ignore_check(event.action, check.conclusion, check.app, own_app_id)
    if ignored is not None:
        return ignored
    branch = check.check_suite.head_branch if check.check_suite else None
    branch = branch or _branch_here(event.repository, check.pull_requests)
    return _as_news(_automatic(event, "check_run", check.head_sha, branch, check.name, check_run_id=check.id))


def on_check_suite(event: CheckSuite, own_app_id: int | None = None) -> RepairRequest | Ignored:
    suite = event.check_suite
    if _is_rerequested(event.action, suite.app, own_app_id):
        suite_id, named = suite.id, RERUN
        again = _automatic(event, "check_suite", suite.head_sha, suite.head_branch, named, check_suite_id=suite_id)
        return _by(event.sender, _as_news(again))
    ignored = _ignore_check(event.action, suite.conclusion, suite.app, own_app_id)
    if ignored is not None:
        return ignored
    branch = suite.head_branch or _branch_here(event.repository, suite.pull_requests)
    title = suite.app.name if suite.app else None
    return _automatic(event, "check_suite", suite.head_sha, branch, title, check_suite_id=suite.id)


def on_status(event: Status, own_branches: tuple[str, ...] = (BRANCH_PREFIX,)) -> RepairRequest | Ignored:
    """A failing status of a branch's newest commit. Selfheal sets no statuses, and GitHub Actions sets check runs.

    A status is set many times at one commit, by reruns and by every part of a build: of each name, the first is news.
    """
    if event.state not in FAILING_STATES:
        return Ignored(f"the status is {one_line(event.state)}")
    names = [branch.name for branch in event.branches if branch.commit.sha == event.sha]
    if event.branches and not names:
        return Ignored("no branch of this repository ends with this commit any more")
    # Branches that were just made from the default branch, or merged into it, end with the same commit: there it does harm.
    default = event.repository.default_branch if event.repository is not None else ""
    names.sort(key=lambda name: (name.startswith((*own_branches, _QUEUE)), name != default))
    return _as_news(_automatic(event, "status", event.sha, names[0] if names else None, event.context))


def on_issue_comment(event: IssueComment, own_app_id: int | None = None) -> RepairRequest | Ignored:
    """A command. The worker checks its author's permission, and tells who may write why a closed pull request is not healed."""
    comment, author = event.comment, event.comment.user
    if event.action != "created":
        return Ignored(f"the comment was {one_line(event.action)}, not created")
    if author is None or not author.login or author.type == "Bot":
        return Ignored("the comment was not written by a person")
    if comment.performed_via_github_app is not None and comment.performed_via_github_app.id == own_app_id:
        return Ignored("the comment is Selfheal's own")
    command = command_in(comment.body or "")
    if command is None:
        return Ignored("the comment contains no /heal command")
    if event.issue.pull_request is None:
        return Ignored("the comment is on an issue, not on a pull request")
    if event.installation is None or event.repository is None:
        return Ignored("the delivery is not from an installation of the App")
    return RepairRequest(
        "comment",
        event.installation.id,
        _ref(event.repository),
        head_sha=None,
        head_branch=None,
        pull_number=event.issue.number,
        comment_id=comment.id,
        sender=author.login,
        title=one_line(f"/heal{' flaky' if command.flaky else ''} by {author.login}"),
        flaky=command.flaky,
    )


def on_pull_request(event: PullRequest) -> PullRequestChange | Ignored:
    pull = event.pull_request
    if event.action not in ("opened", "reopened", "synchronize", "closed"):
        return Ignored(f"the pull request was {one_line(event.action)}, which does not change its commits")
    if event.repository is None:
        return Ignored("the delivery names no repository")
    if pull.head.repo is None or pull.head.repo.id != event.repository.id:
        return Ignored("the pull request comes from a fork")
    return PullRequestChange(
        event.action,
        event.installation.id if event.installation else None,
        _ref(event.repository),
        pull.number,
        pull.head.sha,
        pull.head.ref,
        merged=bool(pull.merged),
        closed=event.action == "closed",
        before=event.before if event.action == "synchronize" else None,
    )


def on_installation(event: InstallationEvent) -> InstallationChange:
    named, installation = event.repositories or [], event.installation
    is_gone = event.action == "deleted"
    return InstallationChange(
        one_line(event.action),
        installation.id,
        installation.account.login if installation.account else "",
        added=_refs([*([] if is_gone else named), *event.repositories_added]),
        removed=_refs([*(named if is_gone else []), *event.repositories_removed]),
        permissions=tuple(sorted(installation.permissions.items())),
    )


def _is_rerequested(action: str | None, app: GitHubApp | None, own_app_id: int | None) -> bool:
    """Whether a person re-ran our check: GitHub tells only the App that made it, and lets only people with write permission."""
    return action == "rerequested" and app is not None and own_app_id is not None and app.id == own_app_id


def _as_news(request: RepairRequest | Ignored) -> RepairRequest | Ignored:
    return request if isinstance(request, Ignored) else replace(request, is_news=True)


def _by(sender: Account | None, request: RepairRequest | Ignored) -> RepairRequest | Ignored:
    """The request, which counts for the person who asked for it."""
    if sender is None or not sender.login or sender.type == "Bot" or isinstance(request, Ignored):
        return request
    return replace(request, sender=sender.login)


def _ignore_check(action: str | None, conclusion: str | None, app: GitHubApp | None, own_app_id: int | None) -> Ignored | None:
    if action != "completed":
        return Ignored(f"the check was {one_line(action)}, not completed")
    if app is not None and app.slug == _ACTIONS_SLUG:
        return Ignored("GitHub Actions is handled through its workflow runs")
    if app is not None and own_app_id is not None and app.id == own_app_id:
        return Ignored("the check is Selfheal's own")
    if conclusion not in FAILING:
        return Ignored(f"the check ended with {one_line(conclusion)}")
    return None


def _automatic(
    event: Payload,
    source: Literal["workflow_run", "check_run", "check_suite", "status"],
    head_sha: str,
    branch: str | None,
    title: str | None,
    *,
    run_id: int | None = None,
    check_run_id: int | None = None,
    check_suite_id: int | None = None,
) -> RepairRequest | Ignored:
    """The request of an automatic trigger; it needs an installation and, except for a re-run, a branch of this repository."""
    if event.installation is None or event.repository is None:
        return Ignored("the delivery is not from an installation of the App")
    if not branch and title != RERUN:  # the attempt of our check knows its branch
        # GitHub names no branch for a head in a fork.
        return Ignored("no branch of this repository points to this commit (it belongs to a fork, or to a tag)", refused=True)
    if branch and branch.startswith(_QUEUE):
        # GitHub deletes it soon, and nobody else may push to it. What fails there is the merge of a green pull request.
        return Ignored("the branch belongs to GitHub's merge queue, where no repair can be pushed")
    return RepairRequest(
        source,
        event.installation.id,
        _ref(event.repository),
        head_sha,
        branch,
        run_id,
        check_run_id=check_run_id,
        check_suite_id=check_suite_id,
        title=one_line(title),
    )


def _branch_here(repository: Repository | None, pulls: list[PullLink]) -> str | None:
    for pull in pulls:
        if repository is not None and pull.head.repo is not None and pull.head.repo.id == repository.id:
            return pull.head.ref
    return None


def _ref(repository: Repository) -> RepositoryRef:
    return RepositoryRef(repository.id, repository.full_name, repository.default_branch, repository.private)


def _refs(repositories: list[Minimal]) -> tuple[RepositoryRef, ...]:
    return tuple(RepositoryRef(each.id, each.full_name, private=each.private) for each in repositories)


def one_line(text: str | None) -> str:
    """External text as one printable line of at most 200 characters."""
    return "".join(c for c in " ".join((text or "nothing").split()) if c.isprintable())[:200]


def _parse(body: bytes, model: type[E]) -> E:
    try:
        return msgspec.json.decode(body, type=model)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(str(error)) from error
