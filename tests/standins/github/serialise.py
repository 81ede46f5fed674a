"""Records and git objects as GitHub's JSON.

One shape serves REST and webhooks wherever both descriptions allow it; where REST asks for more, the function's name says so.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

from tests.standins.github.git.plumbing import Change, Commit, Entry
from tests.standins.github.state import Account, App, Installation, Json, Repository
from tests.standins.github.world import World


def stamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_id(kind: str, number: int | str) -> str:
    return base64.b64encode(f"0:{kind}{number}".encode()).decode()


class Serialiser:
    """Bound to a world because every shape is full of its URLs."""

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def url(self) -> str:
        return self.world.url

    def at(self, repository: Repository, path: str = "") -> str:
        return f"{self.url}/repos/{repository.full_name}{path}"

    def html(self, repository: Repository, path: str = "") -> str:
        return f"{self.world.site}/{repository.full_name}{path}"

    def user(self, account: Account) -> Json:
        name = quote(account.login)  # the brackets of "selfheal[bot]"
        one = f"{self.url}/users/{name}"
        return {
            "login": account.login,
            "id": account.id,
            "node_id": node_id("User", account.id),
            "avatar_url": f"{self.world.site}/avatars/{account.id}",
            "gravatar_id": "",
            "url": one,
            "html_url": f"{self.world.site}/{name}",
            "followers_url": f"{one}/followers",
            "following_url": f"{one}/following{{/other_user}}",
            "gists_url": f"{one}/gists{{/gist_id}}",
            "starred_url": f"{one}/starred{{/owner}}{{/repo}}",
            "subscriptions_url": f"{one}/subscriptions",
            "organizations_url": f"{one}/orgs",
            "repos_url": f"{one}/repos",
            "events_url": f"{one}/events{{/privacy}}",
            "received_events_url": f"{one}/received_events",
            "type": account.kind,
            "site_admin": False,
        }

    def public_user(self, account: Account) -> Json:
        nothing = dict.fromkeys(("bio", "blog", "company", "email", "hireable", "location", "name"))
        counts = dict.fromkeys(("followers", "following", "public_gists", "public_repos"), 0)
        moments = {"created_at": stamp(self.world.app.created), "updated_at": stamp(self.world.app.created)}
        return self.user(account) | nothing | counts | moments

    def app(self, app: App) -> Json:
        return {
            "id": app.id,
            "slug": app.slug,
            "node_id": node_id("App", app.id),
            "owner": self.user(app.owner),
            "name": app.name,
            "description": "",
            "external_url": self.world.site,
            "html_url": f"{self.world.site}/{'github-apps' if self.world.is_enterprise else 'apps'}/{app.slug}",
            "created_at": stamp(app.created),
            "updated_at": stamp(app.created),
            "permissions": app.permissions,
            "events": list(app.events),
        }

    def installation(self, installation: Installation) -> Json:
        one = f"{self.url}/app/installations/{installation.id}"
        return {
            "id": installation.id,
            "account": self.user(installation.account),
            "repository_selection": installation.selection,
            "access_tokens_url": f"{one}/access_tokens",
            "repositories_url": f"{self.url}/installation/repositories",
            "html_url": f"{self.world.site}/settings/installations/{installation.id}",
            "app_id": self.world.app.id,
            "app_slug": self.world.app.slug,
            "target_id": installation.account.id,
            "target_type": "Organization" if installation.account.kind == "Organization" else "User",
            "permissions": installation.permissions,
            "events": list(self.world.app.events),
            "created_at": stamp(installation.created),
            "updated_at": stamp(installation.created),
            "single_file_name": None,
            "suspended_by": self.user(installation.account) if installation.suspended else None,
            "suspended_at": stamp(installation.suspended),
        }

    def minimal_repository(self, repository: Repository) -> Json:
        one = self.at(repository)
        return {
            "id": repository.id,
            "node_id": node_id("Repository", repository.id),
            "name": repository.name,
            "full_name": repository.full_name,
            "private": repository.private,
            "owner": self.user(repository.owner),
            "html_url": self.html(repository),
            "description": None,
            "fork": repository.parent is not None,
            "url": one,
            "archive_url": f"{one}/{{archive_format}}{{/ref}}",
            "assignees_url": f"{one}/assignees{{/user}}",
            "blobs_url": f"{one}/git/blobs{{/sha}}",
            "branches_url": f"{one}/branches{{/branch}}",
            "collaborators_url": f"{one}/collaborators{{/collaborator}}",
            "comments_url": f"{one}/comments{{/number}}",
            "commits_url": f"{one}/commits{{/sha}}",
            "compare_url": f"{one}/compare/{{base}}...{{head}}",
            "contents_url": f"{one}/contents/{{+path}}",
            "contributors_url": f"{one}/contributors",
            "deployments_url": f"{one}/deployments",
            "downloads_url": f"{one}/downloads",
            "events_url": f"{one}/events",
            "forks_url": f"{one}/forks",
            "git_commits_url": f"{one}/git/commits{{/sha}}",
            "git_refs_url": f"{one}/git/refs{{/sha}}",
            "git_tags_url": f"{one}/git/tags{{/sha}}",
            "hooks_url": f"{one}/hooks",
            "issue_comment_url": f"{one}/issues/comments{{/number}}",
            "issue_events_url": f"{one}/issues/events{{/number}}",
            "issues_url": f"{one}/issues{{/number}}",
            "keys_url": f"{one}/keys{{/key_id}}",
            "labels_url": f"{one}/labels{{/name}}",
            "languages_url": f"{one}/languages",
            "merges_url": f"{one}/merges",
            "milestones_url": f"{one}/milestones{{/number}}",
            "notifications_url": f"{one}/notifications{{?since,all,participating}}",
            "pulls_url": f"{one}/pulls{{/number}}",
            "releases_url": f"{one}/releases{{/id}}",
            "stargazers_url": f"{one}/stargazers",
            "statuses_url": f"{one}/statuses/{{sha}}",
            "subscribers_url": f"{one}/subscribers",
            "subscription_url": f"{one}/subscription",
            "tags_url": f"{one}/tags",
            "teams_url": f"{one}/teams",
            "trees_url": f"{one}/git/trees{{/sha}}",
        }

    def repository(self, repository: Repository) -> Json:
        zero = (
            "size",
            "stargazers_count",
            "watchers_count",
            "forks_count",
            "open_issues_count",
            "forks",
            "open_issues",
            "watchers",
        )
        off = ("has_projects", "has_wiki", "has_pages", "has_discussions", "archived", "disabled", "is_template")
        host = self.world.site.removeprefix("http://")
        return self.minimal_repository(repository) | {
            **dict.fromkeys(zero, 0),
            **dict.fromkeys(off, False),
            "has_issues": True,
            "has_downloads": True,
            "web_commit_signoff_required": False,
            "created_at": stamp(repository.created),
            "updated_at": stamp(repository.created),
            "pushed_at": stamp(repository.pushed),
            "git_url": f"git://{host}/{repository.full_name}.git",
            "ssh_url": f"git@{host}:{repository.full_name}.git",
            "clone_url": f"{self.html(repository)}.git",
            "svn_url": self.html(repository),
            "homepage": None,
            "language": "Python",
            "mirror_url": None,
            "license": None,
            "default_branch": repository.default_branch,
            "topics": [],
            "visibility": "private" if repository.private else "public",
            "custom_properties": {},
        }

    def full_repository(self, repository: Repository) -> Json:
        shown = self.repository(repository) | {"network_count": 0, "subscribers_count": 0}
        if repository.parent is not None:
            shown |= {"parent": self.repository(repository.parent), "source": self.repository(repository.parent)}
        return shown

    # Git objects

    def git_ref(self, repository: Repository, name: str, sha: str) -> Json:
        return {
            "ref": name,
            "node_id": node_id("Ref", f"{repository.id}:{name}"),
            "url": self.at(repository, f"/git/{name}"),
            "object": {"type": "commit", "sha": sha, "url": self.at(repository, f"/git/commits/{sha}")},
        }

    def _signatures(self, commit: Commit) -> Json:
        return {
            role: {"name": who.name, "email": who.email, "date": stamp(who.date)}
            for role, who in (("author", commit.author), ("committer", commit.committer))
        }

    def _verification(self, repository: Repository, commit: Commit) -> Json:
        if commit.sha in repository.verified:
            signed = {"signature": "-----BEGIN PGP SIGNATURE-----", "payload": f"tree {commit.tree}"}
            return {"verified": True, "reason": "valid", **signed, "verified_at": stamp(commit.committer.date)}
        return {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}

    def git_commit(self, repository: Repository, commit: Commit) -> Json:
        return self._signatures(commit) | {
            "sha": commit.sha,
            "node_id": node_id("Commit", commit.sha),
            "url": self.at(repository, f"/git/commits/{commit.sha}"),
            "html_url": self.html(repository, f"/commit/{commit.sha}"),
            "tree": {"sha": commit.tree, "url": self.at(repository, f"/git/trees/{commit.tree}")},
            "message": commit.message,
            "parents": [
                {
                    "sha": sha,
                    "url": self.at(repository, f"/git/commits/{sha}"),
                    "html_url": self.html(repository, f"/commit/{sha}"),
                }
                for sha in commit.parents
            ],
            "verification": self._verification(repository, commit),
        }

    def commit(self, repository: Repository, commit: Commit) -> Json:
        inner = self._signatures(commit) | {
            "message": commit.message,
            "tree": {"sha": commit.tree, "url": self.at(repository, f"/git/trees/{commit.tree}")},
            "url": self.at(repository, f"/git/commits/{commit.sha}"),
            "comment_count": 0,
            "verification": self._verification(repository, commit),
        }
        return {
            "sha": commit.sha,
            "node_id": node_id("Commit", commit.sha),
            "commit": inner,
            "url": self.at(repository, f"/commits/{commit.sha}"),
            "html_url": self.html(repository, f"/commit/{commit.sha}"),
            "comments_url": self.at(repository, f"/commits/{commit.sha}/comments"),
            "author": None,
            "committer": None,
            "parents": [
                {
                    "sha": sha,
                    "url": self.at(repository, f"/commits/{sha}"),
                    "html_url": self.html(repository, f"/commit/{sha}"),
                }
                for sha in commit.parents
            ],
        }

    def simple_commit(self, commit: Commit) -> Json:
        """The head commit inside runs, suites and their deliveries."""
        return {
            "id": commit.sha,
            "tree_id": commit.tree,
            "message": commit.message,
            "timestamp": stamp(commit.committer.date),
            "author": {"name": commit.author.name, "email": commit.author.email},
            "committer": {"name": commit.committer.name, "email": commit.committer.email},
        }

    def tree_entry(self, repository: Repository, entry: Entry) -> Json:
        shown: Json = {"path": entry.path, "mode": entry.mode, "type": entry.kind, "sha": entry.sha}
        if entry.size is not None:
            shown["size"] = entry.size
        kind = {"blob": "blobs", "tree": "trees", "commit": "commits"}[entry.kind]
        return shown | {"url": self.at(repository, f"/git/{kind}/{entry.sha}")}

    def change(self, repository: Repository, change: Change, commit: str) -> Json:
        shown = {
            "sha": change.sha,
            "filename": change.path,
            "status": change.status,
            "additions": change.additions,
            "deletions": change.deletions,
            "changes": change.additions + change.deletions,
            "blob_url": self.html(repository, f"/blob/{commit}/{quote(change.path)}"),
            "raw_url": self.html(repository, f"/raw/{commit}/{quote(change.path)}"),
            "contents_url": self.at(repository, f"/contents/{quote(change.path)}?ref={commit}"),
        }
        if change.old_path is not None:
            shown["previous_filename"] = change.old_path
        return shown | ({"patch": change.patch} if change.patch is not None else {})

    def changes(self, repository: Repository, changes: list[Change], commit: str) -> list[Json]:
        """A whole difference within GitHub's limits: 300 files; patches that are too large, alone or with those before, lack.

        https://docs.github.com/repositories/creating-and-managing-repositories/repository-limits#diff-limits
        """
        shown = []
        size = lines = 0
        for change in changes[:300]:
            own_size, own_lines = len((change.patch or "").encode()), (change.patch or "").count("\n")
            fits = own_size <= 500_000 and own_lines <= 20_000 and size + own_size <= 1_000_000 and lines + own_lines <= 20_000
            if fits:
                size, lines = size + own_size, lines + own_lines
            shown.append(self.change(repository, change if fits else replace(change, patch=None), commit))
        return shown
