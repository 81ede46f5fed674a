"""Pull requests: creating, finding, changing; their heads follow the branches."""

from __future__ import annotations

from tests.standins.github.issues import Issues
from tests.standins.github.routing import Answer, Call, Refusal, Routes, not_found
from tests.standins.github.serialise import Serialiser, node_id, stamp
from tests.standins.github.state import Account, Issue, Json, PullRequest, Repository, now
from tests.standins.github.world import Push, World


class Pulls:
    """Shapes and changes of pull requests, used by the routes below and by the driver."""

    def __init__(self, world: World, show: Serialiser, issues: Issues) -> None:
        self.world = world
        self.show = show
        self.issues = issues

    def minimal(self, repository: Repository, pull: PullRequest) -> Json:
        """As runs and check runs mention it."""

        def end(of: Repository, branch: str, sha: str) -> Json:
            return {"ref": branch, "sha": sha, "repo": {"id": of.id, "url": self.show.at(of), "name": of.name}}

        return {
            "id": pull.id,
            "number": pull.number,
            "url": self.show.at(repository, f"/pulls/{pull.number}"),
            "head": end(pull.head_repository, pull.head_branch, pull.head_sha),
            "base": end(repository, pull.base_branch, pull.base_sha),
        }

    def about(self, repository: Repository, sha: str) -> list[Json]:
        """Open pull requests of the repository itself whose head is a commit; those of forks are left out, as on GitHub."""
        return [
            self.minimal(repository, pull)
            for pull in repository.pulls
            if pull.head_sha == sha and pull.state == "open" and pull.head_repository is repository
        ]

    async def full(self, repository: Repository, pull: PullRequest) -> Json:
        url = self.show.at(repository, f"/pulls/{pull.number}")
        html = self.show.html(repository, f"/pull/{pull.number}")
        issue = self.show.at(repository, f"/issues/{pull.number}")
        statuses = self.show.at(repository, f"/statuses/{pull.head_sha}")
        git = repository.git
        fork_point = await git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
        changes = await git.changes(fork_point, pull.head_sha)

        def end(of: Repository, branch: str, sha: str) -> Json:
            label = f"{of.owner.login}:{branch}"
            return {
                "label": label,
                "ref": branch,
                "sha": sha,
                "user": self.show.user(of.owner),
                "repo": self.show.repository(of),
            }

        links = {
            "self": url,
            "html": html,
            "issue": issue,
            "comments": f"{issue}/comments",
            "review_comments": f"{url}/comments",
            "review_comment": f"{self.show.at(repository)}/pulls/comments{{/number}}",
            "commits": f"{url}/commits",
            "statuses": statuses,
        }
        return {
            "id": pull.id,
            "node_id": node_id("PullRequest", pull.id),
            "number": pull.number,
            "url": url,
            "html_url": html,
            "diff_url": f"{html}.diff",
            "patch_url": f"{html}.patch",
            "issue_url": issue,
            "commits_url": links["commits"],
            "review_comments_url": links["review_comments"],
            "review_comment_url": links["review_comment"],
            "comments_url": links["comments"],
            "statuses_url": statuses,
            "state": pull.state,
            "locked": False,
            "title": pull.title,
            "body": pull.issue.body,
            "user": self.show.user(pull.issue.user),
            "labels": [self.issues.label(repository, label) for label in pull.issue.labels],
            "milestone": None,
            "created_at": stamp(pull.issue.created),
            "updated_at": stamp(pull.issue.updated),
            "closed_at": stamp(pull.issue.closed),
            "merged_at": stamp(pull.merged),
            "merge_commit_sha": None,
            "assignee": None,
            "assignees": [],
            "requested_reviewers": [self.show.user(reviewer) for reviewer in pull.reviewers],
            "requested_teams": [],
            "head": end(pull.head_repository, pull.head_branch, pull.head_sha),
            "base": end(repository, pull.base_branch, pull.base_sha),
            "_links": {name: {"href": href} for name, href in links.items()},
            "author_association": self.issues.association(repository, pull.issue.user),
            "auto_merge": None,
            "active_lock_reason": None,
            "draft": pull.draft,
            "merged": pull.merged is not None,
            "mergeable": True,
            "rebaseable": True,
            "mergeable_state": "clean",
            "merged_by": None,
            "comments": sum(c.number == pull.number for c in repository.comments.values()),
            "review_comments": 0,
            "maintainer_can_modify": False,
            "commits": await git.count(f"{fork_point}..{pull.head_sha}"),
            "additions": sum(change.additions for change in changes),
            "deletions": sum(change.deletions for change in changes),
            "changed_files": len(changes),
        }

    async def create(self, repository: Repository, user: Account, wanted: Json) -> PullRequest:
        """Open a pull request. Raises `Refusal` (422) as GitHub does."""
        owner, _, branch = str(wanted.get("head", "")).rpartition(":")
        head_repository = repository
        if owner and owner != repository.owner.login:
            forks = [r for r in self.world.repositories.values() if r.parent is repository and r.owner.login == owner]
            head_repository = forks[0] if forks else repository
        base = str(wanted.get("base", ""))
        head_sha = await head_repository.git.ref(f"refs/heads/{branch}")
        base_sha = await repository.git.ref(f"refs/heads/{base}")
        for name, sha in (("head", head_sha), ("base", base_sha)):
            if sha is None:
                raise Refusal(422, "Validation Failed", [{"resource": "PullRequest", "field": name, "code": "invalid"}])
        assert head_sha is not None
        assert base_sha is not None
        if head_repository is not repository:
            await repository.git.run("fetch", "--quiet", str(head_repository.git.path), head_sha)
        where = f"{head_repository.owner.login}:{branch}"
        for pull in repository.pulls:
            if (pull.state, pull.head_repository, pull.head_branch, pull.base_branch) == (
                "open",
                head_repository,
                branch,
                base,
            ):
                raise _refused(f"A pull request already exists for {where}.")
        if await repository.git.count(f"{base_sha}..{head_sha}") == 0:
            raise _refused(f"No commits between {base} and {branch}")
        number = max(repository.issues, default=0) + 1
        issue = Issue(self.world.next_id(), number, user, str(wanted.get("title", "")), wanted.get("body"))
        draft = bool(wanted.get("draft"))
        issue.pull = PullRequest(self.world.next_id(), issue, head_repository, branch, base, head_sha, base_sha, draft)
        repository.issues[number] = issue
        await repository.git.set_ref(f"refs/pull/{number}/head", head_sha)
        await self.world.pull_changed(repository, issue.pull, "opened", user)
        return issue.pull

    async def pushed(self, push: Push) -> None:
        """The heads of open pull requests follow their branch; a deleted branch closes them."""
        for repository in self.world.repositories.values():
            for pull in repository.pulls:
                if pull.head_repository is not push.repository or pull.head_branch != push.branch or pull.state != "open":
                    continue
                if push.after is None:
                    pull.issue.state, pull.issue.closed = "closed", now()
                    await self.world.pull_changed(repository, pull, "closed", push.actor)
                    continue
                if repository is not push.repository:
                    await repository.git.run("fetch", "--quiet", str(push.repository.git.path), push.after)
                before, pull.head_sha, pull.issue.updated = pull.head_sha, push.after, now()
                await repository.git.set_ref(f"refs/pull/{pull.number}/head", push.after)
                await self.world.pull_changed(repository, pull, "synchronize", push.actor, before)

    async def pull_changed(self, repository: Repository, pull: PullRequest, action: str, actor: Account, before: str) -> None:
        payload = {
            "action": action,
            "number": pull.number,
            "pull_request": await self.full(repository, pull),
            "sender": self.show.user(actor),
        }
        if action == "synchronize":
            payload |= {"before": before, "after": pull.head_sha}
        if action == "edited":
            payload["changes"] = {}
        self.world.emit("pull_request", payload, repository)


