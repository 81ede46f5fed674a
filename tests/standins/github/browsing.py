"""What a person sees who follows a link to the stand-in: small pages of a repository, commit, pull request, check or run.

Only who asks for HTML gets here (browsers do, the API's clients never), so nothing that a person looks at is judged, logged or
struck by faults, and the product cannot come to depend on a page. Nobody is signed in: private repositories are not found.
All that is shown is foreign: templates escape it, Markdown keeps hardly any HTML, and no script may run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tests.standins.github.git.plumbing import Commit
from tests.standins.github.routing import Actor
from tests.standins.github.state import CheckRun, Issue, PullRequest, Repository, WorkflowRun
from tests.standins.github.world import World

LONGEST = 200_000  # characters of a diff or a log
SHOWN = 20  # commits
_PATH = re.compile(
    r"/(?P<repository>[^/]+/[^/]+?)(?P<git>\.git)?(/(?P<kind>commit|pull|issues|runs|actions/runs)/(?P<id>[0-9a-f]{1,64})(/.*)?)?/?"
)
_KINDS = {"+": "add", "-": "cut", "@": "hunk"}
_SOURCE = (Path(__file__).parent / "page.html").read_text()
_TEMPLATE = Environment(autoescape=True).from_string(_SOURCE)
_STYLE = _SOURCE.partition("<style>")[2].partition("</style>")[0]
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


@dataclass(frozen=True, slots=True)
class _Part:
    """A section: Markdown, rows of (text, path in the repository, note), or a log or diff."""

    title: str
    anchor: str = ""
    prose: str = ""
    rows: Sequence[tuple[str, str, str]] = ()
    log: str = ""
    diff: bool = False


@dataclass(frozen=True, slots=True)
class _Page:
    title: str
    lead: str
    parts: Sequence[_Part] = ()
    state: str = ""


class Browsing:
    def __init__(self, world: World) -> None:
        self.world = world

    def wants(self, request: Request) -> bool:
        """Whether a browser asks: for a page, or by itself for the icon of one."""
        asked = "text/html" in request.headers.get("accept", "") or request.url.path == "/favicon.ico"
        return asked and request.method in ("GET", "HEAD")

    async def __call__(self, request: Request) -> Response:
        match = _PATH.fullmatch(request.scope["path"])
        repository = self.world.repository(match["repository"]) if match else None
        if match is None or repository is None or not Actor().sees(repository):
            return _answer(None, "")
        if match["git"]:
            return RedirectResponse(f"/{repository.full_name}", 302, _HEADERS)
        page = await self._page(repository, match["kind"], match["id"] or "")
        return _answer(page, repository.full_name)

    async def _page(self, repository: Repository, kind: str | None, name: str) -> _Page | None:
        number = int(name) if name.isdecimal() and len(name) < 20 else -1
        if kind is None:
            return await _repository(repository)
        if kind == "commit":
            sha = await repository.git.resolve(name)
            return await _commit(repository, sha) if sha else None
        if kind == "runs":
            check = repository.check_runs.get(number)
            return _check(check) if check else None
        if kind == "actions/runs":
            run = repository.runs.get(number)
            return _run(run) if run else None
        issue = repository.issues.get(number)
        return await _issue(repository, issue) if issue else None


def _answer(page: _Page | None, home: str) -> Response:
    status = 200 if page else 404
    page = page or _Page("Not found", "There is no such page at this stand-in.")
    return HTMLResponse(_TEMPLATE.render(page=page, home=home, kinds=_KINDS), status, _HEADERS)


async def _repository(repository: Repository) -> _Page:
    branches = await repository.git.refs("refs/heads/")
    commits = await repository.git.commits(repository.default_branch, SHOWN) if branches else []
    issues = reversed(repository.issues.values())
    parts = [
        _Part("Pull requests and issues", rows=[(f"#{i.number} {i.title}", f"issues/{i.number}", _state(i)) for i in issues]),
        _Part("Branches", rows=[(name[11:], f"commit/{sha}", sha[:10]) for name, sha in branches.items()]),
        _Part(f"Last commits on {repository.default_branch}", rows=_commits(commits)),
    ]
    return _Page(repository.full_name, f"default branch {repository.default_branch}", parts)


async def _commit(repository: Repository, sha: str) -> _Page:
    commit = await repository.git.commit(sha)
    title, _, rest = commit.message.partition("\n")
    diff = await repository.git.run("show", "--format=", "--no-color", sha)
    parents = [(parent[:10], f"commit/{parent}", "") for parent in commit.parents]
    parts = [_Part("Message", log=rest.strip())] if rest.strip() else []
    parts += [_Part("Parents", rows=parents), *_checks(repository, sha), _diff(diff)]
    return _Page(title, f"commit {sha} by {commit.author.name}", parts)


async def _issue(repository: Repository, issue: Issue) -> _Page:
    parts = [_Part(f"{issue.user.login} wrote", prose=issue.body or "*No description.*")]
    lead = f"by {issue.user.login}"
    for comment in repository.comments.values():
        if comment.number == issue.number:
            anchor = f"issuecomment-{comment.id}"
            parts.append(_Part(f"{comment.user.login} commented", anchor, comment.body))
    if (pull := issue.pull) is not None:
        lead = f"{lead}: {pull.head_branch} into {pull.base_branch}"
        parts += await _change(repository, pull)
    return _Page(f"{issue.title} #{issue.number}", lead, parts, _state(issue))


async def _change(repository: Repository, pull: PullRequest) -> list[_Part]:
    git, head = repository.git, pull.head_sha
    start = await git.merge_base(pull.base_sha, head) or pull.base_sha
    commits = _Part("Commits", rows=_commits(await git.commits(f"{start}..{head}", SHOWN)))
    return [commits, *_checks(repository, head), _diff(await git.run("diff", "--no-color", start, head))]


def _commits(commits: Sequence[Commit]) -> list[tuple[str, str, str]]:
    return [(c.message.partition("\n")[0], f"commit/{c.sha}", f"{c.sha[:10]} by {c.author.name}") for c in commits]


def _state(issue: Issue) -> str:
    if issue.pull is not None and issue.pull.merged is not None:
        return "merged"
    return "draft" if issue.pull is not None and issue.pull.draft and issue.state == "open" else issue.state


def _checks(repository: Repository, sha: str) -> list[_Part]:
    runs = [run for run in repository.check_runs.values() if run.head_sha == sha]
    return [_Part("Checks", rows=[(r.name, f"runs/{r.id}", r.conclusion or r.status) for r in runs])] if runs else []


def _check(run: CheckRun) -> _Page:
    texts = [(name, str(run.output.get(name) or "")) for name in ("summary", "text")]
    parts = [_Part("Commit", rows=[(run.head_sha[:10], f"commit/{run.head_sha}", "")])]
    parts += [_Part(name.capitalize(), prose=text) for name, text in texts if text]
    return _Page(run.name, str(run.output.get("title") or run.suite.app.name), parts, run.conclusion or run.status)


def _run(run: WorkflowRun) -> _Page:
    parts = [_Part("Commit", rows=[(run.head_sha[:10], f"commit/{run.head_sha}", run.head_branch)])]
    for job in run.jobs:
        log = job.log.decode(errors="replace")[-LONGEST:]
        parts.append(_Part(f"{job.name}, attempt {job.attempt}: {job.conclusion or job.status}", log=log))
    return _Page(f"{run.workflow.name} #{run.number}", f"on {run.event}", parts, run.conclusion or run.status)


def _diff(diff: bytes) -> _Part:
    text = diff.decode(errors="replace").rstrip("\n")
    return _Part("Changes", log=text[:LONGEST] or "nothing", diff=True)


def _kept(_: Any, tokens: Sequence[Any], at: int, *__: Iterable[Any]) -> str:
    """HTML inside Markdown: what folds or marks a text stays, comments go, all else is shown as it was written."""
    seen = html.escape(re.sub(r"<!--.*?-->", "", tokens[at].content, flags=re.DOTALL))
    return re.sub(r"&lt;(/?(?:code|details|summary))&gt;", r"<\1>", seen)


_MARKDOWN = MarkdownIt("js-default", {"html": True}).disable("image")
_MARKDOWN.add_render_rule("html_block", _kept)
_MARKDOWN.add_render_rule("html_inline", _kept)
_TEMPLATE.environment.filters["markdown"] = lambda text: Markup(_MARKDOWN.render(text))
