"""Comments, reactions and labels, on issues and pull requests alike."""

from __future__ import annotations

from typing import Literal

from tests.standins.github.routing import Answer, Call, Refusal, Routes, not_found
from tests.standins.github.serialise import Serialiser, node_id, stamp
from tests.standins.github.state import Account, Comment, Issue, Json, Label, Reaction, Repository, now

CONTENTS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")
Subject = tuple[Literal["issue", "comment"], int]


class Issues:
    """Shapes and changes of issues, used by the routes below and by the driver."""

    def __init__(self, show: Serialiser) -> None:
        self.show = show

    def reactions(self, repository: Repository, subject: Subject, url: str) -> Json:
        counts = dict.fromkeys(CONTENTS, 0)
        for reaction in repository.reactions.values():
            if reaction.subject == subject:
                counts[reaction.content] += 1
        return {"url": f"{url}/reactions", "total_count": sum(counts.values()), **counts}

    def reaction(self, reaction: Reaction) -> Json:
        return {
            "id": reaction.id,
            "node_id": node_id("Reaction", reaction.id),
            "user": self.show.user(reaction.user),
            "content": reaction.content,
            "created_at": stamp(reaction.created),
        }

    def label(self, repository: Repository, label: Label) -> Json:
        return {
            "id": label.id,
            "node_id": node_id("Label", label.id),
            "url": self.show.at(repository, f"/labels/{label.name}"),
            "name": label.name,
            "description": label.description,
            "color": label.color,
            "default": False,
        }

    def association(self, repository: Repository, account: Account) -> str:
        if account is repository.owner:
            return "OWNER"
        return "COLLABORATOR" if repository.permission(account.login) in ("write", "admin") else "NONE"

    def comment(self, repository: Repository, comment: Comment) -> Json:
        url = self.show.at(repository, f"/issues/comments/{comment.id}")
        world = self.show.world
        return {
            "id": comment.id,
            "node_id": node_id("IssueComment", comment.id),
            "url": url,
            "html_url": self.show.html(repository, f"/issues/{comment.number}#issuecomment-{comment.id}"),
            "issue_url": self.show.at(repository, f"/issues/{comment.number}"),
            "user": self.show.user(comment.user),
            "created_at": stamp(comment.created),
            "updated_at": stamp(comment.updated),
            "author_association": self.association(repository, comment.user),
            "body": comment.body,
            "reactions": self.reactions(repository, ("comment", comment.id), url),
            "performed_via_github_app": self.show.app(world.app) if comment.by_app else None,
        }

    def issue(self, repository: Repository, issue: Issue) -> Json:
        url = self.show.at(repository, f"/issues/{issue.number}")
        html = self.show.html(repository, f"/{'pull' if issue.pull else 'issues'}/{issue.number}")
        shown: Json = {
            "id": issue.id,
            "node_id": node_id("Issue", issue.id),
            "number": issue.number,
            "url": url,
            "repository_url": self.show.at(repository),
            "labels_url": f"{url}/labels{{/name}}",
            "comments_url": f"{url}/comments",
            "events_url": f"{url}/events",
            "html_url": html,
            "title": issue.title,
            "body": issue.body,
            "user": self.show.user(issue.user),
            "labels": [self.label(repository, label) for label in issue.labels],
            "state": issue.state,
            "locked": False,
            "assignee": None,
            "assignees": [],
            "milestone": None,
            "comments": sum(c.number == issue.number for c in repository.comments.values()),
            "created_at": stamp(issue.created),
            "updated_at": stamp(issue.updated),
            "closed_at": stamp(issue.closed),
            "author_association": self.association(repository, issue.user),
            "active_lock_reason": None,
            "reactions": self.reactions(repository, ("issue", issue.number), url),
        }
        if issue.pull is not None:
            pull = self.show.at(repository, f"/pulls/{issue.number}")
            links = {"url": pull, "html_url": html, "diff_url": f"{html}.diff", "patch_url": f"{html}.patch"}
            shown |= {"pull_request": links | {"merged_at": stamp(issue.pull.merged)}, "draft": issue.pull.draft}
        return shown

    def create_comment(self, repository: Repository, issue: Issue, user: Account, body: str, by_app: bool) -> Comment:
        comment = Comment(self.show.world.next_id(), issue.number, user, body, by_app)
        repository.comments[comment.id] = comment
        self.tell(repository, comment, "created")
        return comment

    def tell(self, repository: Repository, comment: Comment, action: str, before: str = "") -> None:
        payload = {
            "action": action,
            "issue": self.issue(repository, repository.issues[comment.number]),
            "comment": self.comment(repository, comment),
            "sender": self.show.user(comment.user),
        }
        if action == "edited":
            payload["changes"] = {"body": {"from": before}}
        self.show.world.emit("issue_comment", payload, repository)


