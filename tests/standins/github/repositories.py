"""Repositories read over REST: metadata, files, branches, commits, comparisons, archives; users and their permission."""

from __future__ import annotations

import base64
import posixpath
from dataclasses import replace
from urllib.parse import quote

from tests.standins.github.downloads import Downloads
from tests.standins.github.git.plumbing import Entry
from tests.standins.github.routing import Answer, Call, Refusal, Routes, not_found
from tests.standins.github.serialise import Serialiser, node_id
from tests.standins.github.state import Json, Repository


async def commit_at(repository: Repository, ref: str) -> str:
    """The commit that a ref of a URL names. Raises `Refusal` (404)."""
    sha = await repository.git.resolve(ref) or await repository.git.resolve(f"refs/{ref}")
    if sha is None:
        raise Refusal(404, f"No commit found for the ref {ref}")
    return sha


def routes(show: Serialiser, downloads: Downloads) -> Routes:
    table = Routes()

    def content(call: Call, entry: Entry, ref: str) -> Json:
        repository = call.repository
        kind = {"blob": "file", "tree": "dir", "commit": "submodule"}[entry.kind]
        if entry.mode == "120000":
            kind = "symlink"
        url = show.at(repository, f"/contents/{quote(entry.path)}?ref={quote(ref)}")
        git_url = show.at(repository, f"/git/{'trees' if kind == 'dir' else 'blobs'}/{entry.sha}")
        html = show.html(repository, f"/{'tree' if kind == 'dir' else 'blob'}/{quote(ref)}/{quote(entry.path)}")
        return {
            "type": kind,
            "name": entry.path.rsplit("/", 1)[-1],
            "path": entry.path,
            "sha": entry.sha,
            "size": entry.size or 0,
            "url": url,
            "git_url": git_url,
            "html_url": html,
            "download_url": None if kind == "dir" else show.html(repository, f"/raw/{quote(ref)}/{quote(entry.path)}"),
            "_links": {"self": url, "git": git_url, "html": html},
        }

    @table.get("/repos/{owner}/{repo}", "metadata:read")
    async def get(call: Call) -> Answer:
        return Answer.of(show.full_repository(call.repository))

    async def contents(call: Call) -> Answer:
        repository, path = call.repository, call.params.get("path", "").strip("/")
        ref = call.query.get("ref") or repository.default_branch
        commit = await commit_at(repository, ref)
        entry = await repository.git.entry(commit, path) if path else Entry("040000", "tree", commit, None, "")
        if entry is None:
            raise not_found()
        if entry.kind == "tree":
            prefix = f"{path}/" if path else ""
            inside = await repository.git.entries(entry.sha)
            found = [Entry(e.mode, e.kind, e.sha, e.size, prefix + e.path) for e in inside]
            return Answer.of([content(call, each, ref) for each in found])
        data = await repository.git.blob(entry.sha)
        if entry.mode == "120000":
            # It is followed to a normal file: https://docs.github.com/rest/repos/contents#get-repository-content
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), data.decode()))
            there = None if target.startswith(("/", "..")) else await repository.git.entry(commit, target)
            if there is not None and there.kind == "blob" and there.mode != "120000":
                entry = replace(there, path=entry.path)
                data = await repository.git.blob(entry.sha)
        if "raw" in call.headers.get("accept", ""):
            return Answer(200, data, {"content-type": "application/vnd.github.raw; charset=utf-8"})
        # Above 1 MB only the blob has the content.
        small = len(data) <= 1024 * 1024
        encoded = {"encoding": "base64", "content": base64.encodebytes(data).decode()} if small else {"encoding": "none"}
        return Answer.of(content(call, entry, ref) | {"content": ""} | encoded)

    table.get("/repos/{owner}/{repo}/contents/{path*}", "contents:read")(contents)
    table.get("/repos/{owner}/{repo}/contents/", "contents:read")(contents)

    @table.get("/repos/{owner}/{repo}/branches", "contents:read")
    async def branches(call: Call) -> Answer:
        refs = await call.repository.git.refs("refs/heads/")
        shown = [
            {
                "name": name.removeprefix("refs/heads/"),
                "commit": {"sha": sha, "url": show.at(call.repository, f"/commits/{sha}")},
                "protected": False,
            }
            for name, sha in refs.items()
        ]
        return call.page(shown)

    @table.get("/repos/{owner}/{repo}/branches/{branch*}", "contents:read")
    async def branch(call: Call) -> Answer:
        repository, name = call.repository, call.params["branch"]
        sha = await repository.git.ref(f"refs/heads/{name}")
        if sha is None:
            raise Refusal(404, "Branch not found")
        url = show.at(repository, f"/branches/{quote(name)}")
        shown = {
            "name": name,
            "commit": show.commit(repository, await repository.git.commit(sha)),
            "_links": {"self": url, "html": show.html(repository, f"/tree/{quote(name)}")},
            "protected": False,
            "protection": {"enabled": False},
            "protection_url": f"{url}/protection",
        }
        return Answer.of(shown)

    @table.get("/repos/{owner}/{repo}/tags", "metadata:read")
    async def tags(call: Call) -> Answer:
        repository, shown = call.repository, []
        for name in sorted(await repository.git.refs("refs/tags/"), reverse=True):
            sha = await repository.git.resolve(name)
            short = name.removeprefix("refs/tags/")
            shown.append(
                {
                    "name": short,
                    "commit": {"sha": sha, "url": show.at(repository, f"/commits/{sha}")},
                    "zipball_url": show.at(repository, f"/zipball/{quote(name)}"),
                    "tarball_url": show.at(repository, f"/tarball/{quote(name)}"),
                    "node_id": node_id("Tag", f"{repository.id}:{short}"),
                }
            )
        return call.page(shown)

    @table.get("/repos/{owner}/{repo}/commits", "contents:read")
    async def commits(call: Call) -> Answer:
        sha = await commit_at(call.repository, call.query.get("sha") or call.repository.default_branch)
        return call.page([show.commit(call.repository, c) for c in await call.repository.git.commits(sha)])

    @table.get("/repos/{owner}/{repo}/compare/{basehead*}", "contents:read")
    async def compare(call: Call) -> Answer:
        repository, git = call.repository, call.repository.git
        one, dots, other = call.params["basehead"].partition("...")
        if not dots:
            raise not_found()
        base, head = await commit_at(repository, one), await commit_at(repository, other)
        fork_point = await git.merge_base(base, head)
        if fork_point is None:
            raise Refusal(404, "No common ancestor between the two commits")
        if "diff" in call.headers.get("accept", ""):
            diff = await git.diff(fork_point, head)
            return Answer(200, diff.encode(), {"content-type": "application/vnd.github.diff; charset=utf-8"})
        # Without a parameter for pages, the newest 250 commits; with one, from the oldest on. Files are on the first page only.
        size, number = max(1, min(int(call.query.get("per_page", "30")), 100)), max(1, int(call.query.get("page", "1")))
        if not call.query.keys() & {"page", "per_page"}:
            listed = list(reversed(await git.commits(f"{base}..{head}")))
        else:
            listed = list(reversed(await git.commits(f"{base}..{head}", 10_000)))[(number - 1) * size : number * size]
        files = show.changes(repository, await git.changes(fork_point, head), head) if number == 1 else []
        ahead, behind = await git.count(f"{base}..{head}"), await git.count(f"{head}..{base}")
        page = show.html(repository, f"/compare/{quote(call.params['basehead'])}")
        status = {(False, False): "identical", (True, False): "ahead", (False, True): "behind", (True, True): "diverged"}
        shown = {
            "url": show.at(repository, f"/compare/{quote(call.params['basehead'])}"),
            "html_url": page,
            "permalink_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "base_commit": show.commit(repository, await git.commit(base)),
            "merge_base_commit": show.commit(repository, await git.commit(fork_point)),
            "status": status[ahead > 0, behind > 0],
            "ahead_by": ahead,
            "behind_by": behind,
            "total_commits": ahead,
            "commits": [show.commit(repository, commit) for commit in listed],
            "files": files,
        }
        return Answer.of(shown)

    async def tarball(call: Call) -> Answer:
        sha = await commit_at(call.repository, call.params.get("ref") or call.repository.default_branch)
        return Answer.redirect(downloads.tarball(call.repository, sha))

    table.get("/repos/{owner}/{repo}/tarball/{ref*}", "contents:read")(tarball)
    table.get("/repos/{owner}/{repo}/tarball", "contents:read")(tarball)

    @table.get("/repos/{owner}/{repo}/collaborators/{username}/permission", "metadata:read")
    async def permission(call: Call) -> Answer:
        account = call.world.accounts.get(call.params["username"])
        if account is None:
            raise Refusal(404, f"{call.params['username']} is not a user")
        level = call.repository.permission(account.login)
        allowed = {
            "pull": level != "none",
            "triage": level in ("write", "admin"),
            "push": level in ("write", "admin"),
            "maintain": level == "admin",
            "admin": level == "admin",
        }
        user = show.user(account) | {"permissions": allowed, "role_name": level}
        return Answer.of({"permission": level, "role_name": level, "user": user})

    @table.get("/users/{username}", None)
    async def user(call: Call) -> Answer:
        account = call.world.accounts.get(call.params["username"])
        if account is None:
            raise not_found()
        return Answer.of(show.public_user(account))

    return table


def commit_routes(show: Serialiser) -> Routes:
    """Last in the table: `{ref*}` would swallow `/commits/{ref}/status` and `/check-runs`."""
    table = Routes()

    @table.get("/repos/{owner}/{repo}/commits/{ref*}", "contents:read")
    async def one(call: Call) -> Answer:
        repository = call.repository
        sha = await commit_at(repository, call.params["ref"])
        commit = await repository.git.commit(sha)
        parent = commit.parents[0] if commit.parents else "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        files = await repository.git.changes(parent, sha)
        plus, minus = sum(f.additions for f in files), sum(f.deletions for f in files)
        stats = {"additions": plus, "deletions": minus, "total": plus + minus}
        shown = show.changes(repository, files, sha)
        return Answer.of(show.commit(repository, commit) | {"stats": stats, "files": shown})

    return table
