"""Git objects and refs over REST, written with real plumbing into the repositories that are also cloned and pushed to."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime
from fnmatch import fnmatch

from tests.standins.github.git.plumbing import GitError, Signature
from tests.standins.github.routing import Answer, Call, Refusal, Routes, not_found
from tests.standins.github.serialise import Serialiser
from tests.standins.github.state import Json, Repository, now
from tests.standins.github.world import Push

MODES = {"100644", "100755", "040000", "160000", "120000"}


def _signature(given: Json | None, fallback: Signature) -> Signature:
    if not given:
        return fallback
    date = datetime.fromisoformat(given["date"]) if given.get("date") else fallback.date
    return Signature(given.get("name") or fallback.name, given.get("email") or fallback.email, date)


def routes(show: Serialiser) -> Routes:
    table = Routes()

    async def one_ref(call: Call) -> Answer:
        name = f"refs/{call.params['ref']}"
        sha = await call.repository.git.ref(name)
        if sha is None:
            raise not_found()
        return Answer.of(show.git_ref(call.repository, name, sha))

    table.get("/repos/{owner}/{repo}/git/ref/{ref*}", "contents:read")(one_ref)

    @table.get("/repos/{owner}/{repo}/git/matching-refs/{ref*}", "contents:read")
    async def matching(call: Call) -> Answer:
        refs = await call.repository.git.refs(f"refs/{call.params['ref']}")
        return Answer.of([show.git_ref(call.repository, name, sha) for name, sha in refs.items()])

    @table.post("/repos/{owner}/{repo}/git/refs", "contents:write")
    async def create_ref(call: Call) -> Answer:
        wanted, repository = call.json(), call.repository
        name, sha = str(wanted.get("ref", "")), str(wanted.get("sha", ""))
        if not name.startswith("refs/") or name.count("/") < 2:
            raise Refusal(422, "Reference name must start with 'refs/' and contain at least two slashes.")
        if await repository.git.ref(name) is not None:
            raise Refusal(422, "Reference already exists")
        if await repository.git.resolve(sha) != sha:
            raise Refusal(422, "Object does not exist")
        if fnmatch(name.removeprefix("refs/heads/"), repository.protected):
            raise Refusal(422, "Reference update failed")  # https://github.com/github/rest-api-description/issues/4887
        await _follow_rules(repository, name, sha, is_new=True)
        if not call.actor.may(repository, "workflows:write") and await _workflows(repository, sha) != await _workflows(
            repository, f"refs/heads/{repository.default_branch}"
        ):
            # https://docs.github.com/rest/git/refs#create-a-reference: "contents" and "workflows" if workflow files differ
            # https://docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api: 404 hides what is private
            raise not_found() if repository.private else Refusal(403, "Resource not accessible by integration")
        try:
            await repository.git.create_ref(name, sha)
        except GitError:
            raise Refusal(422, "Reference update failed") from None
        await _moved(call, name, None, sha)
        return Answer.of(show.git_ref(repository, name, sha), 201)

    @table.patch("/repos/{owner}/{repo}/git/refs/{ref*}", "contents:write")
    async def update_ref(call: Call) -> Answer:
        wanted, repository = call.json(), call.repository
        name, sha = f"refs/{call.params['ref']}", str(wanted.get("sha", ""))
        old = await repository.git.ref(name)
        if old is None:
            raise Refusal(422, "Reference does not exist")
        if await repository.git.resolve(sha) != sha:
            raise Refusal(422, "Object does not exist")
        if not wanted.get("force") and not await repository.git.is_ancestor(old, sha):
            raise Refusal(422, "Update is not a fast forward")
        await _follow_rules(repository, name, sha, is_new=False)
        await repository.git.set_ref(name, sha, old)
        await _moved(call, name, old, sha)
        return Answer.of(show.git_ref(repository, name, sha))

    @table.delete("/repos/{owner}/{repo}/git/refs/{ref*}", "contents:write")
    async def delete_ref(call: Call) -> Answer:
        name = f"refs/{call.params['ref']}"
        old = await call.repository.git.ref(name)
        if old is None:
            raise Refusal(422, "Reference does not exist")
        await call.repository.git.delete_ref(name)
        await _moved(call, name, old, None)
        return Answer.empty()

    async def _follow_rules(repository: Repository, name: str, sha: str, *, is_new: bool) -> None:
        """Raises `Refusal` (422), which names every rule that is violated.

        https://docs.github.com/repositories/configuring-branches-and-merges-in-your-repository/managing-rulesets/available-rules-for-rulesets
        """
        rules, wrong = repository.ruleset, []
        if is_new and rules.restricts_creations:
            wrong.append("Cannot create ref due to creations being restricted.")
        if is_new and not re.search(rules.branch_name, name.removeprefix("refs/heads/")):
            wrong.append(f"Branch name must match a given regex pattern: {rules.branch_name}")
        commits = await repository.git.new_commits(sha)
        if not all(re.search(rules.commit_message, commit.message) for commit in commits):
            wrong.append(f"Commit message must match a given regex pattern: {rules.commit_message}")
        if rules.requires_signatures and any(commit.sha not in repository.verified for commit in commits):
            wrong.append("Commits must have verified signatures.")
        if wrong and name.startswith("refs/heads/"):
            raise Refusal(422, "\n\n".join(["Repository rule violations found", *wrong, ""]))

    async def _workflows(repository: Repository, revision: str) -> str | None:
        folder = await repository.git.entry(revision, ".github/workflows")
        return folder.sha if folder is not None else None

    async def _moved(call: Call, name: str, old: str | None, new: str | None) -> None:
        if name.startswith("refs/heads/") and old != new:
            await call.world.pushed(Push(call.repository, name.removeprefix("refs/heads/"), old, new, call.account))

    @table.get("/repos/{owner}/{repo}/git/commits/{commit_sha}", "contents:read")
    async def commit(call: Call) -> Answer:
        sha = await call.repository.git.resolve(call.params["commit_sha"])
        if sha is None or sha != call.params["commit_sha"]:
            raise not_found()
        return Answer.of(show.git_commit(call.repository, await call.repository.git.commit(sha)))

    @table.post("/repos/{owner}/{repo}/git/commits", "contents:write")
    async def create_commit(call: Call) -> Answer:
        wanted, repository = call.json(), call.repository
        tree = await repository.git.resolve(str(wanted.get("tree", "")), "tree")
        parents = tuple(wanted.get("parents") or ())
        if tree is None:
            raise Refusal(422, "Tree SHA does not exist")
        if any([await repository.git.resolve(parent) != parent for parent in parents]):
            raise Refusal(422, "Parent SHA does not exist or is not a commit object")
        caller = call.account
        me = Signature(caller.login, f"{caller.id}+{caller.login}@users.noreply.github.com", now())
        by_app = call.actor.installation is not None and not wanted.get("author") and not wanted.get("committer")
        author = _signature(wanted.get("author"), me)
        github = Signature("GitHub", "noreply@github.com", now())
        committer = github if by_app else _signature(wanted.get("committer"), author)
        sha = await repository.git.write_commit(tree, parents, str(wanted.get("message", "")), author, committer)
        if by_app:
            repository.verified.add(sha)
        return Answer.of(show.git_commit(repository, await repository.git.commit(sha)), 201)

    @table.get("/repos/{owner}/{repo}/git/trees/{tree_sha*}", "contents:read")
    async def tree(call: Call) -> Answer:
        git, recursive = call.repository.git, "recursive" in call.query
        sha = await git.resolve(call.params["tree_sha"], "tree")
        if sha is None:
            raise not_found()
        return Answer.of(await _tree(call, sha, recursive))

    async def _tree(call: Call, sha: str, recursive: bool = False) -> Json:
        entries = await call.repository.git.entries(sha, recursive)
        shown = [show.tree_entry(call.repository, entry) for entry in entries]
        return {"sha": sha, "url": show.at(call.repository, f"/git/trees/{sha}"), "tree": shown, "truncated": False}

    @table.post("/repos/{owner}/{repo}/git/trees", "contents:write")
    async def create_tree(call: Call) -> Answer:
        wanted, git = call.json(), call.repository.git
        base = None
        if wanted.get("base_tree"):
            base = await git.resolve(str(wanted["base_tree"]), "tree")
            if base is None:
                raise Refusal(404, "Not Found")
        changes: dict[str, tuple[str, str] | None] = {}
        for entry in wanted.get("tree", []):
            path, mode = str(entry.get("path", "")), str(entry.get("mode", "100644"))
            if mode not in MODES or not path or path.startswith("/") or ".." in path.split("/"):
                raise Refusal(422, "tree.path or tree.mode is malformed")
            if "content" in entry:
                changes[path] = (mode, await git.write_blob(str(entry["content"]).encode()))
            else:
                changes[path] = None if entry.get("sha") is None else (mode, str(entry["sha"]))
        for path, change in changes.items():
            if change is not None and await git.resolve(change[1], "object") is None:
                raise Refusal(422, f"tree.sha {change[1]} is not a valid blob ({path})")
        try:
            sha = await git.write_tree(base, changes)
        except GitError as error:
            raise Refusal(422, f"GitRPC::BadObjectState: {error}") from None
        return Answer.of(await _tree(call, sha), 201)

    @table.get("/repos/{owner}/{repo}/git/blobs/{file_sha}", "contents:read")
    async def blob(call: Call) -> Answer:
        sha = await call.repository.git.resolve(call.params["file_sha"], "blob")
        if sha is None:
            raise not_found()
        data = await call.repository.git.blob(sha)
        if "raw" in call.headers.get("accept", ""):
            return Answer(200, data, {"content-type": "application/vnd.github.raw; charset=utf-8"})
        shown = {
            "sha": sha,
            "node_id": f"B_{sha}",
            "size": len(data),
            "url": show.at(call.repository, f"/git/blobs/{sha}"),
            "content": base64.encodebytes(data).decode(),
            "encoding": "base64",
        }
        return Answer.of(shown)

    @table.post("/repos/{owner}/{repo}/git/blobs", "contents:write")
    async def create_blob(call: Call) -> Answer:
        wanted = call.json()
        try:
            data = str(wanted["content"]).encode()
            if wanted.get("encoding") == "base64":
                data = base64.b64decode(data)
        except (KeyError, binascii.Error):
            raise Refusal(422, "content is missing or is not valid Base64") from None
        sha = await call.repository.git.write_blob(data)
        return Answer.of({"sha": sha, "url": show.at(call.repository, f"/git/blobs/{sha}")}, 201)

    return table