def _refused(message: str) -> Refusal:
    return Refusal(422, "Validation Failed", [{"resource": "PullRequest", "code": "custom", "message": message}])


def routes(pulls: Pulls) -> Routes:
    table = Routes()
    base = "/repos/{owner}/{repo}/pulls"

    def pull_of(call: Call) -> PullRequest:
        issue = call.repository.issues.get(call.number("pull_number"))
        if issue is None or issue.pull is None:
            raise not_found()
        return issue.pull

    @table.post(base, "pull_requests:write")
    async def create(call: Call) -> Answer:
        made = await pulls.create(call.repository, call.account, call.json())
        return Answer.of(await pulls.full(call.repository, made), 201)

    @table.get(base, "pull_requests:read")
    async def find(call: Call) -> Answer:
        state, head, onto = call.query.get("state", "open"), call.query.get("head"), call.query.get("base")
        found = [
            pull
            for pull in reversed(call.repository.pulls)
            if (state in ("all", pull.state))
            and head in (None, f"{pull.head_repository.owner.login}:{pull.head_branch}")
            and onto in (None, pull.base_branch)
        ]
        return call.page([await pulls.full(call.repository, pull) for pull in found])

    @table.get(f"{base}/{{pull_number}}", "pull_requests:read")
    async def get(call: Call) -> Answer:
        pull = pull_of(call)
        if "diff" in call.headers.get("accept", ""):
            diff = await call.repository.git.diff(f"{pull.base_sha}", pull.head_sha)
            return Answer(200, diff.encode(), {"content-type": "application/vnd.github.diff; charset=utf-8"})
        return Answer.of(await pulls.full(call.repository, pull))

    @table.get(f"{base}/{{pull_number}}/files", "pull_requests:read")
    async def files(call: Call) -> Answer:
        pull, git = pull_of(call), call.repository.git
        fork_point = await git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
        changes = await git.changes(fork_point, pull.head_sha)
        return call.page([pulls.show.change(call.repository, change, pull.head_sha) for change in changes])

    @table.post(f"{base}/{{pull_number}}/requested_reviewers", "pull_requests:write")
    async def request_review(call: Call) -> Answer:
        """https://docs.github.com/rest/pulls/review-requests: 422 for the author and for people without access."""
        pull = pull_of(call)
        for login in call.json().get("reviewers", []):
            reviewer = call.world.account(login)
            if reviewer is pull.issue.user:
                raise Refusal(422, "Review cannot be requested from pull request author.")
            if login not in call.repository.collaborators and reviewer is not call.repository.owner:
                raise Refusal(
                    422,
                    "Reviews may only be requested from collaborators. One or more of the users or teams you specified is "
                    f"not a collaborator of the {call.repository.full_name} repository.",
                )
            if reviewer not in pull.reviewers:
                pull.reviewers.append(reviewer)
        return Answer.of(await pulls.full(call.repository, pull), 201)

    @table.patch(f"{base}/{{pull_number}}", "pull_requests:write")
    async def update(call: Call) -> Answer:
        pull, wanted = pull_of(call), call.json()
        pull.issue.title = wanted.get("title") or pull.title
        pull.issue.body = wanted.get("body", pull.issue.body)
        pull.issue.updated = now()
        action = "edited"
        state = wanted.get("state", pull.state)
        if state != pull.state:
            action = "closed" if state == "closed" else "reopened"
            pull.issue.state, pull.issue.closed = state, now() if state == "closed" else None
        await call.world.pull_changed(call.repository, pull, action, call.account)
        return Answer.of(await pulls.full(call.repository, pull))

    return table
