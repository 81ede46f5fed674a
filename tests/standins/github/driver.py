"""`GitHub`: the stand-in as one object that tests and the demo drive.

```python
async with GitHub() as github:
    github.deliver_to("http://127.0.0.1:8000/webhooks/github")
    await github.create_repository("acme/sample", {"a.py": "x = 1\\n"})
    await github.push("acme/sample", "main", {"a.py": "x = 2\\n"}, "Break it")
    await github.settled()
    assert github.requests[-1] == "POST /repos/acme/sample/pulls > 201"
```
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from tests.standins.github import apps, issues, pulls, repositories
from tests.standins.github.auth import Tokens, private_pem
from tests.standins.github.ci import actions, checks
from tests.standins.github.ci.runner import Runner
from tests.standins.github.ci.runs import Runs
from tests.standins.github.deliveries import Attempt, Deliveries
from tests.standins.github.downloads import Downloads
from tests.standins.github.faults import Faults
from tests.standins.github.git import objects
from tests.standins.github.git.plumbing import BareRepository, Commit, Signature, git
from tests.standins.github.limits import WriteLimits
from tests.standins.github.routing import Call, Routes
from tests.standins.github.serialise import Serialiser
from tests.standins.github.server import PREFIX, Api, Enterprise, Judge
from tests.standins.github.state import (
    App,
    CheckRun,
    Comment,
    Installation,
    Issue,
    Json,
    PullRequest,
    Reaction,
    Repository,
    WorkflowRun,
    now,
)
from tests.standins.github.world import Push, World
from tests.standins.sockets import listening

Files = Mapping[str, str | bytes | None]  # path -> content; None deletes


class Violations(AssertionError):
    """Requests, answers or deliveries that GitHub's own descriptions do not allow."""