def routes(issues: Issues) -> Routes:
    table = Routes()
    read, write = "issues|pull_requests:read", "issues|pull_requests:write"
    base = "/repos/{owner}/{repo}"

    def issue_of(call: Call) -> Issue:
        found = call.repository.issues.get(call.number("issue_number"))
        if found is None:
            raise not_found()
        return found

    def comment_of(call: Call) -> Comment:
        found = call.repository.comments.get(call.number("comment_id"))
        if found is None:
            raise not_found()
        return found

    @table.get(f"{base}/issues/{{issue_number}}", read)
    async def issue(call: Call) -> Answer:
        return Answer.of(issues.issue(call.repository, issue_of(call)))

    @table.get(f"{base}/issues/{{issue_number}}/comments", read)
    async def comments(call: Call) -> Answer:
        number = issue_of(call).number
        found = [c for c in call.repository.comments.values() if c.number == number]
        return call.page([issues.comment(call.repository, c) for c in found])

    @table.post(f"{base}/issues/{{issue_number}}/comments", write)
    async def create_comment(call: Call) -> Answer:
        body = str(call.json().get("body", ""))
        if not body or len(body) > 65536:
            raise Refusal(422, "Validation Failed: body is missing or too long")
        by_app = call.actor.installation is not None
        made = issues.create_comment(call.repository, issue_of(call), call.account, body, by_app)
        return Answer.of(issues.comment(call.repository, made), 201)

    @table.get(f"{base}/issues/comments/{{comment_id}}", read)
    async def comment(call: Call) -> Answer:
        return Answer.of(issues.comment(call.repository, comment_of(call)))

    @table.patch(f"{base}/issues/comments/{{comment_id}}", write)
    async def update_comment(call: Call) -> Answer:
        found = comment_of(call)
        before, found.body, found.updated = found.body, str(call.json().get("body", "")), now()
        issues.tell(call.repository, found, "edited", before)
        return Answer.of(issues.comment(call.repository, found))

    @table.delete(f"{base}/issues/comments/{{comment_id}}", write)
    async def delete_comment(call: Call) -> Answer:
        del call.repository.comments[comment_of(call).id]
        return Answer.empty()

    def react(call: Call, subject: Subject) -> Answer:
        content = call.json().get("content")
        if content not in CONTENTS:
            raise Refusal(422, "Validation Failed: content is not a reaction")
        for reaction in call.repository.reactions.values():
            if (reaction.subject, reaction.user, reaction.content) == (subject, call.account, content):
                return Answer.of(issues.reaction(reaction), 200)
        made = Reaction(call.world.next_id(), subject, call.account, content)
        call.repository.reactions[made.id] = made
        return Answer.of(issues.reaction(made), 201)

    def reactions(call: Call, subject: Subject) -> Answer:
        found = [r for r in call.repository.reactions.values() if r.subject == subject]
        return call.page([issues.reaction(r) for r in found])

    @table.post(f"{base}/issues/comments/{{comment_id}}/reactions", write)
    async def react_to_comment(call: Call) -> Answer:
        return react(call, ("comment", comment_of(call).id))

    @table.get(f"{base}/issues/comments/{{comment_id}}/reactions", read)
    async def comment_reactions(call: Call) -> Answer:
        return reactions(call, ("comment", comment_of(call).id))

    @table.post(f"{base}/issues/{{issue_number}}/reactions", write)
    async def react_to_issue(call: Call) -> Answer:
        return react(call, ("issue", issue_of(call).number))

    @table.get(f"{base}/issues/{{issue_number}}/reactions", read)
    async def issue_reactions(call: Call) -> Answer:
        return reactions(call, ("issue", issue_of(call).number))

    @table.get(f"{base}/labels", read)
    async def labels(call: Call) -> Answer:
        return call.page([issues.label(call.repository, label) for label in call.repository.labels.values()])

    @table.post(f"{base}/labels", write)
    async def create_label(call: Call) -> Answer:
        wanted = call.json()
        name = str(wanted.get("name", ""))
        if name in call.repository.labels:
            raise Refusal(422, "Validation Failed", [{"resource": "Label", "code": "already_exists", "field": "name"}])
        label = Label(call.world.next_id(), name, wanted.get("color") or "ededed", wanted.get("description") or "")
        call.repository.labels[name] = label
        return Answer.of(issues.label(call.repository, label), 201)

    @table.get(f"{base}/issues/{{issue_number}}/labels", read)
    async def issue_labels(call: Call) -> Answer:
        return call.page([issues.label(call.repository, label) for label in issue_of(call).labels])

    @table.post(f"{base}/issues/{{issue_number}}/labels", write)
    async def add_labels(call: Call) -> Answer:
        found, repository = issue_of(call), call.repository
        for name in call.json().get("labels", []):
            label = repository.labels.setdefault(name, Label(call.world.next_id(), name))
            if label not in found.labels:
                found.labels.append(label)
        return Answer.of([issues.label(repository, label) for label in found.labels])

    return table
