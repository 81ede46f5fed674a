"""What became of the deliveries, judged by what is on the stand-in alone: its git, its objects, its log of requests.

A red run whose delivery was acknowledged must end in exactly one pull request with exactly one branch and one commit that
heals it, and each asking (the run, every `/heal`) in one concluded check run; a command also in one comment, and nothing else
in any. Work that was interrupted goes on when a worker asks about it again. Nothing here looks at the service's own database.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.standins.github import GitHub
from tests.standins.github.deliveries import Attempt as Delivery

HEALED = "Repair in #"  # how the title of a check run begins that tells of a pull request
OWN = "selfheal/"
_OK = 202


@dataclass(frozen=True, slots=True)
class Head:
    """A red commit of which the service took a delivery. `commands`: a pull request's number per comment that asked for it."""

    repository: str
    sha: str
    by_run: bool
    commands: tuple[int, ...]

    @property
    def askings(self) -> int:
        return self.by_run + len(self.commands)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`acknowledged` counts different deliveries that were answered with 202, `red` the commits that they ask to be healed."""

    acknowledged: int
    red: int
    lost: tuple[str, ...]
    doubled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the API as it arrived, at `at` (monotonic). `worker`: process id of the worker that sent it, if one did."""

    at: float
    method: str
    path: str
    worker: int | None


@dataclass(frozen=True, slots=True)
class Blow:
    """Something was done at `at` (monotonic) to the work on `repository`, or to the worker `struck`."""

    repository: str
    at: float
    struck: int | None = None


def taken_over(blow: Blow, requests: Iterable[Request]) -> float | None:
    """Seconds until a worker, another one than was struck, asked about the repository; None while none has.

    Nothing in the product asks about a repository there but the worker that has claimed its attempt.
    """
    about = f"/repos/{blow.repository}/"
    for request in requests:
        goes_on = request.worker is not None and request.worker != blow.struck
        if request.at > blow.at and goes_on and request.path.startswith(about):
            return request.at - blow.at
    return None


async def judge(github: GitHub, deliveries: Iterable[Delivery], healed: str | bytes | None, path: str) -> Verdict:
    """The verdict on these deliveries as things stand; `healed` is the text that heals the file at `path`."""
    assert isinstance(healed, str)
    deliveries = list(deliveries)
    taken = {delivery.guid: delivery for delivery in deliveries if delivery.status_code == _OK}
    heads = _heads(github, list(taken.values()))
    lost: list[str] = []
    doubled: list[str] = []
    for head in heads:
        missing, surplus = await _of(github, head, healed.encode(), path)
        lost += missing
        doubled += surplus
    for repository in sorted(_repositories(deliveries)):
        missing, surplus = _answers(github, repository, [head for head in heads if head.repository == repository])
        lost += missing
        doubled += surplus
        opened = sum(line == f"POST /repos/{repository}/pulls > 201" for line in github.requests)
        if opened > (count := sum(head.repository == repository for head in heads)):
            doubled.append(f"{repository}: {opened} pull requests were opened for {count} heads")
    return Verdict(len(taken), len(heads), tuple(lost), tuple(doubled))


def _repositories(deliveries: Iterable[Delivery]) -> set[str]:
    payloads = (delivery.payload for delivery in deliveries)
    return {payload["repository"]["full_name"] for payload in payloads if "repository" in payload}


def _heads(github: GitHub, taken: list[Delivery]) -> list[Head]:
    by_run: set[tuple[str, str]] = set()
    commands: dict[tuple[str, str], dict[int, int]] = {}  # comment id -> pull request
    for delivery in taken:
        payload = delivery.payload
        if delivery.event == "workflow_run" and delivery.action == "completed":
            run = payload["workflow_run"]
            if run["conclusion"] == "failure" and not run["head_branch"].startswith(OWN):
                by_run.add((payload["repository"]["full_name"], run["head_sha"]))
        elif delivery.event == "issue_comment" and re.match(r"/heal\b", payload["comment"]["body"]):
            name, number = payload["repository"]["full_name"], payload["issue"]["number"]
            pull = github.repository(name).issues[number].pull
            assert pull is not None
            commands.setdefault((name, pull.head_sha), {})[payload["comment"]["id"]] = number
    return [
        Head(name, sha, (name, sha) in by_run, tuple(commands.get((name, sha), {}).values()))
        for name, sha in sorted(by_run | commands.keys())
    ]


def _answers(github: GitHub, repository: str, heads: list[Head]) -> tuple[list[str], list[str]]:
    """Comments that lack in a repository, and those that are too many: one for a command, none for anything else."""
    due = Counter(number for head in heads for number in head.commands)
    said = Counter(comment.number for comment in github.repository(repository).comments.values() if comment.by_app)
    told = {number: f"{repository}: {said[number]} answers on #{number} instead of {due[number]}" for number in due | said}
    lost = [told[number] for number in due if said[number] < due[number]]
    return lost, [told[number] for number in said if said[number] > due[number]]


async def _of(github: GitHub, head: Head, healed: bytes, path: str) -> tuple[list[str], list[str]]:
    """What one head lacks, and what it has too much of."""
    name = f"{head.repository}@{head.sha[:8]}"
    lost: list[str] = []
    branches = []
    for branch in await github.branches(head.repository):
        if branch.startswith(OWN) and head.sha in {each.sha for each in await github.commits(head.repository, branch)}:
            branches.append(branch)
    pulls = [pull for pull in github.pull_requests(head.repository, "all") if pull.head_branch in branches]
    runs = [run for run in github.check_runs(head.repository) if run.head_sha == head.sha]
    counts = {"branches": len(branches), "pull requests": len(pulls), "check runs": len(runs)}
    wanted = {"branches": 1, "pull requests": 1, "check runs": head.askings}
    for branch in branches:
        commits = await github.commits(head.repository, f"{head.sha}..{branch}")
        counts["commits"], wanted["commits"] = counts.get("commits", 0) + len(commits), wanted.get("commits", 0) + 1
        if await github.file(head.repository, path, branch) != healed:
            lost.append(f"{name}: {branch} does not heal it")
    lost += [f"{name}: a check run is {run.status}" for run in runs if run.status != "completed"]
    titles = [(run.output or {}).get("title") for run in runs if run.status == "completed"]
    lost += [f"{name}: its check run says {title}" for title in titles if not str(title).startswith(HEALED)]
    lost += [f"{name}: {counts[what]} {what} instead of {much}" for what, much in wanted.items() if counts[what] < much]
    doubled = [f"{name}: {counts[what]} {what} instead of {much}" for what, much in wanted.items() if counts[what] > much]
    return lost, doubled