class GitHub:
    """A local GitHub; `async with` starts and stops it.

    Judged, it uses GitHub's OpenAPI description and webhook schema where they can be found, and what they do not allow is
    raised (`Violations`) when the context closes without another exception. `judged=False` is for where people look around.

    `enterprise`: as GitHub Enterprise Server without subdomain isolation, one origin for everything: the API below `/api/v3`,
    archives below `/_codeload`, logs below `/_services`. Its rate limits are off, as they are by default.
    https://docs.github.com/enterprise-server@3.14/rest/using-the-rest-api/getting-started-with-the-rest-api
    https://docs.github.com/enterprise-server@3.14/rest/using-the-rest-api/rate-limits-for-the-rest-api
    """

    def __init__(
        self,
        *,
        webhook_secret: str = "a secret of the tests",
        app_slug: str = "selfheal",
        judged: bool = True,
        enterprise: bool = False,
    ) -> None:
        self.webhook_secret = webhook_secret
        self._judged = judged
        self._folder = Path(tempfile.mkdtemp(prefix="github-"))
        self.world = World(self._folder, app_slug, enterprise=enterprise)
        show = Serialiser(self.world)
        self.tokens = Tokens(self.world)
        self.faults = Faults()
        self.downloads = Downloads(self.world)
        judge, delivery_judge = _judges() if judged else (None, None)
        self._deliveries = Deliveries(self.world, show, webhook_secret, delivery_judge)
        self.world.emitter = self._deliveries
        self._issues = issues.Issues(show)
        self._pulls = pulls.Pulls(self.world, show, self._issues)
        self._checks = checks.Checks(self.world, show, self._pulls)
        shapes = Runs(show, self._pulls)
        self.runner = Runner(self.world, self._checks, shapes)
        self.world.listeners = [self._pulls, self._checks, self.runner]
        self._show = show
        table = Routes()
        for part in (
            apps.routes(show, self.tokens, self._deliveries),
            repositories.routes(show, self.downloads),
            objects.routes(show),
            issues.routes(self._issues),
            pulls.routes(self._pulls),
            checks.routes(self._checks),
            actions.routes(shapes, self.runner, self.downloads),
            repositories.commit_routes(show),
        ):
            table.table += part.table
        self.api = Api(self.world, self.tokens, self.faults, self.downloads, table, judge)
        self.site = Enterprise(self.world, self.api, self.downloads) if enterprise else self.api
        self._open = contextlib.AsyncExitStack()

    # Start and stop

    async def __aenter__(self) -> GitHub:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if error is None and self._judged:
            self.raise_violations()

    async def start(self, port: int = 0) -> None:
        """Open both origins on 127.0.0.1."""
        own = await self._open.enter_async_context(listening(self.site, port))
        self.world.url = self.world.site = self.world.downloads_url = f"http://127.0.0.1:{own}"
        if self.world.is_enterprise:
            self.world.url += PREFIX
        else:
            other = await self._open.enter_async_context(listening(self.downloads))
            self.world.downloads_url = f"http://localhost:{other}"

    async def stop(self) -> None:
        await self.world.cancel()
        await self._open.aclose()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def violations(self) -> list[str]:
        leaks = [f"a token was sent to the download host: {path}" for path in self.downloads.leaks]
        failures = [f"the stand-in failed: {error!r}" for error in self.world.failures]
        return self.api.violations + self._deliveries.violations + leaks + failures

    def raise_violations(self) -> None:
        """Raises `Violations` when anything was wrong so far."""
        if self.violations:
            raise Violations("\n".join(self.violations))

    async def settled(self) -> None:
        """Wait until no workflow runs and no delivery is under way."""
        await self.world.settled()

    # What the product is configured with

    @property
    def url(self) -> str:
        """The API's URL; git lives under it too (`{url}/owner/name.git`), except on Enterprise Server."""
        return self.world.url

    @property
    def app_id(self) -> int:
        return self.world.app.id

    @property
    def private_key(self) -> str:
        return private_pem()

    def deliver_to(self, url: str | None) -> None:
        """Where deliveries go from now on; None: they are only written to the log."""
        self._deliveries.url = url

    # Accounts and repositories

    def user_token(self, login: str) -> str:
        """A personal token, for REST and as a git password."""
        return self.tokens.personal(self.world.account(login))

    def add_collaborator(self, repository: str, login: str, permission: str = "write") -> None:
        """Give a person admin, write or read on a repository."""
        self.world.account(login)
        self.repository(repository).collaborators[login] = permission

    def repository(self, full_name: str) -> Repository:
        """Raises `KeyError` for an unknown repository."""
        found = self.world.repository(full_name)
        if found is None:
            raise KeyError(full_name)
        return found

    async def create_repository(
        self,
        full_name: str,
        files: Files | None = None,
        *,
        default_branch: str = "main",
        private: bool = False,
        installed: bool = True,
    ) -> Repository:
        """A repository with one commit (which starts no workflow), seen by the App unless `installed` is False."""
        owner_name, name = full_name.split("/")
        owner = self.world.account(owner_name, "Organization")
        bare = BareRepository(self._folder / owner_name / f"{name}.git")
        await bare.create(default_branch)
        made = Repository(self.world.next_id(), owner, name, bare, default_branch, private)
        self.world.repositories[made.id] = made
        if installed and all(i.account is not owner for i in self.world.installations.values()):
            number = self.world.next_id()
            self.world.installations[number] = Installation(number, owner, dict(self.world.app.permissions))
        if files:
            await self._commit(made, default_branch, files, "First commit", owner_name)
        return made

    async def import_repository(self, full_name: str, checkout: Path, *, private: bool = False) -> Repository:
        """A repository made of a local checkout: all its branches; its current one becomes the default. Starts no workflow."""
        current = (await git("symbolic-ref", "--short", "HEAD", cwd=checkout)).decode().strip()
        made = await self.create_repository(full_name, default_branch=current, private=private)
        await made.git.run("fetch", "--quiet", str(checkout.resolve()), "+refs/heads/*:refs/heads/*", "--update-head-ok")
        return made

    async def fork(self, full_name: str, owner: str) -> Repository:
        """A fork under another account, with all branches; the App is not installed there."""
        parent = self.repository(full_name)
        made = await self.create_repository(f"{owner}/{parent.name}", default_branch=parent.default_branch, installed=False)
        made.parent = parent
        await made.git.run("fetch", "--quiet", str(parent.git.path), "+refs/heads/*:refs/heads/*")
        return made

    def remove_repository(self, full_name: str) -> None:
        """It is gone: 404 from now on."""
        gone = self.repository(full_name)
        del self.world.repositories[gone.id]

    # Git

    async def push(
        self,
        repository: str,
        branch: str,
        files: Files,
        message: str = "Change",
        author: str = "alice",
        *,
        base: str | None = None,
    ) -> str:
        """A commit on a branch (made from `base` or the default branch when it is new); starts workflows. Returns its sha."""
        of = self.repository(repository)
        before = await of.git.ref(f"refs/heads/{branch}")
        sha = await self._commit(of, branch, files, message, author, base)
        await self.world.pushed(Push(of, branch, before, sha, self.world.account(author)))
        return sha

    async def _commit(
        self, of: Repository, branch: str, files: Files, message: str, author: str, base: str | None = None
    ) -> str:
        old = await of.git.ref(f"refs/heads/{branch}")
        parent = old or await of.git.resolve(base or of.default_branch)
        changes: dict[str, tuple[str, str] | None] = {}
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            changes[path] = None if data is None else ("100644", await of.git.write_blob(data))
        tree = await of.git.write_tree(parent, changes)
        who = Signature(author, f"{author}@example.com", now())
        sha = await of.git.write_commit(tree, (parent,) if parent else (), message, who, who)
        await of.git.set_ref(f"refs/heads/{branch}", sha, old)
        return sha

    def large(self, repository: str, content: bytes) -> str:
        """The pointer for a content that is in Git LFS."""
        oid = hashlib.sha256(content).hexdigest()
        self.repository(repository).large[oid] = content
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n"

    async def tag(self, repository: str, name: str, revision: str = "HEAD") -> None:
        """A lightweight tag; starts workflows."""
        of = self.repository(repository)
        sha = await of.git.resolve(revision) or ""
        await of.git.create_ref(f"refs/tags/{name}", sha)
        await self.runner.tagged(of, name, sha, self.world.account("alice"))

    async def branches(self, repository: str) -> dict[str, str]:
        """Branch name -> sha."""
        refs = await self.repository(repository).git.refs("refs/heads/")
        return {name.removeprefix("refs/heads/"): sha for name, sha in refs.items()}

    async def rename_branch(self, repository: str, old: str, new: str) -> None:
        """A person renames a branch: the bases of open pull requests follow, and those whose head it is are closed.

        https://docs.github.com/repositories/configuring-branches-and-merges-in-your-repository/managing-branches-in-your-repository/renaming-a-branch
        """
        of = self.repository(repository)
        sha = await of.git.ref(f"refs/heads/{old}")
        assert sha is not None
        await of.git.create_ref(f"refs/heads/{new}", sha)
        await of.git.delete_ref(f"refs/heads/{old}")
        if of.default_branch == old:
            of.default_branch = new
        for pull in self.pull_requests(repository):
            if (pull.head_repository, pull.head_branch) == (of, old):
                await self.close_pull(repository, pull.number)
            elif pull.base_branch == old:
                pull.base_branch = new

    async def file(self, repository: str, path: str, ref: str) -> bytes:
        """A file's content at a branch or commit. Raises `GitError`."""
        return await self.repository(repository).git.run("cat-file", "blob", f"{ref}:{path}")

    async def commits(self, repository: str, revisions: str) -> list[Commit]:
        """Newest first; `revisions` is a branch, a sha, or a range like "main..topic"."""
        return await self.repository(repository).git.commits(revisions)

    # Pull requests, comments, checks, runs

    async def open_pull(
        self, repository: str, head: str, base: str = "main", *, title: str = "A change", body: str = "", login: str = "alice"
    ) -> PullRequest:
        """A person opens a pull request; `head` is "branch" or "owner:branch" of a fork. Workflows on pull_request start."""
        wanted: Json = {"head": head, "base": base, "title": title, "body": body}
        return await self._pulls.create(self.repository(repository), self.world.account(login), wanted)

    async def close_pull(self, repository: str, number: int, *, merged: bool = False, login: str = "alice") -> None:
        """Close a pull request, or merge it (its base then points at its head)."""
        of = self.repository(repository)
        pull = of.issues[number].pull
        assert pull is not None
        pull.issue.state, pull.issue.closed = "closed", now()
        if merged:
            pull.merged = now()
            before = await of.git.ref(f"refs/heads/{pull.base_branch}")
            await of.git.set_ref(f"refs/heads/{pull.base_branch}", pull.head_sha)
            await self.world.pushed(Push(of, pull.base_branch, before, pull.head_sha, self.world.account(login)))
        await self.world.pull_changed(of, pull, "closed", self.world.account(login))

    async def open_issue(self, repository: str, title: str, body: str = "", login: str = "alice") -> Issue:
        of = self.repository(repository)
        number = max(of.issues, default=0) + 1
        of.issues[number] = Issue(self.world.next_id(), number, self.world.account(login), title, body)
        return of.issues[number]

    async def comment(self, repository: str, number: int, login: str, body: str) -> Comment:
        """A person comments on an issue or pull request."""
        of = self.repository(repository)
        return self._issues.create_comment(of, of.issues[number], self.world.account(login), body, by_app=False)

    async def set_status(
        self,
        repository: str,
        sha: str,
        context: str,
        state: str,
        description: str | None = None,
        target_url: str | None = None,
        *,
        login: str = "jenkins",
    ) -> None:
        """Another CI service reports a commit status: "pending", "success", "failure" or "error"."""
        creator = self.world.account(login)
        await self._checks.report_status(self.repository(repository), sha, context, state, description, target_url, creator)

    def set_check(self, repository: str, sha: str, name: str, conclusion: str | None = None, **output: str) -> CheckRun:
        """Another CI service, an App, reports a check run: one that still runs, or one that ended so."""
        of = self.repository(repository)
        run = next((run for run in self.check_runs(repository, by_app=False) if (run.name, run.head_sha) == (name, sha)), None)
        if run is None:
            app = App(self.world.next_id(), "other-ci", "Other CI", self.world.account("other"))
            run = self._checks.open_run(of, self._checks.open_suite(of, app, sha, None), name)
            run.status, run.output = "in_progress", dict(output)
        if conclusion is not None:
            self._checks.complete_run(of, run, conclusion, run.suite.app.owner)
        return run

    async def rerequest(self, repository: str, sha: str, *, suite: bool = False) -> None:
        """A person re-runs the App's newest check run of a commit, or its suite (`suite`), on GitHub's page.

        The suite is queued again, without a conclusion; the delivery is described with one. The run stays as it was.
        https://docs.github.com/rest/checks/runs#rerequest-a-check-run
        """
        of = self.repository(repository)
        run = [run for run in self.check_runs(repository) if run.head_sha == sha][-1]
        if suite:
            await self._checks.tell_suite(of, run.suite, "rerequested", of.owner)
        else:
            self._checks.tell_run(of, run, "rerequested", of.owner)
        run.suite.status, run.suite.conclusion = "queued", None

    def pull_requests(self, repository: str, state: str = "open") -> list[PullRequest]:
        return [pull for pull in self.repository(repository).pulls if state in ("all", pull.state)]

    def comments(self, repository: str, number: int) -> list[Comment]:
        return [c for c in self.repository(repository).comments.values() if c.number == number]

    def reactions(self, repository: str) -> list[Reaction]:
        return list(self.repository(repository).reactions.values())

    def check_runs(self, repository: str, *, by_app: bool = True) -> list[CheckRun]:
        """The App's own check runs, or (`by_app=False`) those of everybody else."""
        runs = self.repository(repository).check_runs.values()
        return [run for run in runs if (run.suite.app is self.world.app) == by_app]

    def runs(self, repository: str) -> list[WorkflowRun]:
        return list(self.repository(repository).runs.values())

    # Installations

    def installation(self, owner: str) -> Installation:
        """The installation on an account. Raises `KeyError` when there is none."""
        for installation in self.world.installations.values():
            if installation.account.login == owner:
                return installation
        raise KeyError(owner)

    def tell_installation(self, owner: str, action: str = "created") -> None:
        """Deliver an `installation` event; "deleted" and "suspend"/"unsuspend" also take effect."""
        installation = self.installation(owner)
        if action in ("suspend", "unsuspend"):
            installation.suspended = now() if action == "suspend" else None
        seen = [self._light(r) for r in self.world.repositories_of(installation)]
        payload: Json = {"action": action, "repositories": seen, "sender": self._show.user(installation.account)}
        self.world.emit("installation", payload, None, installation)
        if action == "deleted":
            del self.world.installations[installation.id]

    def tell_repositories(self, owner: str, added: list[str], removed: list[str] | None = None) -> None:
        """Deliver an `installation_repositories` event about repositories that exist."""
        installation = self.installation(owner)
        payload: Json = {
            "action": "added" if added else "removed",
            "repository_selection": installation.selection,
            "repositories_added": [self._light(self.repository(name)) for name in added],
            "repositories_removed": [self._light(self.repository(name)) for name in removed or []],
            "requester": None,
            "sender": self._show.user(installation.account),
        }
        self.world.emit("installation_repositories", payload, None, installation)

    def _light(self, repository: Repository) -> Json:
        full = self._show.minimal_repository(repository)
        return {key: full[key] for key in ("id", "node_id", "name", "full_name", "private")}

    def expire_tokens(self) -> None:
        """Every installation token made so far is refused from now on."""
        self.tokens.expire()

    # What happened

    @property
    def requests(self) -> list[str]:
        """The ordered request log: "POST /repos/acme/sample/pulls > 201"; git's own requests are in it too."""
        return self.api.requests

    @property
    def limits(self) -> WriteLimits:
        return self.api.limits

    def watch(self, watcher: Callable[[Call], None]) -> None:
        """Be told of every request to the API as it arrives, before anything is done about it."""
        self.api.watchers.append(watcher)

    @property
    def deliveries(self) -> list[Attempt]:
        """Every attempt at delivering, in order of emission."""
        return self._deliveries.log

    def redeliver(self, attempt: Attempt) -> Attempt:
        """Send it again under the same GUID."""
        return self._deliveries.redeliver(attempt.id)


def _judges() -> tuple[Judge | None, Callable[[str, Json], list[str]] | None]:
    from tests.standins.github import openapi, webhook_schema

    found = openapi.judge(), webhook_schema.judge()
    if None in found:
        warnings.warn("GitHub's own descriptions are not on this machine: its stand-in is not judged by them", stacklevel=3)
    return found
